//! The rows of the write-ahead log: written with each commit, read at the start, and deleted when a
//! segment holds their events.

use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::{
    error::{Result, StoreError},
    source::{Call, Source},
    tree::stored,
};

/// Stores calls, each as the short key of its source and its body, in one transaction; returns
/// their numbers.
pub(crate) fn append<'c>(
    conn: &mut Connection,
    calls: impl ExactSizeIterator<Item = (i64, &'c [u8])>,
) -> Result<Vec<i64>> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut seqs = Vec::with_capacity(calls.len());
    {
        let mut statement = tx.prepare_cached("INSERT INTO wal (source, body) VALUES (?1, ?2)")?;
        for (source, body) in calls {
            statement.execute(params![source, body])?;
            seqs.push(tx.last_insert_rowid());
        }
    }
    tx.commit()?;
    Ok(seqs)
}

/// Reads the write-ahead log back into memory, oldest first; returns the rows.
pub(crate) fn replay(conn: &Connection, find: impl Fn(i64) -> Option<Arc<Source>>) -> Result<usize> {
    let mut statement = conn.prepare("SELECT seq, source, body FROM wal ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut replayed = 0;
    while let Some(row) = rows.next()? {
        let (seq, key): (i64, i64) = (row.get(0)?, row.get(1)?);
        let body = row.get_ref(2)?.as_blob().map_err(|e| StoreError::corrupt("the write-ahead log", e))?;
        let source = find(key)
            .ok_or_else(|| StoreError::corrupt(format!("write-ahead row {seq}"), format!("no source has key {key}")))?;
        // All are read, and none kept: a damaged row shows now, not at the first query.
        let rows = stored(body, seq).try_fold(0, |rows, event| event.map(|_| rows + 1))?;
        replayed += rows;
        source.push(Call { seq, rows, body: body.to_vec() });
    }
    Ok(replayed)
}

/// Deletes the write-ahead rows of a flushed batch, in a transaction of the caller.
pub(crate) fn forget(conn: &Connection, source_key: i64, first_seq: i64, last_seq: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM wal WHERE seq BETWEEN ?1 AND ?2 AND source = ?3")?
        .execute([first_seq, last_seq, source_key])?;
    Ok(())
}
