//! What a task has done: counted on the coordinator, where its rows come in.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use tidegate_model::number;

use crate::task::TaskRows;
use crate::worker_failure::WorkerFailure;

/// The rows of a task, and its time.
#[derive(Debug)]
pub(crate) struct TaskFigures {
    began: Instant,
    /// From its start until nobody read any of its partitions any more.
    taken: OnceLock<Duration>,
    /// Partitions that are still read, or will be.
    open: AtomicUsize,
    rows: AtomicU64,
}

impl TaskFigures {
    /// Of a task of so many partitions that starts now.
    pub(crate) fn new(partitions: usize) -> Arc<Self> {
        let (taken, open, rows) = (OnceLock::new(), AtomicUsize::new(partitions), AtomicU64::new(0));
        Arc::new(Self { began: Instant::now(), taken, open, rows })
    }

    /// The time that it took, or has taken until now.
    pub(crate) fn taken(&self) -> Duration {
        self.taken.get().copied().unwrap_or_else(|| self.began.elapsed())
    }

    /// How many rows have come.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The rows of a partition, counted.
    pub(crate) fn counted(self: &Arc<Self>, rows: TaskRows) -> TaskRows {
        Counted { rows, figures: Arc::clone(self) }.boxed()
    }
}

struct Counted {
    rows: TaskRows,
    figures: Arc<TaskFigures>,
}

impl Stream for Counted {
    type Item = Result<RecordBatch, WorkerFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(batch))) = &next {
            self.figures.rows.fetch_add(number(batch.num_rows()), Ordering::Relaxed);
        }
        next
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.figures.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // It is set once: only one partition is the last.
            let _ = self.figures.taken.set(self.figures.began.elapsed());
        }
    }
}
