//! What is left of a task for those who still have something of it: its memory, and whether and why it has ended.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_cluster::{DamagedCopy, WorkerFailure};
use tidegate_functions::wording::{out_of_memory, timed_out};
use tidegate_model::{Code, Failure};
use tokio::sync::watch;

/// Why a task ended before its rows did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nobody wants its rows any more.
    Left,
    /// Its time is over.
    Late,
    /// The worker ends.
    Closing,
}

impl Ended {
    /// As the failure that is sent.
    pub(crate) fn failure(self) -> WorkerFailure {
        match self {
            Self::Left | Self::Closing => WorkerFailure::Busy("the worker is shutting down".to_owned()),
            Self::Late => WorkerFailure::Statement(timed_out()),
        }
    }
}

/// The failure of operators on a worker, which reads objects that others read, too, or a folder. What a worker cannot read, another
/// one may.
pub(crate) fn of_run(failure: Failure, reads_objects: bool) -> WorkerFailure {
    match failure.code {
        Code::DataUnavailable => WorkerFailure::Gone(format!("it cannot read its segments: {}", failure.message)),
        Code::DataDamaged => WorkerFailure::Damaged(Box::new(DamagedCopy { failure, is_shared: reads_objects })),
        _ => WorkerFailure::of_run(failure),
    }
}

/// What is left of a task for those who still have something of it.
#[derive(Debug)]
pub(crate) struct TaskState {
    pub(crate) memory: Arc<dyn MemoryPool>,
    pub(crate) ended: watch::Sender<Option<Ended>>,
}

impl TaskState {
    /// So much of the memory of the task.
    pub(crate) fn held(&self, bytes: usize) -> Result<MemoryReservation, Failure> {
        let held = MemoryConsumer::new("sent rows").register(&self.memory);
        held.try_grow(bytes).map_err(|error| out_of_memory(&error.to_string()))?;
        Ok(held)
    }

    pub(crate) fn why(&self) -> Option<Ended> {
        *self.ended.borrow()
    }
}
