//! The statistics of the log store as metrics. The store counts them; this module only shows them.

use tidegate_store::StoreStats;

use super::durations::Timed;
use super::figures::Figure;

/// Counters: numbers that only grow.
pub(super) const TOTALS: [Figure<StoreStats>; 15] = [
    ("tidegate_store_commits", "Write-ahead transactions", |stats| stats.commits),
    ("tidegate_store_committed_events", "Events in write-ahead transactions", |stats| stats.committed_rows),
    ("tidegate_store_committed_bytes", "Bytes of those events, as JSON", |stats| stats.committed_bytes),
    ("tidegate_store_commits_failed", "Write-ahead transactions that failed", |stats| stats.failed_commits),
    (
        "tidegate_store_checkpoints_failed",
        "Attempts to move the write-ahead log into the catalog that failed",
        |stats| stats.failed_checkpoints,
    ),
    ("tidegate_store_flushes", "Segments that were written", |stats| stats.flushes),
    ("tidegate_store_flushes_failed", "Attempts to write a segment that failed", |stats| stats.failed_flushes),
    ("tidegate_store_merges", "Merges of small segments into large ones", |stats| stats.merges),
    ("tidegate_store_merges_failed", "Merges that failed; the segments stayed as they were", |stats| {
        stats.failed_merges
    }),
    ("tidegate_store_segments_merged", "Segments that merges replaced", |stats| stats.merged_segments),
    ("tidegate_store_events_merged", "Events that merges wrote", |stats| stats.merged_rows),
    ("tidegate_store_bytes_merged", "Bytes of the files that merges wrote", |stats| stats.merged_bytes),
    ("tidegate_store_segments_dropped", "Segments that retention dropped", |stats| stats.dropped_segments),
    ("tidegate_store_events_dropped", "Events in them", |stats| stats.dropped_rows),
    ("tidegate_store_bytes_dropped", "Bytes of their files", |stats| stats.dropped_bytes),
];

/// Histograms.
pub(super) const TIMES: [Timed<StoreStats>; 2] = [
    ("tidegate_store_commit_duration", "Time that the write-ahead transactions took, syncs included", |stats| {
        stats.commit_durations
    }),
    (
        "tidegate_store_flush_duration",
        "Time that it took to write a segment, to put its copy, and to register it",
        |stats| stats.flush_durations,
    ),
];

/// Gauges: current numbers.
pub(super) const LEVELS: [Figure<StoreStats>; 18] = [
    ("tidegate_sources", "Log sources", |stats| stats.sources),
    (
        "tidegate_sources_overflowing",
        "Sources with fields that have no column of their own; GET /api/sources tells which",
        |stats| stats.overflowing_sources,
    ),
    (
        "tidegate_sources_mixed",
        "Sources with a field that has often had values of several kinds since the start; the log names the field",
        |stats| stats.mixed_sources,
    ),
    ("tidegate_store_unflushed_bytes", "Bytes of memory that hold events that no segment holds yet", |stats| {
        stats.unflushed_bytes
    }),
    ("tidegate_store_segments", "Segments", |stats| stats.segments),
    ("tidegate_store_segment_events", "Events in segments", |stats| stats.segment_rows),
    ("tidegate_store_segment_bytes", "Bytes of the segments' files", |stats| stats.segment_bytes),
    ("tidegate_store_segments_merging", "Segments that are being merged", |stats| stats.merging_segments),
    ("tidegate_store_segments_damaged", "Segments that were found damaged or missing", |stats| stats.damaged_segments),
    ("tidegate_store_segments_quarantined", "Segments that are set aside, and that queries do not see", |stats| {
        stats.set_aside_segments
    }),
    ("tidegate_store_events_quarantined", "Events in them, as far as known", |stats| stats.set_aside_rows),
    ("tidegate_store_transactions_lost", "Transactions that the start found lost in the catalog's log", |stats| {
        stats.lost_transactions
    }),
    ("tidegate_store_events_lost", "Events in them that were in no segment, as far as known", |stats| {
        stats.lost_events.unwrap_or(0)
    }),
    ("tidegate_store_log_cut", "1 if the start found the catalog's write-ahead file truncated or missing", |stats| {
        u64::from(stats.log_is_cut)
    }),
    (
        "tidegate_store_clock_ahead_seconds",
        "How far the clock is ahead of what is plausible; 0 if it is plausible",
        |stats| stats.clock_ahead_seconds,
    ),
    (
        "tidegate_store_events_expired_waiting",
        "Events that are too old and wait, because they are more than half of their source",
        |stats| stats.expired_rows_waiting,
    ),
    ("tidegate_store_read_only", "1 while nothing can be written, after a failed write", |stats| {
        u64::from(stats.read_only)
    }),
    ("tidegate_store_checkpoint_failing", "1 while the write-ahead log cannot be moved into the catalog", |stats| {
        u64::from(stats.checkpoint_failing)
    }),
];
