//! Why a worker gives no rows: because of the worker, or because of the statement.
//!
//! What is the worker's fault may go well elsewhere; what is the statement's fails everywhere.

use datafusion::error::DataFusionError;
use tidegate_functions::context::failed;
use tidegate_model::{Code, Failure};

/// Why a task, or a partition of it, has no more rows. The texts are for the log, and never for a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerFailure {
    /// The worker cannot be reached, or the connection to it broke, also before the worker said that there are no more
    /// rows.
    #[error("the worker is gone: {0}")]
    Gone(String),
    /// The worker has no room: its own limits of tasks or memory are reached.
    #[error("the worker is busy: {0}")]
    Busy(String),
    /// What the worker sent cannot be understood, or the worker cannot understand what it was sent.
    #[error("the worker is not understood: {0}")]
    Nonsense(String),
    /// What the worker reads of a segment is damaged or missing. The machine of the statement has a file of its own.
    #[error("its copy of a segment is damaged: {}", .0.failure)]
    Damaged(Box<DamagedCopy>),
    /// The statement itself failed there, with its code, text and place.
    #[error("{0}")]
    Statement(Failure),
}

/// What a worker reads of a segment, and found damaged or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCopy {
    /// As a caller is told.
    pub failure: Failure,
    /// Whether all workers read it: an object of a store. A folder may be another one on each machine.
    pub is_shared: bool,
}

impl WorkerFailure {
    /// The failure of a run of operators on a worker. That the statements there hold all the memory they may together says
    /// nothing of this one.
    pub fn of_run(failure: Failure) -> Self {
        if failure.code == Code::Overloaded { Self::Busy(failure.message) } else { Self::Statement(failure) }
    }

    /// Whether the same task may go well on another machine.
    pub fn is_of_worker(&self) -> bool {
        !matches!(self, Self::Statement(_))
    }

    /// The same as an error of the engine: through its operators it comes to the caller.
    pub fn into_error(self) -> DataFusionError {
        failed(self.into_failure())
    }

    /// The same for another worker, which reads rows of the one that failed: that a copy of a segment is damaged concerns it, too.
    pub fn into_error_of_peer(self) -> DataFusionError {
        match self {
            Self::Damaged(copy) => failed(copy.failure),
            other => other.into_error(),
        }
    }

    /// What the caller of the statement learns, when the task is not run elsewhere.
    pub fn into_failure(self) -> Failure {
        let (code, message) = match &self {
            Self::Statement(failure) => return failure.clone(),
            // The next time no worker is asked for it.
            Self::Damaged(copy) if copy.is_shared => {
                let DamagedCopy { failure: Failure { message, location, .. }, .. } = &**copy;
                let message = format!("{message}; try again, and the server reads a file of its own");
                let failure = Failure::new(Code::DataUnavailable, message).retry_after(1);
                return Failure { location: location.clone(), ..failure };
            }
            Self::Damaged(copy) => return copy.failure.clone(),
            Self::Busy(_) => (Code::Overloaded, "a worker that reads a part of the data has no room; try again later"),
            Self::Gone(_) => {
                (Code::DataUnavailable, "a worker that reads a part of the data stopped answering; try again")
            }
            Self::Nonsense(_) => {
                (Code::DataUnavailable, "a worker that reads a part of the data gave no valid answer; try again")
            }
        };
        Failure::new(code, message).retry_after(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_may_retry_what_is_the_fault_of_a_worker() {
        let why = || "10.0.0.7:4000: connection reset".to_owned();
        for failure in [WorkerFailure::Gone(why()), WorkerFailure::Busy(why()), WorkerFailure::Nonsense(why())] {
            assert!(failure.is_of_worker());
            let told = failure.into_failure();
            assert_eq!((told.code.status(), told.retry_after), (503, Some(1)));
            assert!(!told.message.contains("10.0.0.7"), "{told}");
        }
        let own = Failure::new(Code::InvalidValue, "division by zero").about("n");
        let failure = WorkerFailure::of_run(own.clone());
        assert!(!failure.is_of_worker());
        assert_eq!(failure.into_failure(), own);
        let damaged = Failure::new(Code::DataDamaged, "segment 7 cannot be read");
        let damaged = WorkerFailure::Damaged(Box::new(DamagedCopy { failure: damaged, is_shared: true }));
        assert!(damaged.is_of_worker());
        let told = damaged.into_failure();
        assert_eq!((told.code.status(), told.retry_after), (503, Some(1)));
        assert!(told.message.starts_with("segment 7 cannot be read; try again"), "{told}");
        let full = WorkerFailure::of_run(Failure::new(Code::Overloaded, "all memory is taken"));
        assert_eq!(full, WorkerFailure::Busy("all memory is taken".to_owned()));
    }
}
