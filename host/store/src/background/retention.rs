//! Retention: segments that are too old, or beyond the bound on bytes, are dropped.
//!
//! How old a segment is says the [age clock](crate::clock), which does not follow a wall clock that jumps. Of what is too old,
//! at most a [share](crate::catalog::retention_share) goes at once. The operator may say that a jump was right, and that what waits may
//! go ([`RetentionWord`]).
//!
//! One transaction removes them from the catalog. From then on no new query finds them, and each file is deleted when
//! the last query that reads it ends. Until then the catalog keeps a tombstone: after a crash the next start may delete
//! the file because of it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use uuid::Uuid;

use crate::{
    background::dropped::Dropped,
    catalog::{
        retention::{self, RetentionWord},
        retention_share::Share,
    },
    clock::AgeClock,
    error::{Result, StoreError},
    segment::handle::Segment,
    source::Source,
    source_info::Retention,
    wal::{numbering, writer::Writer},
};

/// Keeps the age clock in the catalog, and does what the operator has said since the last run. Returns the age clock.
pub(crate) fn begin(clock: &AgeClock, writer: &Writer) -> Result<i64> {
    let word = writer.transact(retention::take_word)?;
    if let Some(RetentionWord::ClockIsRight { time_has_passed }) = word {
        let seconds = clock.ahead() / 1_000_000;
        clock.accept(time_has_passed);
        tracing::info!(seconds, time_has_passed, "the operator says that the clock is right");
    }
    if clock.is_to_be_told() {
        tracing::warn!(
            seconds = clock.ahead() / 1_000_000,
            "the clock is ahead of what is plausible: logs do not grow older by that; if it is wrong, set it, and if it is \
             right, tell that with tidegate retention"
        );
    }
    let state = clock.state();
    writer.transact(move |tx| retention::keep_clock(tx, state))?;
    Ok(state.age)
}

/// Drops the segments of a source that are beyond its limits, at `now` of the age clock. Counts the rows that are too old and
/// wait in `waiting`.
pub(crate) fn apply(
    source: &Arc<Source>,
    writer: &Writer,
    default: Retention,
    now: i64,
    waiting: &mut u64,
) -> Result<Dropped> {
    let info = source.info();
    let limits = info.retention.or(default);
    let segments = source.segments();
    let (mut expired, rest) = too_old(&segments, limits.max_age, now);
    let mut share = None;
    if let Some(max_age) = limits.max_age.filter(|_| !expired.is_empty()) {
        let id = source.id;
        let before = writer.transact(move |tx| Share::read(tx, id))?;
        let rows: Vec<u64> = expired.iter().map(|segment| segment.rows as u64).collect();
        let all = segments.iter().map(|segment| segment.rows as u64).sum();
        let (taken, after) = before.take(&rows, all, now, max_age);
        let held: u64 = rows.iter().skip(taken).sum();
        if after.waits && !before.waits {
            tracing::warn!(
                source = info.name,
                rows = held,
                of = all,
                "more than half of the logs of a source is too old at once: the rest waits, a day at most for the next half; \
                 tidegate retention --drop-at-once lets it go"
            );
        }
        *waiting += held;
        expired.truncate(taken);
        share = Some(after).filter(|after| *after != before);
    }
    let mut victims = expired;
    victims.extend(too_many(rest, limits.max_bytes));
    if victims.is_empty() && share.is_none() {
        return Ok(Dropped::default());
    }
    let last = |segment: &Segment| segment.seqs.map(|(_, last)| last);
    let ids: Vec<(Uuid, Option<i64>)> = victims.iter().map(|segment| (segment.id, last(segment))).collect();
    let owner = Arc::clone(source);
    let done = writer.transact(move |tx| {
        owner.check()?;
        let mut forget = tx.prepare_cached("DELETE FROM segments WHERE id = ?1")?;
        share.map_or(Ok(()), |share| share.write(tx, owner.id))?;
        let mut bury =
            tx.prepare_cached("INSERT OR IGNORE INTO dropped (id, source, dropped_at) VALUES (?1, ?2, ?3)")?;
        let mut forgotten = HashSet::new();
        let mut dropped = None;
        for (id, last) in ids {
            // A merge may have put another segment in its place, which queries do not read yet: they need the old one
            // until then, and the next run decides about the new one.
            if forget.execute([id])? > 0 {
                bury.execute(rusqlite::params![id, owner.id, now])?;
                dropped = dropped.max(last);
                forgotten.insert(id);
            }
        }
        if let Some(last) = dropped {
            numbering::note_dropped(tx, owner.id, last)?;
        }
        Ok(forgotten)
    });
    let ids = match done {
        Ok(ids) => ids,
        // The source was deleted meanwhile, with its segments.
        Err(StoreError::UnknownSource { .. }) => return Ok(Dropped::default()),
        Err(error) => return Err(error),
    };
    victims.retain(|segment| ids.contains(&segment.id));
    if victims.is_empty() {
        return Ok(Dropped::default());
    }
    let dropped = Dropped {
        segments: victims.len(),
        rows: victims.iter().map(|segment| segment.rows as u64).sum(),
        bytes: victims.iter().map(|segment| segment.bytes).sum(),
    };
    source.drop_segments(&ids);
    victims.iter().for_each(|segment| writer.counters().dropped(segment.rows, segment.bytes));
    tracing::info!(
        source = info.name,
        segments = dropped.segments,
        rows = dropped.rows,
        bytes = dropped.bytes,
        "retention dropped the oldest logs"
    );
    // The logs are gone, whatever becomes of their columns.
    forget_columns(source, writer)?;
    Ok(dropped)
}

/// Removes columns from the schema that only dropped segments had.
fn forget_columns(source: &Arc<Source>, writer: &Writer) -> Result<()> {
    let Some(shrunk) = source.forget_columns()? else { return Ok(()) };
    let shape = serde_json::to_string(shrunk.as_ref()).map_err(|error| StoreError::corrupt("a shape", error))?;
    tracing::info!(source = source.info().name, fields = shrunk.count(), "columns that no log has any more are gone");
    let owner = Arc::clone(source);
    writer.transact(move |tx| {
        // The key of a deleted source may be that of another one.
        owner.check()?;
        tx.prepare_cached("UPDATE sources SET shape = ?2 WHERE key = ?1")?
            .execute(rusqlite::params![owner.key, shape])?;
        Ok(())
    })
}

/// The segments that are too old, the oldest first, and the others.
fn too_old(segments: &[Arc<Segment>], max_age: Option<Duration>, now: i64) -> (Vec<Arc<Segment>>, Vec<Arc<Segment>>) {
    let oldest_kept = max_age.map_or(i64::MIN, |age| {
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        now.saturating_sub(micros)
    });
    let (mut old, rest): (Vec<_>, Vec<_>) =
        segments.iter().cloned().partition(|segment| segment.created_at < oldest_kept);
    old.sort_by_key(|segment| segment.created_at);
    (old, rest)
}

/// The segments with the oldest rows, so that the others are within the bound on bytes.
fn too_many(mut segments: Vec<Arc<Segment>>, max_bytes: Option<u64>) -> Vec<Arc<Segment>> {
    segments.sort_by_key(|segment| (segment.max_time, segment.created_at));
    let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let limit = max_bytes.unwrap_or(u64::MAX);
    let is_beyond = |segment: &Arc<Segment>| {
        let is_beyond = bytes > limit;
        bytes = bytes.saturating_sub(if is_beyond { segment.bytes } else { 0 });
        is_beyond
    };
    segments.into_iter().take_while(is_beyond).collect()
}
