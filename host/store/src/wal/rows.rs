//! The rows of the table `wal`: inserted with each commit, read at the start, and deleted when a segment holds their
//! events.
//!
//! A row is one ingest call; its `seq` grows and is never used twice.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, TransactionBehavior, params};

use crate::{
    catalog::database,
    error::{Result, StoreError},
    ingest::tape_reader::stored_events,
    memory::batch_builder::RawCall,
    source::Source,
    wal::idempotency::{self, EarlierRequest, KeyedRequest, NamedEvents},
};

/// A call that is to be inserted.
#[derive(Debug)]
pub(crate) struct WalRecord<'c> {
    /// The short key of its source.
    pub(crate) source: i64,
    pub(crate) rows: usize,
    pub(crate) body: &'c [u8],
    pub(crate) once: Option<&'c KeyedRequest>,
    pub(crate) named: Option<&'c NamedEvents>,
}

/// What happened to a call in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertOutcome {
    /// It was inserted with this `seq`.
    New(i64),
    /// It was not inserted: an earlier request had its key.
    Repeated(EarlierRequest),
}

/// Inserts calls in one transaction, except those that are stored already. `kept` counts the keys that this process
/// has stored.
pub(crate) fn append<'c>(
    conn: &mut Connection,
    calls: impl ExactSizeIterator<Item = WalRecord<'c>>,
    kept: &mut u64,
) -> Result<Vec<InsertOutcome>> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut written = Vec::with_capacity(calls.len());
    {
        let mut statement = tx.prepare_cached("INSERT INTO wal (source, body) VALUES (?1, ?2)")?;
        for WalRecord { source, rows, body, once, named } in calls {
            if let Some(once) = once
                && let Some(earlier) = idempotency::find(&tx, source, once)?
            {
                written.push(InsertOutcome::Repeated(earlier));
                continue;
            }
            statement.execute(params![source, body])?;
            let seq = tx.last_insert_rowid();
            idempotency::keep(&tx, source, (once, named), (seq, rows), kept)?;
            written.push(InsertOutcome::New(seq));
        }
    }
    tx.commit()?;
    Ok(written)
}

/// The highest `seq` that the table ever had.
pub(crate) fn last_seq(conn: &Connection) -> Result<i64> {
    Ok(conn.query_row("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'wal'", [], |row| row.get(0))?)
}

/// Lets the `seq` of the table continue after a number, unless it is higher already.
pub(crate) fn skip_to(conn: &Connection, seq: i64) -> Result<()> {
    let changed = conn.execute("UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'wal'", [seq])?;
    if changed == 0 {
        conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('wal', ?1)", [seq])?;
    }
    Ok(())
}

/// Makes certain that nothing of a failed transaction is in the log. `last` is the highest `seq` that was acknowledged.
///
/// SQLite has rolled the failed transaction back. But its pages may be complete in the file, after those that count,
/// and a restart would recover them. This transaction overwrites them. It writes new pages and syncs them, so that its
/// success, unlike that of a repeated sync, means that they are on disk.
pub(crate) fn overwrite_failed(conn: &mut Connection, last: i64) -> Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("DELETE FROM ingest_keys WHERE seq > ?1", [last])?;
    tx.execute("DELETE FROM wal WHERE seq > ?1", [last])?;
    // So that something is written in any case.
    tx.execute(
        "INSERT INTO meta (key, value) VALUES ('failed_writes', '1')
         ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
        [],
    )?;
    tx.commit()?;
    // What remains of the file after it is truncated too, if no reader uses the log at the moment; it would look like
    // damage.
    let _ = conn.busy_timeout(Duration::ZERO);
    let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    conn.busy_timeout(database::PATIENCE)?;
    Ok(())
}

/// Loads the write-ahead log into memory, oldest first. Returns the number of rows.
pub(crate) fn replay(conn: &Connection, find: impl Fn(i64) -> Option<Arc<Source>>) -> Result<usize> {
    let mut statement = conn.prepare("SELECT seq, source, body FROM wal ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut replayed = 0;
    while let Some(row) = rows.next()? {
        let (seq, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let body = row.get_ref(2)?.as_blob().map_err(|e| StoreError::corrupt("the write-ahead log", e))?;
        let source = find(key)
            .ok_or_else(|| StoreError::corrupt(format!("write-ahead row {seq}"), format!("no source has key {key}")))?;
        // All events are parsed and none is kept: a damaged row must be found now and not by the first query.
        let rows = stored_events(body, seq).try_fold(0, |rows, event| event.map(|_| rows + 1))?;
        replayed += rows;
        source.push(RawCall::of_body(seq, rows, Arc::new(body.to_vec())));
    }
    Ok(replayed)
}

/// The calls of a source that no segment holds yet, up to the row `last`: the newest of them whose bodies have at most
/// `bytes` together, oldest first.
pub(crate) fn unflushed(conn: &Connection, source_key: i64, last: i64, bytes: usize) -> Result<Vec<RawCall>> {
    let mut statement =
        conn.prepare_cached("SELECT seq, body FROM wal WHERE source = ?1 AND seq <= ?2 ORDER BY seq DESC")?;
    let mut rows = statement.query([source_key, last])?;
    let (mut calls, mut left) = (Vec::new(), bytes);
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let body = row.get_ref(1)?.as_blob().map_err(|e| StoreError::corrupt("the write-ahead log", e))?;
        let Some(rest) = left.checked_sub(body.len()) else { break };
        left = rest;
        let rows = stored_events(body, seq).try_fold(0, |rows, event| event.map(|_| rows + 1))?;
        calls.push(RawCall::of_body(seq, rows, Arc::new(body.to_vec())));
    }
    calls.reverse();
    Ok(calls)
}

/// Deletes the write-ahead rows of a flushed batch, in a transaction of the caller.
pub(crate) fn delete_flushed(conn: &Connection, source_key: i64, first_seq: i64, last_seq: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM wal WHERE seq BETWEEN ?1 AND ?2 AND source = ?3")?
        .execute([first_seq, last_seq, source_key])?;
    Ok(())
}
