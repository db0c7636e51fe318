//! Every tunable of the store in one place, with the reason for each default.

use std::time::Duration;

use crate::source_info::Retention;

/// How the store commits, holds and flushes. `Default` suits a 2-core server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Rows of one source held in memory before they become a segment.
    pub flush_rows: usize,
    /// Bytes (as JSON) of one source held in memory before they become a segment.
    pub flush_bytes: usize,
    /// The longest that a source with a worthwhile number of rows stays in memory only. A trickle
    /// (under 1,000 rows) may wait twelve times as long: memory is durable through the
    /// write-ahead log, and tiny segments make every later query slower.
    pub flush_interval: Duration,
    /// No background work: segments appear only through [`Store::flush`](crate::Store::flush), and
    /// go only through [`Store::apply_retention`](crate::Store::apply_retention).
    pub manual_flush: bool,
    /// Rows in one write-ahead transaction at most (one call is never split).
    pub commit_rows: usize,
    /// Bytes in one write-ahead transaction at most (one call is never split).
    pub commit_bytes: usize,
    /// Bytes that may wait for their commit; callers beyond that wait in line.
    pub queue_bytes: usize,
    /// Bytes in memory, not yet in segments, over all sources; beyond that ingest is refused with
    /// [`StoreError::Overloaded`](crate::StoreError::Overloaded).
    pub max_unflushed_bytes: usize,
    /// Events of one source that may wait to become columns; beyond that ingest into it is refused with
    /// [`StoreError::Backlog`](crate::StoreError::Backlog). A query of the source waits for all of them.
    pub max_raw_rows: usize,
    /// Bytes that one event may have as JSON; a longer one is refused alone.
    pub max_event_bytes: usize,
    /// Fields that a source may have as columns: a leaf counts one, a record two. Later ones are read
    /// from the overflow. A statement may read ten times as many, so that no source is too wide for it.
    pub max_fields: usize,
    /// Levels of nesting kept as columns; deeper values go to the overflow whole.
    pub max_depth: usize,
    /// Rows per row group in fresh segments. Small groups let "newest 100" read little.
    pub row_group_rows: usize,
    /// How long sources without limits of their own keep their rows: 90 days, however many bytes
    /// that are. Looked at once a minute in the background, unless `manual_flush` says otherwise.
    pub retention: Retention,
    /// Whether what is acknowledged is on stable storage. Off is for folders that are gone with the
    /// process anyway: a crash of the machine may then leave a folder that does not open.
    pub durable: bool,
    /// zstd level of segments, 1 to 22.
    pub zstd_level: i32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            flush_rows: 100_000,
            flush_bytes: 128 << 20,
            flush_interval: Duration::from_secs(5),
            manual_flush: false,
            commit_rows: 20_000,
            commit_bytes: 16 << 20,
            queue_bytes: 64 << 20,
            max_unflushed_bytes: 1 << 30,
            max_raw_rows: 250_000,
            max_event_bytes: 1 << 20,
            max_fields: 1_000,
            max_depth: 32,
            row_group_rows: 16 << 10,
            retention: Retention { max_age: Some(Duration::from_hours(24 * 90)), max_bytes: None },
            durable: true,
            zstd_level: 1,
        }
    }
}
