//! The numbers of a store as its callers see them, for a page of metrics.

use crate::metrics::durations::Durations;

/// Totals since the store was opened, and present values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Write-ahead transactions that were committed.
    pub commits: u64,
    /// Events in them.
    pub committed_rows: u64,
    /// Bytes of the events in them, as JSON.
    pub committed_bytes: u64,
    /// How long they took, syncs included.
    pub commit_durations: Durations,
    /// Write-ahead transactions that failed.
    pub failed_commits: u64,
    /// Checkpoints of the write-ahead log that failed.
    pub failed_checkpoints: u64,
    /// Segments that were written.
    pub flushes: u64,
    /// How long that took, with their copies and their registration.
    pub flush_durations: Durations,
    /// Attempts to write a segment that failed; they are repeated.
    pub failed_flushes: u64,
    /// Merges of several segments into one (compaction).
    pub merges: u64,
    /// Merges that failed; the segments stay as they were.
    pub failed_merges: u64,
    /// Segments that merges replaced.
    pub merged_segments: u64,
    /// Rows that merges wrote.
    pub merged_rows: u64,
    /// Bytes of the files that merges wrote.
    pub merged_bytes: u64,
    /// Now: segments that are being merged, or wait for it.
    pub merging_segments: u64,
    /// Segments that retention dropped.
    pub dropped_segments: u64,
    /// Rows in them.
    pub dropped_rows: u64,
    /// Bytes of their files.
    pub dropped_bytes: u64,
    /// Now: rows that are too old and wait, because they are more than half of their source.
    pub expired_rows_waiting: u64,
    /// Now: by how many seconds the wall clock is ahead of what is plausible; 0 if it is plausible. Logs do not grow older by
    /// that until the operator says so.
    pub clock_ahead_seconds: u64,
    /// Now: sources.
    pub sources: u64,
    /// Now: sources with fields that have no column, which are slower to read.
    pub overflowing_sources: u64,
    /// Now: sources with a field that has often had values of several kinds since the store was opened.
    pub mixed_sources: u64,
    /// Now: segments of all sources.
    pub segments: u64,
    /// Now: rows in segments.
    pub segment_rows: u64,
    /// Now: bytes of the segments' files.
    pub segment_bytes: u64,
    /// Now: bytes of memory for events that no segment holds yet.
    pub unflushed_bytes: u64,
    /// Now: nothing can be written; see [`StoreError::ReadOnly`](crate::StoreError).
    pub read_only: bool,
    /// Segments that were found damaged or missing since the store was opened. Every query that needs one of them
    /// fails.
    pub damaged_segments: u64,
    /// Rows in them.
    pub damaged_rows: u64,
    /// Segments in the quarantine.
    pub set_aside_segments: u64,
    /// Rows in them, as far as known.
    pub set_aside_rows: u64,
    /// Transactions in a damaged write-ahead file of the catalog, which the start found lost. The last of them may
    /// never have been acknowledged.
    pub lost_transactions: u64,
    /// Events in them that were in no segment, if known.
    pub lost_events: Option<u64>,
    /// Now: the start found that the write-ahead file of the catalog was truncated or missing, and that calls are lost which were
    /// acknowledged.
    pub log_is_cut: bool,
    /// Segments that were put into the object store.
    pub object_puts: u64,
    /// Bytes of them.
    pub object_put_bytes: u64,
    /// Attempts to put a segment that failed; they are repeated.
    pub failed_object_puts: u64,
    /// Copies of dropped segments that were deleted from the object store.
    pub deleted_objects: u64,
    /// Now: segments that are to be in the object store and are not there yet.
    pub missing_objects: u64,
    /// Now: the last attempt to put a segment into the object store failed. New events stay in memory and in the write-ahead
    /// log.
    pub objects_failing: bool,
    /// Now: the epoch of this data folder in the object store; 0 without one.
    pub objects_epoch: u64,
    /// Now: another data folder has taken over the copies in the object store; see
    /// [`StoreError::Replaced`](crate::StoreError).
    pub objects_replaced: bool,
    /// Copies of the catalog that were put into the object store.
    pub catalog_copies: u64,
    /// Bytes of them.
    pub catalog_copy_bytes: u64,
    /// Attempts to put one that failed; they are repeated.
    pub failed_catalog_copies: u64,
    /// Now: when the newest copy of this process was taken, in microseconds since 1970, UTC; 0 without one.
    pub catalog_copied_at: i64,
    /// Now: for how long the catalog has had changes that its newest copy lacks, in seconds; 0 if it lacks none.
    pub catalog_copy_behind_seconds: u64,
    /// Now: the last checkpoint failed, and the write-ahead log grows.
    pub checkpoint_failing: bool,
}
