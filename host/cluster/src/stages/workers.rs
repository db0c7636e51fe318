//! What runs the stages of statements.

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion_distributed::ChannelResolver;
use tidegate_sql::{StatementCost, own_failure};
use tokio::sync::watch;

use crate::worker_failure::{DamagedCopy, WorkerFailure};

/// What runs the stages of statements: in this process, or on other machines.
pub trait StageWorkers: fmt::Debug + Send + Sync {
    /// The workers that a statement may use that begins now, without those of these names.
    fn list(&self, left_out: &[Arc<str>]) -> StageList;
}

/// The workers of a statement, each of which its plan names by its place here.
#[derive(Clone)]
pub struct StageList {
    /// Their names, by which segments are shared out.
    pub names: Vec<Arc<str>>,
    /// The way to them.
    pub channels: Arc<dyn ChannelResolver + Send + Sync>,
    /// What the tasks of the statement have cost so far.
    pub cost: Arc<dyn Fn() -> StatementCost + Send + Sync>,
    /// Which of them failed, as far as this machine knows.
    pub faults: WorkerFaults,
}

/// The workers of a statement that failed it.
#[derive(Debug, Clone, Default)]
pub struct WorkerFaults(Arc<watch::Sender<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    /// Which worker failed with what.
    blamed: Vec<(usize, WorkerFailure)>,
    /// Why a task was not started.
    unstarted: Option<WorkerFailure>,
}

impl WorkerFaults {
    /// Notes that the worker at a place failed. What is the fault of the statement is not noted.
    pub fn blame(&self, place: usize, failure: &WorkerFailure) {
        if failure.is_of_worker() {
            self.0.send_modify(|faults| faults.blamed.push((place, failure.clone())));
        }
    }

    /// Notes why a task was not started, at a place if that is why. Its rows will not come, and whoever reads them cannot know: the
    /// statement ends. Only the first counts.
    pub fn unstarted(&self, place: Option<usize>, failure: &WorkerFailure) {
        if let Some(place) = place {
            self.blame(place, failure);
        }
        self.0.send_modify(|faults| {
            faults.unstarted.get_or_insert_with(|| failure.clone());
        });
    }

    /// The same, as the engine says it. What does not travel may run where the statement is.
    pub fn unstarted_because(&self, error: &DataFusionError) {
        let failure = own_failure(error).map(WorkerFailure::Statement);
        self.unstarted(None, &failure.unwrap_or_else(|| WorkerFailure::Nonsense(error.to_string())));
    }

    /// The places of those that failed, and the first of them with what it failed with.
    pub(super) fn blamed(&self) -> (Vec<usize>, Option<(usize, WorkerFailure)>) {
        let faults = self.0.borrow();
        (faults.blamed.iter().map(|(place, _)| *place).collect(), faults.blamed.first().cloned())
    }

    /// The damaged copy that all workers read, if one was found.
    pub(super) fn damaged(&self) -> Option<DamagedCopy> {
        self.0.borrow().blamed.iter().find_map(|(_, failure)| match failure {
            WorkerFailure::Damaged(copy) if copy.is_shared => Some(copy.as_ref().clone()),
            _ => None,
        })
    }

    /// Waits until a task was not started.
    pub(super) async fn wait(self) -> WorkerFailure {
        let mut faults = self.0.subscribe();
        let faults = faults.wait_for(|faults| faults.unstarted.is_some()).await;
        let failure = faults.ok().and_then(|faults| faults.unstarted.clone());
        // The sender is in `self`.
        failure.unwrap_or_else(|| WorkerFailure::Gone("a task was not started".to_owned()))
    }
}

impl fmt::Debug for StageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageList").field("names", &self.names).finish_non_exhaustive()
    }
}
