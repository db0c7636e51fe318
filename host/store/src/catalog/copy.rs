//! A copy of the catalog without the write-ahead rows, for another machine.
//!
//! It is one consistent state, read while a store works. The rows of `wal` stay behind: they may be as large as memory, and
//! are on the disk of the server only. So do the keys of requests whose events are such rows, because a request that is
//! sent again would be answered as stored although its events are lost with the disk.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::{
    catalog::{
        database::{self, PATIENCE},
        names::delete_all,
    },
    data_folder::paths,
    error::{Result, StoreError},
};

/// The most keys of one sender and source in a copy, the newest ones: a key has 64 bytes that cannot be compressed.
const MOST_KEYS: i64 = 1_000;

/// Tables that are not copied row by row.
const OTHERS: [&str; 3] = ["wal", "ingest_keys", "meta"];

/// What a copy says of the write-ahead log that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopiedLog {
    /// The highest `seq` that the log ever had.
    pub(crate) last_seq: i64,
    /// Of each source with calls that no segment held, the `seq` of the first.
    pub(crate) unflushed: BTreeMap<Uuid, i64>,
}

/// Writes a copy of the catalog of a data folder to `target`, which is replaced. It is not synced. Blocks.
pub(crate) fn write_copy(data: &Path, target: &Path) -> Result<CopiedLog> {
    delete_all(target)?;
    let done = fill(data, target);
    if done.is_err() {
        let _ = delete_all(target);
    }
    done
}

fn fill(data: &Path, target: &Path) -> Result<CopiedLog> {
    let mut copy = Connection::open(target)?;
    copy.busy_timeout(PATIENCE)?;
    database::format(&copy)?;
    // A copy that is cut off is made anew, so that nothing has to be undone.
    copy.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    copy.pragma_update(None, "synchronous", "off")?;
    // Tables are filled by name.
    copy.pragma_update(None, "foreign_keys", false)?;
    database::migrate(&mut copy, target)?;
    let live = data.join(paths::CATALOG);
    let name = live.to_str().ok_or_else(|| StoreError::corrupt("the path of the catalog", "it is not UTF-8"))?;
    copy.execute("ATTACH DATABASE ?1 AS live", [name])?;
    // All statements of a transaction read the same state.
    let tx = copy.transaction()?;
    let tables: Vec<String> = {
        let mut tables = tx.prepare(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )?;
        let names = tables.query_map([], |row| row.get(0))?;
        names.collect::<rusqlite::Result<_>>()?
    };
    for table in tables.iter().filter(|table| !OTHERS.contains(&table.as_str())) {
        let columns = columns(&tx, table)?;
        tx.execute(&format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM live.{table}"), [])?;
    }
    copy_keys(&tx)?;
    // After the tables whose triggers count changes here.
    tx.execute("DELETE FROM main.meta", [])?;
    tx.execute("INSERT INTO main.meta (key, value) SELECT key, value FROM live.meta", [])?;
    tx.execute("DELETE FROM main.sqlite_sequence", [])?;
    tx.execute("INSERT INTO main.sqlite_sequence (name, seq) SELECT name, seq FROM live.sqlite_sequence", [])?;
    let last = "SELECT seq FROM live.sqlite_sequence WHERE name = 'wal'";
    let last_seq = tx.query_row(last, [], |row| row.get(0)).optional()?.unwrap_or(0);
    let unflushed = {
        let mut first = tx.prepare(
            "SELECT sources.id, min(wal.seq) FROM live.wal JOIN live.sources ON sources.key = wal.source GROUP BY wal.source",
        )?;
        let found = first.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.collect::<rusqlite::Result<_>>()?
    };
    tx.commit()?;
    copy.execute("DETACH DATABASE live", [])?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(CopiedLog { last_seq, unflushed })
}

/// The columns of a table, as a list.
fn columns(conn: &Connection, table: &str) -> Result<String> {
    let sql = "SELECT group_concat('\"' || name || '\"') FROM pragma_table_info(?1)";
    Ok(conn.query_row(sql, [table], |row| row.get(0))?)
}

/// Copies the newest keys of each sender whose events are in segments. A key begins with what stands for its sender.
fn copy_keys(tx: &Connection) -> Result<()> {
    let columns = columns(tx, "ingest_keys")?;
    let mut of_source = tx.prepare(&format!(
        "INSERT INTO main.ingest_keys ({columns}) SELECT {columns} FROM
             (SELECT *, row_number() OVER (PARTITION BY substr(name, 1, 8) ORDER BY created_at DESC) AS place
              FROM live.ingest_keys AS k
              WHERE source = ?1 AND NOT EXISTS (SELECT 1 FROM live.wal WHERE wal.seq = k.seq))
         WHERE place <= ?2"
    ))?;
    let mut sources = tx.prepare("SELECT key FROM live.sources")?;
    let keys = sources.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    keys.iter().try_for_each(|key| of_source.execute([*key, MOST_KEYS]).map(drop))?;
    Ok(())
}

/// What of the catalog makes a new copy worth its while, besides its segments: settings, the count of changes of tokens and
/// endpoints, the sources, and the messages of alerts. Two equal ones mean that nothing of it changed.
pub(crate) fn state_of(conn: &Connection) -> Result<Vec<(String, String)>> {
    let mut statement = conn.prepare_cached(
        "SELECT key, value FROM meta WHERE key NOT IN ('failed_writes', 'age_clock')
         UNION ALL SELECT hex(id), name || ' ' || coalesce(retention_seconds, '') || ' ' || coalesce(retention_bytes, '')
             || ' ' || coalesce(tenant, '') FROM sources
         UNION ALL SELECT hex(endpoint) || name, coalesce(hex(occurrence), '') || ' ' || announced FROM alerts
         UNION ALL SELECT name, CAST(seq AS TEXT) FROM sqlite_sequence WHERE name = 'alert_messages'
         ORDER BY 1, 2",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
