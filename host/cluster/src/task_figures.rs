//! What a task has done: counted where it runs, as its rows are taken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_model::number;

/// The rows that were sent of a task, and its time.
#[derive(Debug)]
pub struct TaskFigures {
    began: Instant,
    /// From its start until the last of its partitions ended.
    taken: OnceLock<Duration>,
    /// Partitions that are still read, or will be.
    open: AtomicUsize,
    rows: AtomicU64,
}

impl TaskFigures {
    /// Of a task of so many partitions that starts now.
    pub fn new(partitions: usize) -> Self {
        let (taken, open, rows) = (OnceLock::new(), AtomicUsize::new(partitions), AtomicU64::new(0));
        Self { began: Instant::now(), taken, open, rows }
    }

    /// The time that it took, or has taken until now.
    pub fn taken(&self) -> Duration {
        self.taken.get().copied().unwrap_or_else(|| self.began.elapsed())
    }

    /// How many rows were sent.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Counts rows that are sent.
    pub fn sent(&self, rows: usize) {
        self.rows.fetch_add(number(rows), Ordering::Relaxed);
    }

    /// Counts a partition of which nothing more is sent.
    pub fn partition_ended(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It is set once: only one partition is the last.
            let _ = self.taken.set(self.began.elapsed());
        }
    }
}
