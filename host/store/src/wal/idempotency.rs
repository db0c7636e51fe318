//! Idempotent ingest: a request that is sent again is stored once.
//!
//! A sender that got no answer, or was told that the outcome is unknown, cannot decide whether to send again. It may
//! give its request a key. The key is stored in the transaction of the events, together with the answer, so that both
//! are on stable storage or neither is. A request with the same key and the same body gets the first answer and stores
//! nothing; with another body it is refused.
//!
//! Events may have names of their own (documents of Elasticsearch), each of which is a key in the same way.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::OwnedMutexGuard;

use crate::{error::Result, ingest::request_key::RequestKey};

/// How long a key is kept: a day, in microseconds.
const WINDOW: i64 = 24 * 3600 * 1_000_000;

/// So many of the newest keys of a sender at a source stay. Older ones are deleted now and then, so that there may be more.
const MOST: usize = 50_000;

/// Each time the process has stored so many keys, those of the sender and source that stored the last one are counted.
const LOOK: u64 = 1_000;

/// A key that is to be stored with its call.
#[derive(Debug)]
pub(crate) struct KeyedRequest {
    pub(crate) key: RequestKey,
    /// When the request arrived, in microseconds.
    pub(crate) now: i64,
    /// The number of its events with a time far ahead. It is part of the answer and depends on the time of arrival.
    pub(crate) future_times: usize,
}

/// The names of events that are to be stored with their call. None of them is stored yet, and until the call is, no other call
/// with names of this source comes between.
#[derive(Debug)]
pub(crate) struct NamedEvents {
    pub(crate) keys: Vec<RequestKey>,
    /// When the events arrived, in microseconds.
    pub(crate) now: i64,
    pub(crate) _turn: OwnedMutexGuard<()>,
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
    let oldest = once.now.saturating_sub(WINDOW);
    let found = statement.query_row(params![source, once.key.stored_name(), oldest], |row| {
        Ok(EarlierRequest {
            same_body: row.get_ref(0)?.as_blob().is_ok_and(|body| body == once.key.body),
            rows: row.get::<_, i64>(1)?.unsigned_abs() as usize,
            future_times: row.get::<_, i64>(2)?.unsigned_abs() as usize,
        })
    });
    Ok(found.optional()?)
}

/// So many names of events are looked up with one statement at most, and so many others are waited for by none.
pub(crate) const LOOKED_UP: usize = 256;

/// Looks up the digests of the events that are stored under names, at most [`LOOKED_UP`] of them. A digest that cannot be read is
/// that of no event.
pub(crate) fn bodies_of(
    conn: &Connection,
    source: i64,
    names: &[[u8; 32]],
    now: i64,
    found: &mut HashMap<[u8; 32], [u8; 32]>,
) -> Result<()> {
    let Some(last) = names.last() else { return Ok(()) };
    // Few texts, so that they stay prepared. What is left of one is filled with a name that is there.
    let places = [1, 16, LOOKED_UP].into_iter().find(|places| *places >= names.len()).unwrap_or(LOOKED_UP);
    let list = vec!["?"; places].join(", ");
    let text = format!("SELECT name, body FROM ingest_keys WHERE source = ? AND created_at > ? AND name IN ({list})");
    let mut statement = conn.prepare_cached(&text)?;
    statement.raw_bind_parameter(1, source)?;
    statement.raw_bind_parameter(2, now.saturating_sub(WINDOW))?;
    for (place, name) in names.iter().chain(std::iter::repeat(last)).take(places).enumerate() {
        statement.raw_bind_parameter(place + 3, name)?;
    }
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let digest = |column| {
            Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_blob().ok().and_then(|blob| blob.try_into().ok()))
        };
        if let Some(name) = digest(0)? {
            found.insert(name, digest(1)?.unwrap_or_default());
        }
    }
    Ok(())
}

/// Stores the key of a request whose events have this `seq`, and those of its events. `kept` counts the keys that this process has stored.
pub(crate) fn keep(
    tx: &Connection,
    source: i64,
    (once, named): (Option<&KeyedRequest>, Option<&NamedEvents>),
    (seq, rows): (i64, usize),
    kept: &mut u64,
) -> Result<()> {
    let Some(now) = once.map(|once| once.now).or(named.map(|named| named.now)) else { return Ok(()) };
    tx.prepare_cached("DELETE FROM ingest_keys WHERE source = ?1 AND created_at <= ?2")?
        .execute([source, now.saturating_sub(WINDOW)])?;
    let mut insert = tx.prepare_cached(
        "INSERT OR REPLACE INTO ingest_keys (source, name, body, seq, rows, future_times, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let of_request = once.map(|once| (&once.key, rows, once.future_times));
    let of_events = named.into_iter().flat_map(|named| &named.keys).map(|key| (key, 1, 0));
    for (key, rows, future_times) in of_request.into_iter().chain(of_events) {
        insert.execute(params![source, key.stored_name(), key.body, seq, rows as i64, future_times as i64, now])?;
        *kept += 1;
        if kept.is_multiple_of(LOOK) {
            prune(tx, source, key)?;
        }
    }
    Ok(())
}

/// Deletes the oldest keys of a sender at a source beyond [`MOST`].
fn prune(tx: &Connection, source: i64, key: &RequestKey) -> Result<()> {
    let (first, mut last) = (key.sender.as_slice(), [u8::MAX; 33]);
    last.iter_mut().zip(first).for_each(|(to, from)| *to = *from);
    tx.prepare_cached(
        "DELETE FROM ingest_keys WHERE source = ?1 AND name BETWEEN ?2 AND ?3 AND seq <
             (SELECT seq FROM ingest_keys WHERE source = ?1 AND name BETWEEN ?2 AND ?3
              ORDER BY seq DESC LIMIT 1 OFFSET ?4)",
    )?
    .execute(params![source, first, last.as_slice(), (MOST - 1) as i64])?;
    Ok(())
}
