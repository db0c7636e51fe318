//! Where plans leave the engine before they run: to be sent elsewhere, or to test that they could be.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

/// Changes the operators of a statement before they run: sends them elsewhere, or tests that they could be sent.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// The operators that run in the place of those of a statement. `task` has the options and the files of the engine.
    /// What belongs to one run on one machine is not yet among the operators, and is put around those that are returned.
    ///
    /// # Errors
    /// If the statement cannot run.
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Arc<dyn ExecutionPlan>>;
}
