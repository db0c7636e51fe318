//! What the catalog keeps for retention: the age clock, and what the operator says of a jump of the wall clock.
//!
//! The command line writes the word of the operator beside a server that runs, whose next run of retention takes it.

use rusqlite::Connection;
use uuid::Uuid;

use super::{Catalog, meta, retention_share};
use crate::{
    clock::{ClockState, now_micros},
    error::{Result, StoreError},
};

/// The setting with the state of the age clock.
const CLOCK: &str = "age_clock";

/// The setting with the word of the operator.
const WORD: &str = "clock_is_right";

/// So far may the state in the catalog be behind: a crash makes logs younger by so much.
const KEPT_EVERY: i64 = 600 * 1_000_000;

/// What the operator says of a jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionWord {
    /// The wall clock is right now.
    ClockIsRight {
        /// The time by which it jumped has really passed, so that all logs from before are older by it. Else it was wrong
        /// before, and they are not.
        time_has_passed: bool,
    },
}

/// What retention waits for, as the catalog has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionState {
    /// By how many seconds the wall clock is ahead of what is plausible; 0 if it is plausible.
    pub clock_ahead_seconds: u64,
    /// The sources with logs that are too old and wait, because they are more than half of the source.
    pub waiting: Vec<String>,
}

/// The state of the age clock; `None` in a catalog that has none yet.
pub(crate) fn kept_clock(conn: &Connection) -> Result<Option<ClockState>> {
    let text = meta::get(conn, CLOCK)?;
    // What cannot be read counts as nothing: it is written by no one else.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The newest time of which a catalog without an age clock knows.
pub(crate) fn newest_time(conn: &Connection) -> Result<Option<i64>> {
    let sql = "SELECT max(at) FROM (SELECT max(created_at) AS at FROM segments UNION ALL
               SELECT seq FROM sqlite_sequence WHERE name = 'wal')";
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

/// Keeps the state of the age clock, if it has changed by much.
pub(crate) fn keep_clock(conn: &Connection, state: ClockState) -> Result<()> {
    let is_near = |kept: ClockState| {
        state.age.saturating_sub(kept.age) < KEPT_EVERY && state.wall.saturating_sub(kept.wall) < KEPT_EVERY
    };
    if kept_clock(conn)?.is_some_and(is_near) {
        return Ok(());
    }
    let text = serde_json::to_string(&state).map_err(|error| StoreError::corrupt("the age clock", error))?;
    meta::set(conn, CLOCK, &text)
}

/// The word of the operator, which is taken.
pub(crate) fn take_word(conn: &Connection) -> Result<Option<RetentionWord>> {
    let Some(text) = meta::get(conn, WORD)? else { return Ok(None) };
    meta::remove(conn, WORD)?;
    Ok(Some(RetentionWord::ClockIsRight { time_has_passed: text == "passed" }))
}

impl Catalog {
    /// What retention waits for.
    ///
    /// # Errors
    /// Those of the catalog's database.
    pub fn retention_state(&self) -> Result<RetentionState> {
        let conn = self.lock();
        let ahead = kept_clock(&conn)?.map_or(0, |clock| clock.ahead(now_micros()));
        let mut sources = conn.prepare("SELECT id, name FROM sources ORDER BY name")?;
        let sources = sources.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut waiting = Vec::new();
        for (id, name) in sources.collect::<rusqlite::Result<Vec<(Uuid, String)>>>()? {
            if retention_share::Share::read(&conn, id)?.waits {
                waiting.push(name);
            }
        }
        Ok(RetentionState { clock_ahead_seconds: ahead.unsigned_abs() / 1_000_000, waiting })
    }

    /// Leaves the word of the operator for the next run of retention, which is a minute away if a server runs.
    ///
    /// # Errors
    /// Those of the catalog's database.
    pub fn say_of_retention(&self, word: RetentionWord) -> Result<()> {
        let RetentionWord::ClockIsRight { time_has_passed } = word;
        meta::set(&self.lock(), WORD, if time_has_passed { "passed" } else { "was wrong" })
    }

    /// Lets the next run of retention drop all that is too old of all sources, however much of them it is.
    ///
    /// # Errors
    /// Those of the catalog's database.
    pub fn free_retention(&self) -> Result<()> {
        let conn = self.lock();
        let mut sources = conn.prepare("SELECT id FROM sources")?;
        let ids = sources.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<Uuid>>>()?;
        ids.into_iter().try_for_each(|id| retention_share::free(&conn, id))
    }
}
