//! Idempotent ingest: a request that is sent again is stored once.
//!
//! A sender that got no answer, or was told that the outcome is unknown, cannot decide whether to send again. It may
//! give its request a key. The key is stored in the transaction of the events, together with the answer, so that both
//! are on stable storage or neither is. A request with the same key and the same body gets the first answer and stores
//! nothing; with another body it is refused.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;

/// How long a key is kept: a day, in microseconds.
const WINDOW: i64 = 24 * 3600 * 1_000_000;

/// So many of the newest keys of a source stay. Older ones are deleted now and then, so that there may be more.
const MOST: i64 = 50_000;

/// Each time the process has stored so many keys, those of the source that stored the last one are counted.
const LOOK: u64 = 1_000;

/// The key of a request and its body, both as digests, which are short whatever was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// The SHA-256 of the key and of the identity of the sender.
    pub name: [u8; 32],
    /// The SHA-256 of the body.
    pub body: [u8; 32],
}

/// A key that is to be stored with its call.
#[derive(Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: RequestKey,
    /// When the request arrived, in microseconds.
    pub(crate) now: i64,
    /// The number of its events with a time far ahead. It is part of the answer and depends on the time of arrival.
    pub(crate) future_times: usize,
}

/// The answer to an earlier request with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlierRequest {
    pub(crate) same_body: bool,
    pub(crate) rows: usize,
    pub(crate) future_times: usize,
}

/// Looks for an earlier request with this key, in the transaction that would store this one.
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

/// Stores the key of a request whose events have this `seq`. `nth` counts the keys that this process has stored.
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
