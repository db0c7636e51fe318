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

/// What is done with the operators at last, when what belongs to one run is among them; and with those that run instead if they
/// fail.
pub type Finish =
    Box<dyn FnOnce(Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> + Send>;

/// What runs in the place of the operators of a statement.
pub struct Carried {
    /// The operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What makes one plan of them and of others for the same rows, if they are to be finished.
    pub finish: Option<(Arc<dyn ExecutionPlan>, Finish)>,
    /// What runs elsewhere, if there is something to say.
    pub report: Option<Arc<dyn CarrierReport>>,
}

impl Carried {
    /// The operators as they run; `own` puts among them what belongs to one run.
    pub(super) fn finished(
        self,
        own: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = own(self.plan)?;
        match self.finish {
            Some((other, finish)) => finish(plan, own(other)?),
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
