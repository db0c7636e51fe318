//! What runs the stages of statements.

use std::fmt;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion_distributed::ChannelResolver;
use tidegate_sql::{StatementCost, own_failure};
use tokio::sync::watch;

use crate::worker_failure::WorkerFailure;

/// What runs the stages of statements: in this process, or on other machines.
pub trait StageWorkers: fmt::Debug + Send + Sync {
    /// The workers that a statement may use that begins now.
    fn list(&self) -> StageList;
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
    /// Why one of its tasks was not started, as soon as that is known.
    pub unstarted: Unstarted,
}

/// Why a task of a statement was not started. Its rows will not come, and whoever reads them cannot know.
#[derive(Debug, Clone, Default)]
pub struct Unstarted(Arc<watch::Sender<Option<WorkerFailure>>>);

impl Unstarted {
    /// Tells why. Only the first counts.
    pub fn tell(&self, failure: &WorkerFailure) {
        self.0.send_if_modified(|told| {
            let is_first = told.is_none();
            told.get_or_insert_with(|| failure.clone());
            is_first
        });
    }

    /// Tells why, as the engine says it. What does not travel may run where the statement is.
    pub fn tell_error(&self, error: &DataFusionError) {
        let failure = own_failure(error).map(WorkerFailure::Statement);
        self.tell(&failure.unwrap_or_else(|| WorkerFailure::Nonsense(error.to_string())));
    }

    /// Waits until a task was not started.
    pub(super) async fn wait(self) -> WorkerFailure {
        let mut told = self.0.subscribe();
        let failure = told.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone());
        // The sender is in `self`.
        failure.unwrap_or_else(|| WorkerFailure::Gone("a task was not started".to_owned()))
    }
}

impl fmt::Debug for StageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageList").field("names", &self.names).finish_non_exhaustive()
    }
}
