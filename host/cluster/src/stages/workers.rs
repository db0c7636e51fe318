//! What runs the stages of statements.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion_distributed::ChannelResolver;
use tidegate_model::number;
use tidegate_sql::{StatementCost, own_failure};
use tokio::sync::watch;

use crate::error::PlanError;
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
    /// What the tasks of the statement have done so far.
    pub tasks: Arc<dyn Fn() -> Vec<RunningTask> + Send + Sync>,
    /// Which of them failed, as far as this machine knows.
    pub faults: WorkerFaults,
}

/// What a task of a stage has done so far.
#[derive(Debug, Clone)]
pub struct RunningTask {
    /// The stage.
    pub stage: usize,
    /// Which of its tasks.
    pub task: usize,
    /// From its start until its last row.
    pub taken: Duration,
    /// Rows that it sent.
    pub rows_sent: u64,
    /// What it has read, and held.
    pub cost: StatementCost,
}

impl StageList {
    /// What the tasks of the statement have cost so far.
    pub(super) fn cost(&self) -> StatementCost {
        let tasks = (self.tasks)();
        let all = tasks.iter().map(|task| task.cost).fold(StatementCost::default(), StatementCost::plus);
        StatementCost { tasks: number(tasks.len()), ..all }
    }
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
    /// Whether a task could not be sent.
    unsendable: bool,
    /// How many tasks were started.
    started: usize,
}

impl WorkerFaults {
    /// Notes that the worker at a place failed. What is the fault of the statement is not noted.
    pub fn blame(&self, place: usize, failure: &WorkerFailure) {
        if failure.is_of_worker() {
            self.0.send_modify(|faults| faults.blamed.push((place, failure.clone())));
        }
    }

    /// Notes that a task was started.
    pub fn started(&self) {
        self.0.send_modify(|faults| faults.started += 1);
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
        if matches!(PlanError::from_engine(error, PlanError::Refused), PlanError::Unsendable(_)) {
            self.0.send_modify(|faults| faults.unsendable = true);
        }
        let failure = own_failure(error).map(WorkerFailure::Statement);
        self.unstarted(None, &failure.unwrap_or_else(|| WorkerFailure::Nonsense(error.to_string())));
    }

    /// Whether a task could not be sent: no worker is to blame.
    pub(super) fn is_unsendable(&self) -> bool {
        self.0.borrow().unsendable
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

    /// Why a task was not started, if one was not.
    pub(super) fn why_unstarted(&self) -> Option<WorkerFailure> {
        self.0.borrow().unstarted.clone()
    }

    /// Waits until a task was not started.
    pub(super) async fn wait(self) -> WorkerFailure {
        let failed = self.all_started(usize::MAX).await.err();
        failed.unwrap_or_else(|| WorkerFailure::Gone("a task was not started".to_owned()))
    }

    /// Waits until so many tasks were started.
    ///
    /// # Errors
    /// Why one was not.
    pub(super) async fn all_started(&self, tasks: usize) -> Result<(), WorkerFailure> {
        let mut faults = self.0.subscribe();
        let is_known = |faults: &Faults| faults.unstarted.is_some() || faults.started >= tasks;
        // The sender is in `self`.
        let faults = faults.wait_for(is_known).await.ok();
        faults.and_then(|faults| faults.unstarted.clone()).map_or(Ok(()), Err)
    }
}

impl fmt::Debug for StageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageList").field("names", &self.names).finish_non_exhaustive()
    }
}
