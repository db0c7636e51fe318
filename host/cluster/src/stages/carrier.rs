//! The stages of the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier};

use super::options::StageOptions;
use super::staged::StagePlanner;
use super::workers::StageWorkers;
use super::{head, roots};
use crate::damaged_copies::DamagedCopies;
use crate::statement_report::StatementReport;

/// Runs each statement of an engine in stages, if it may.
pub struct StageCarrier {
    planner: Arc<StagePlanner>,
    told: Option<Box<Told>>,
}

/// Who is told of each statement.
type Told = dyn Fn(&StatementReport) + Send + Sync;

impl StageCarrier {
    /// For these workers.
    pub fn new(workers: Arc<dyn StageWorkers>, options: StageOptions) -> Self {
        let damaged = Arc::<DamagedCopies>::default();
        Self { planner: Arc::new(StagePlanner { workers, options, damaged }), told: None }
    }

    /// The same; `told` is told of each statement what will run where.
    #[must_use]
    pub fn telling(self, told: impl Fn(&StatementReport) + Send + Sync + 'static) -> Self {
        Self { told: Some(Box::new(told)), ..self }
    }
}

impl fmt::Debug for StageCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCarrier").field("planner", &self.planner).finish_non_exhaustive()
    }
}

impl Carrier for StageCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        // What plans are made with.
        let context = TaskContext::default().with_session_config(task.session_config().clone());
        let context = Arc::new(context.with_runtime(task.runtime_env()));
        let (plan, stages) = roots::of(&self.planner, &plan, &context)?;
        if let Some(told) = &self.told {
            told(&stages.report());
        }
        Ok(Carried { plan, finish: Some(Box::new(head::finished)), report: Some(Arc::new(stages)) })
    }
}
