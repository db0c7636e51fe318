//! What the store counts, for a page of metrics.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::{segment::Segment, source::Source, store::Store};

/// Totals since the store was opened, and levels as they are now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Write-ahead transactions that were committed.
    pub commits: u64,
    /// Events in them.
    pub committed_rows: u64,
    /// Bytes of the events in them, as JSON.
    pub committed_bytes: u64,
    /// Time that they took together, syncs included, in microseconds.
    pub commit_micros: u64,
    /// Write-ahead transactions that failed.
    pub failed_commits: u64,
    /// Attempts to move the write-ahead log into the catalog that failed.
    pub failed_checkpoints: u64,
    /// Segments that were written.
    pub flushes: u64,
    /// Attempts to write a segment that failed; their rows are tried again.
    pub failed_flushes: u64,
    /// Segments that retention dropped.
    pub dropped_segments: u64,
    /// Rows in them.
    pub dropped_rows: u64,
    /// Bytes of their files.
    pub dropped_bytes: u64,
    /// Now: sources.
    pub sources: u64,
    /// Now: sources with fields that have no column of their own, which are slower to read.
    pub overflowing_sources: u64,
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
    /// Segments that were found damaged or missing since the store was opened; every query that needs
    /// one of them fails.
    pub damaged_segments: u64,
    /// Rows in them.
    pub damaged_rows: u64,
    /// Segments in the quarantine.
    pub set_aside_segments: u64,
    /// Rows in them, as far as that is known.
    pub set_aside_rows: u64,
    /// Transactions that the start found lost in a damaged write-ahead file of the catalog; the last of
    /// them may never have been acknowledged.
    pub lost_transactions: u64,
    /// Events in those that were in no segment, where that can be told.
    pub lost_events: Option<u64>,
    /// Now: the last attempt to move the write-ahead log into the catalog failed, and it grows.
    pub checkpoint_failing: bool,
}

/// The totals while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    committed_rows: AtomicU64,
    committed_bytes: AtomicU64,
    commit_micros: AtomicU64,
    failed_commits: AtomicU64,
    failed_checkpoints: AtomicU64,
    checkpoint_failing: AtomicBool,
    flushes: AtomicU64,
    failed_flushes: AtomicU64,
    dropped_segments: AtomicU64,
    dropped_rows: AtomicU64,
    dropped_bytes: AtomicU64,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn committed(&self, rows: usize, bytes: usize, took: Duration) {
        add(&self.commits, 1);
        add(&self.committed_rows, rows);
        add(&self.committed_bytes, bytes);
        add(&self.commit_micros, usize::try_from(took.as_micros()).unwrap_or(usize::MAX));
    }

    pub(crate) fn commit_failed(&self) {
        add(&self.failed_commits, 1);
    }

    pub(crate) fn checkpoint(&self, failed: bool) {
        add(&self.failed_checkpoints, usize::from(failed));
        self.checkpoint_failing.store(failed, Ordering::Relaxed);
    }

    pub(crate) fn flushed(&self) {
        add(&self.flushes, 1);
    }

    pub(crate) fn flush_failed(&self) {
        add(&self.failed_flushes, 1);
    }

    pub(crate) fn dropped(&self, segment: &Segment) {
        add(&self.dropped_segments, 1);
        add(&self.dropped_rows, segment.rows);
        self.dropped_bytes.fetch_add(segment.bytes, Ordering::Relaxed);
    }
}

impl Store {
    /// What the store has done since it was opened and what it holds now. Reads counters; touches
    /// no file.
    pub fn stats(&self) -> StoreStats {
        let counters = self.writer.counters();
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = StoreStats {
            commits: get(&counters.commits),
            committed_rows: get(&counters.committed_rows),
            committed_bytes: get(&counters.committed_bytes),
            commit_micros: get(&counters.commit_micros),
            failed_commits: get(&counters.failed_commits),
            failed_checkpoints: get(&counters.failed_checkpoints),
            checkpoint_failing: counters.checkpoint_failing.load(Ordering::Relaxed),
            flushes: get(&counters.flushes),
            failed_flushes: get(&counters.failed_flushes),
            dropped_segments: get(&counters.dropped_segments),
            dropped_rows: get(&counters.dropped_rows),
            dropped_bytes: get(&counters.dropped_bytes),
            unflushed_bytes: self.sources.unflushed.load(Ordering::Relaxed) as u64,
            read_only: self.writer.check().is_err(),
            set_aside_segments: self.recovered.set_aside,
            set_aside_rows: self.recovered.set_aside_rows,
            lost_transactions: self.recovered.log.map_or(0, |log| log.transactions),
            lost_events: self.recovered.log.and_then(|log| log.events),
            ..StoreStats::default()
        };
        for source in self.sources.all() {
            stats.sources += 1;
            stats.overflowing_sources += u64::from(source.overflows());
            stats.add_segments(&source);
        }
        stats
    }
}

impl StoreStats {
    fn add_segments(&mut self, source: &Source) {
        for segment in source.segments().iter() {
            self.segments += 1;
            self.segment_rows += segment.rows as u64;
            self.segment_bytes += segment.bytes;
            if segment.damage().is_some() {
                self.damaged_segments += 1;
                self.damaged_rows += segment.rows as u64;
            }
        }
    }
}
