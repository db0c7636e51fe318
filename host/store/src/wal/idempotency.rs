//! A request that is sent again is stored once.
//!
//! A sender that got no answer, or was told that nobody knows, cannot tell whether to send again. It
//! may name its request: the name is kept in the transaction of its rows, with what was answered, so
//! that both are on stable storage or neither is. The same name with the same body is answered as
//! the first time and stores nothing; with another body it is refused.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;

/// How long a name is kept, in microseconds: a day.
const WINDOW: i64 = 24 * 3600 * 1_000_000;

/// Names of one source that are kept; the oldest go first.
const MOST: i64 = 50_000;

/// The number of names is looked at when so many came.
const LOOK: u64 = 1_000;

/// The name of a request, and its body: both as digests, which are short whatever was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// The SHA-256 of the name and of whoever gave it.
    pub name: [u8; 32],
    /// The SHA-256 of the body.
    pub body: [u8; 32],
}

/// A name on its way to the log.
#[derive(Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: RequestKey,
    /// When it came, in microseconds.
    pub(crate) now: i64,
    /// Its events with a time far ahead, which is part of the answer and depends on the time.
    pub(crate) future_times: usize,
}

/// What a request of the same name was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlierRequest {
    pub(crate) same_body: bool,
    pub(crate) rows: usize,
    pub(crate) future_times: usize,
}

/// Looks for an earlier request of this name, in the transaction that would store this one.
pub(crate) fn find(tx: &Connection, source: i64, once: &KeyedRequest) -> Result<Option<EarlierRequest>> {
    let mut statement = tx.prepare_cached(
        "SELECT body, rows, future_times FROM ingest_keys WHERE source = ?1 AND name = ?2 AND created_at > ?3",
    )?;
    let found = statement.query_row(params![source, once.key.name, once.now.saturating_sub(WINDOW)], |row| {
        Ok(EarlierRequest {
            same_body: row.get_ref(0)?.as_blob().is_ok_and(|body| body == once.key.body),
            rows: row.get::<_, i64>(1)?.unsigned_abs() as usize,
            future_times: row.get::<_, i64>(2)?.unsigned_abs() as usize,
        })
    });
    Ok(found.optional()?)
}

/// Keeps the name of a request whose rows have this number in the log; `nth` counts the names that
/// this process kept.
pub(crate) fn keep(tx: &Connection, source: i64, once: &KeyedRequest, seq: i64, rows: usize, nth: u64) -> Result<()> {
    tx.prepare_cached("DELETE FROM ingest_keys WHERE source = ?1 AND created_at <= ?2")?
        .execute([source, once.now.saturating_sub(WINDOW)])?;
    tx.prepare_cached(
        "INSERT OR REPLACE INTO ingest_keys (source, name, body, seq, rows, future_times, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        source,
        once.key.name,
        once.key.body,
        seq,
        rows as i64,
        once.future_times as i64,
        once.now
    ])?;
    if nth.is_multiple_of(LOOK) {
        tx.prepare_cached(
            "DELETE FROM ingest_keys WHERE source = ?1 AND seq <=
                 (SELECT seq FROM ingest_keys WHERE source = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute([source, MOST])?;
    }
    Ok(())
}
