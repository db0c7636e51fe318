//! The numbers of calls: which of them a catalog has given, and of which rows are gone.
//!
//! A number is given once in the life of a catalog. A life may end early: a catalog is restored from a backup or made
//! anew, or its latest commits are lost. The calls of the lost time have numbers that followers know, and that must not be
//! given to other calls. So the numbers of each start begin at the time of the start, in microseconds: no server
//! stores a million calls in each second, so that all numbers given before are lower. The numbers that are left out are
//! noted; a follower that has one of them has been told of calls that this catalog does not have.

use rusqlite::{Connection, TransactionBehavior};
use uuid::Uuid;

use crate::{
    catalog::meta,
    error::{Result, StoreError},
    wal::rows,
};

/// The key in the table `meta` of the numbers that were left out: a JSON array of pairs, oldest first. The numbers between
/// the two of a pair were never given, or to calls that are lost.
const LEFT_OUT: &str = "calls_left_out";

/// The most pairs that are kept, one for each start and recovery.
const MOST: usize = 1_000;

/// Lets the numbers go on at `now`, in microseconds since 1970, unless they are higher already.
pub(crate) fn begin(conn: &mut Connection, now: i64) -> Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let last = rows::last_seq(&tx)?;
    if now <= last.saturating_add(1) {
        return Ok(());
    }
    leave_out(&tx, last, now)?;
    tx.commit()?;
    Ok(())
}

/// Lets the numbers go on at `next`, and notes that this catalog has none of those between it and `last`. In a transaction of
/// the caller.
pub(crate) fn leave_out(tx: &Connection, last: i64, next: i64) -> Result<()> {
    let mut pairs = left_out(tx)?;
    pairs.push((last, next));
    let pairs = pairs.split_off(pairs.len().saturating_sub(MOST));
    let text = serde_json::to_string(&pairs).map_err(|error| StoreError::corrupt("numbers of calls", error))?;
    meta::set(tx, LEFT_OUT, &text)?;
    rows::skip_to(tx, next)
}

/// Whether the number was left out at a start.
pub(crate) fn is_left_out(conn: &Connection, call: i64) -> Result<bool> {
    Ok(left_out(conn)?.iter().any(|(last, next)| *last < call && call < *next))
}

/// The pairs of numbers between which none was given, oldest first.
pub(crate) fn left_out(conn: &Connection) -> Result<Vec<(i64, i64)>> {
    // What cannot be read counts as nothing: it is written by no one else.
    Ok(meta::get(conn, LEFT_OUT)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Notes that a source has lost segments with calls up to this number, in a transaction of the caller.
pub(crate) fn note_dropped(tx: &Connection, source: Uuid, last: i64) -> Result<()> {
    let last = dropped_up_to(tx, source)?.max(last);
    meta::set(tx, &key(source), &last.to_string())
}

/// The highest number of a call of which retention has dropped rows of a source; 0 if it has dropped none.
pub(crate) fn dropped_up_to(conn: &Connection, source: Uuid) -> Result<i64> {
    Ok(meta::get(conn, &key(source))?.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Forgets what was dropped of a source, which is deleted, in a transaction of the caller.
pub(crate) fn forget(tx: &Connection, source: Uuid) -> Result<()> {
    meta::remove(tx, &key(source))
}

fn key(source: Uuid) -> String {
    format!("calls_dropped/{source}")
}
