//! Retention: segments that are too old, or beyond the bound on bytes, are dropped.
//!
//! One transaction removes them from the catalog. From then on no new query finds them, and each file is deleted when
//! the last query that reads it ends. Until then the catalog keeps a tombstone: after a crash the next start may delete
//! the file because of it.

use std::{collections::HashSet, sync::Arc};

use uuid::Uuid;

use crate::{
    background::dropped::Dropped,
    clock::now_micros,
    error::{Result, StoreError},
    segment::handle::Segment,
    source::Source,
    source_info::Retention,
    wal::{numbering, writer::Writer},
};

/// Drops the segments of a source that are beyond its limits.
pub(crate) fn apply(source: &Arc<Source>, writer: &Writer, default: Retention) -> Result<Dropped> {
    let info = source.info();
    let mut victims = beyond(&source.segments(), info.retention.or(default), now_micros());
    if victims.is_empty() {
        return Ok(Dropped::default());
    }
    let last = |segment: &Segment| segment.seqs.map(|(_, last)| last);
    let ids: Vec<(Uuid, Option<i64>)> = victims.iter().map(|segment| (segment.id, last(segment))).collect();
    let owner = Arc::clone(source);
    let done = writer.transact(move |tx| {
        owner.check()?;
        let mut forget = tx.prepare_cached("DELETE FROM segments WHERE id = ?1")?;
        let mut bury = tx.prepare_cached("INSERT OR IGNORE INTO dropped (id, source) VALUES (?1, ?2)")?;
        let mut forgotten = HashSet::new();
        let mut dropped = None;
        for (id, last) in ids {
            // A merge may have put another segment in its place, which queries do not read yet: they need the old one
            // until then, and the next run decides about the new one.
            if forget.execute([id])? > 0 {
                bury.execute([&id, &owner.id])?;
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

/// The segments that are too old, and then those with the oldest rows until the rest is within the bound on bytes.
fn beyond(segments: &[Arc<Segment>], limits: Retention, now: i64) -> Vec<Arc<Segment>> {
    let oldest_kept = limits.max_age.map_or(i64::MIN, |age| {
        let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        now.saturating_sub(micros)
    });
    let mut sorted: Vec<&Arc<Segment>> = segments.iter().collect();
    sorted.sort_by_key(|segment| (segment.max_time, segment.created_at));
    let expired = |segment: &Segment| segment.created_at < oldest_kept;
    let mut bytes: u64 = sorted.iter().filter(|segment| !expired(segment)).map(|segment| segment.bytes).sum();
    let limit = limits.max_bytes.unwrap_or(u64::MAX);
    let mut victims = Vec::new();
    for segment in sorted {
        if expired(segment) {
            victims.push(Arc::clone(segment));
        } else if bytes > limit {
            bytes -= segment.bytes;
            victims.push(Arc::clone(segment));
        }
    }
    victims
}
