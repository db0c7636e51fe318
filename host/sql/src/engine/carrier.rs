//! Where plans leave the engine before they run: to be sent elsewhere, or to test that they could be.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;

use super::statement_cost::StatementCost;

/// Changes the operators of a statement before they run: sends them elsewhere, or tests that they could be sent.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// The operators that run in the place of those of a statement. `task` has the options and the files of the engine.
    /// What belongs to one run on one machine is not yet among the operators, and is put around those that are returned.
    ///
    /// # Errors
    /// If the statement cannot run.
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried>;
}

/// Puts among operators what belongs to one run on this machine.
pub type OwnOperators = Arc<dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync>;

/// What is done with the operators at last, when what belongs to one run is among them. It may make others with these.
pub type Finish = Box<dyn FnOnce(Arc<dyn ExecutionPlan>, OwnOperators) -> Result<Arc<dyn ExecutionPlan>> + Send>;

/// What runs in the place of the operators of a statement.
pub struct Carried {
    /// The operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What they are finished with, if they are.
    pub finish: Option<Finish>,
    /// What runs elsewhere, if there is something to say.
    pub report: Option<Arc<dyn CarrierReport>>,
}

impl Carried {
    /// The operators as they run.
    ///
    /// # Errors
    /// If what belongs to one run cannot be put among them.
    pub fn finished(self, own: OwnOperators) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = own(self.plan)?;
        match self.finish {
            Some(finish) => finish(plan, own),
            None => Ok(plan),
        }
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carried").field("plan", &self.plan).field("report", &self.report).finish_non_exhaustive()
    }
}

impl From<Arc<dyn ExecutionPlan>> for Carried {
    fn from(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { plan, finish: None, report: None }
    }
}

/// What of one statement runs elsewhere. It becomes part of what the statement costs.
pub trait CarrierReport: fmt::Debug + Send + Sync {
    /// What is known now, as a JSON object: asked for when the statement has ended.
    fn json(&self) -> String;

    /// What has run elsewhere has cost, as far as the operators do not tell it themselves.
    fn cost(&self) -> StatementCost {
        StatementCost::default()
    }
}
