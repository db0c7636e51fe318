//! The stages of the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier};

use super::leaves;
use super::options::StageOptions;
use super::roots::Roots;
use super::staged::{Instead, StagePlanner, StageReport};
use super::workers::StageWorkers;
use crate::damaged_copies::DamagedCopies;

/// Runs each statement of an engine in stages, if it may.
pub struct StageCarrier {
    planner: Arc<StagePlanner>,
    told: Box<dyn Fn(&StageReport) + Send + Sync>,
}

impl StageCarrier {
    /// For these workers. `told` is told of each statement what became of it.
    pub fn new(
        workers: Arc<dyn StageWorkers>,
        options: StageOptions,
        damaged: Arc<DamagedCopies>,
        told: impl Fn(&StageReport) + Send + Sync + 'static,
    ) -> Self {
        Self { planner: Arc::new(StagePlanner { workers, options, damaged }), told: Box::new(told) }
    }

    /// A statement whose workers exchange rows, and `instead` if they fail before its first row; `None` for any other statement.
    ///
    /// # Errors
    /// If the engine cannot make the operators again: none that is known.
    pub(crate) fn exchanging(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        task: &TaskContext,
        instead: impl FnOnce(Arc<TaskContext>) -> Instead,
    ) -> Result<Option<Carried>> {
        // Most statements have no keys or read little, and pay for nothing more than this.
        if !leaves::has_keys(plan)? || leaves::rows(plan, task)? < self.planner.options.least_exchanged_rows {
            return Ok(None);
        }
        let context = planning(task);
        let roots = Roots::new(&self.planner, &context, instead(Arc::clone(&context)));
        let carried = self.told(roots.of(plan)?);
        Ok(carried.and_then(|(carried, exchanges)| exchanges.then_some(carried)))
    }

    fn told(&self, made: std::result::Result<(Carried, bool, StageReport), StageReport>) -> Option<(Carried, bool)> {
        let (carried, report) = match made {
            Ok((carried, exchanges, report)) => (Some((carried, exchanges)), report),
            Err(report) => (None, report),
        };
        (self.told)(&report);
        carried
    }
}

/// What plans are made with.
fn planning(task: &TaskContext) -> Arc<TaskContext> {
    let context = TaskContext::default().with_session_config(task.session_config().clone());
    Arc::new(context.with_runtime(task.runtime_env()))
}

impl fmt::Debug for StageCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCarrier").field("planner", &self.planner).finish_non_exhaustive()
    }
}

impl Carrier for StageCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let context = planning(task);
        let roots = Roots::new(&self.planner, &context, Arc::new(|plan: Arc<dyn ExecutionPlan>| Ok(plan.into())));
        let carried = self.told(roots.of(&plan)?);
        Ok(carried.map_or_else(|| plan.into(), |(carried, _)| carried))
    }
}
