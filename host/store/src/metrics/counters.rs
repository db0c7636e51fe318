//! Counters behind the totals of [`StoreStats`]. The writer thread, the flush thread and retention add to them; they
//! are atomic, so that reading them takes no lock.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::metrics::{durations::DurationCounters, stats::StoreStats};

/// The totals while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    committed_rows: AtomicU64,
    committed_bytes: AtomicU64,
    commit_durations: DurationCounters,
    failed_commits: AtomicU64,
    failed_checkpoints: AtomicU64,
    checkpoint_failing: AtomicBool,
    flushes: AtomicU64,
    flush_durations: DurationCounters,
    failed_flushes: AtomicU64,
    merges: AtomicU64,
    failed_merges: AtomicU64,
    merged_segments: AtomicU64,
    merged_rows: AtomicU64,
    merged_bytes: AtomicU64,
    merging_segments: AtomicU64,
    dropped_segments: AtomicU64,
    dropped_rows: AtomicU64,
    dropped_bytes: AtomicU64,
    expired_rows_waiting: AtomicU64,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn committed(&self, rows: usize, bytes: usize, took: Duration) {
        add(&self.commits, 1);
        add(&self.committed_rows, rows);
        add(&self.committed_bytes, bytes);
        self.commit_durations.add(took);
    }

    pub(crate) fn commit_failed(&self) {
        add(&self.failed_commits, 1);
    }

    pub(crate) fn checkpoint(&self, failed: bool) {
        add(&self.failed_checkpoints, usize::from(failed));
        self.checkpoint_failing.store(failed, Ordering::Relaxed);
    }

    pub(crate) fn flushed(&self, took: Duration) {
        add(&self.flushes, 1);
        self.flush_durations.add(took);
    }

    pub(crate) fn flush_failed(&self) {
        add(&self.failed_flushes, 1);
    }

    /// Counts a merge of so many segments into one.
    pub(crate) fn merged(&self, segments: usize, rows: usize, bytes: u64) {
        add(&self.merges, 1);
        add(&self.merged_segments, segments);
        add(&self.merged_rows, rows);
        self.merged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn merge_failed(&self) {
        add(&self.failed_merges, 1);
    }

    /// Says how many segments are being merged now.
    pub(crate) fn merging(&self, segments: usize) {
        self.merging_segments.store(segments as u64, Ordering::Relaxed);
    }

    /// Counts a segment that retention dropped.
    pub(crate) fn dropped(&self, rows: usize, bytes: u64) {
        add(&self.dropped_segments, 1);
        add(&self.dropped_rows, rows);
        self.dropped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Says how many rows are too old and wait, because they are too large a share of their source.
    pub(crate) fn expired_waiting(&self, rows: u64) {
        self.expired_rows_waiting.store(rows, Ordering::Relaxed);
    }

    /// The totals as they are now; all other fields are 0.
    pub(crate) fn totals(&self) -> StoreStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            commits: get(&self.commits),
            committed_rows: get(&self.committed_rows),
            committed_bytes: get(&self.committed_bytes),
            commit_durations: self.commit_durations.now(),
            failed_commits: get(&self.failed_commits),
            failed_checkpoints: get(&self.failed_checkpoints),
            checkpoint_failing: self.checkpoint_failing.load(Ordering::Relaxed),
            flushes: get(&self.flushes),
            flush_durations: self.flush_durations.now(),
            failed_flushes: get(&self.failed_flushes),
            merges: get(&self.merges),
            failed_merges: get(&self.failed_merges),
            merged_segments: get(&self.merged_segments),
            merged_rows: get(&self.merged_rows),
            merged_bytes: get(&self.merged_bytes),
            merging_segments: get(&self.merging_segments),
            dropped_segments: get(&self.dropped_segments),
            dropped_rows: get(&self.dropped_rows),
            dropped_bytes: get(&self.dropped_bytes),
            expired_rows_waiting: get(&self.expired_rows_waiting),
            ..StoreStats::default()
        }
    }
}
