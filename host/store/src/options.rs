//! All settings of the store, with the reason for each default.

use std::time::Duration;

use crate::source_info::Retention;

/// How the store commits, buffers and flushes. The defaults suit a server with 2 cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Rows of one source in memory at which a flush is due.
    pub flush_rows: usize,
    /// Bytes (as JSON) of one source in memory at which a flush is due.
    pub flush_bytes: usize,
    /// The longest time that a source with many rows stays in memory only. A source with few (under 1,000) may wait
    /// twelve times as long: the rows are durable through the write-ahead log, and tiny segments make every later query
    /// slower.
    pub flush_interval: Duration,
    /// No background work: segments are written only by [`Store::flush`](crate::Store::flush), merged only by
    /// [`Store::compact`](crate::Store::compact), and dropped only by
    /// [`Store::apply_retention`](crate::Store::apply_retention).
    pub manual_flush: bool,
    /// The most rows of one write-ahead transaction (a call is never split).
    pub commit_rows: usize,
    /// The most bytes of one write-ahead transaction (a call is never split).
    pub commit_bytes: usize,
    /// The most bytes that wait for their commit. Further callers wait in a queue.
    pub queue_bytes: usize,
    /// The most bytes in memory that are in no segment, over all sources. From a quarter of it on, ingest waits for
    /// segments to be written, up to two seconds. Beyond the limit it is refused with
    /// [`StoreError::Overloaded`](crate::StoreError::Overloaded).
    pub max_unflushed_bytes: usize,
    /// The most events of one source that wait to be shredded. Ingest into it waits from a few thousand on, up to two
    /// seconds. Beyond the limit it is refused with
    /// [`StoreError::Backlog`](crate::StoreError::Backlog). A query of the source waits for all of them.
    pub max_raw_rows: usize,
    /// The most bytes of one event as JSON. A longer one is refused alone.
    pub max_event_bytes: usize,
    /// The most fields of a source that have a column: a leaf counts one, a record two. Later fields are read from the
    /// overflow. A statement may read ten times as many, so that no source is too wide for it.
    pub max_fields: usize,
    /// Levels of nesting that have columns. Deeper values are stored whole in the overflow.
    pub max_depth: usize,
    /// Rows per row group in a segment. Small groups let "newest 100" read little.
    pub row_group_rows: usize,
    /// The rows of a tenant lie together in a segment if the segment has at least so many of them. Tenants with fewer
    /// rows share a part of the segment until it has so many.
    pub run_rows: usize,
    /// Segments of fewer rows have no index of the texts in their messages: they are read quickly, and are soon merged.
    pub trigram_rows: usize,
    /// Rows of a full segment: compaction merges segments until they have about so many.
    pub compaction_rows: usize,
    /// Bytes of a full segment's file. A source with a retention by bytes has smaller ones.
    pub compaction_bytes: u64,
    /// So many neighbouring segments of a similar size are merged into one. At least 2.
    pub compaction_fan_in: usize,
    /// The most bytes of rows that a merge may hold at once, about. Segments whose rows are too large for that stay as
    /// they are.
    pub compaction_memory: usize,
    /// Percent of the time in which compaction may work, 1 to 100, on one thread. It works less while queries wait.
    pub compaction_percent: u32,
    /// The address of an object store that gets a copy of each segment before the catalog names the segment, as in
    /// [`SegmentFiles::open`](crate::SegmentFiles::open); empty for none.
    pub copies_url: String,
    /// A data folder that was made of a backup takes the place of the one that has the copies at that address now. Without it,
    /// it does not open while another one has them.
    pub take_over: bool,
    /// The retention of sources without limits of their own: 90 days, however many bytes. Applied once a minute in the
    /// background, unless `manual_flush` is set.
    pub retention: Retention,
    /// Whether acknowledged events are on stable storage. Off is for folders that end with the process anyway: after a
    /// crash of the machine such a folder may not open.
    pub durable: bool,
    /// zstd level of segments, 1 to 22.
    pub zstd_level: i32,
}

impl StoreOptions {
    /// Bytes in memory that are in no segment, over all sources, at which ingest waits for segments to be written. From
    /// half of it on, the largest source is flushed although nothing else makes it due.
    pub(crate) fn pace_bytes(&self) -> usize {
        self.max_unflushed_bytes / 4
    }
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
            run_rows: 8 << 10,
            trigram_rows: 8 << 10,
            compaction_rows: 1 << 20,
            compaction_bytes: 256 << 20,
            compaction_fan_in: 8,
            compaction_memory: 256 << 20,
            compaction_percent: 50,
            copies_url: String::new(),
            take_over: false,
            retention: Retention { max_age: Some(Duration::from_hours(24 * 90)), max_bytes: None },
            durable: true,
            zstd_level: 1,
        }
    }
}
