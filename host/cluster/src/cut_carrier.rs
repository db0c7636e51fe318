//! Cutting the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier};

use crate::cut::{Cut, CutOptions, cut};
use crate::cut_report::CutReport;
use crate::stages::StageCarrier;
use crate::task::Workers;

/// Cuts each statement of an engine and has its tasks run by workers. Where these are given too, a statement whose workers
/// exchange rows runs in stages.
pub struct CutCarrier {
    stages: Option<StageCarrier>,
    workers: Arc<dyn Workers>,
    options: CutOptions,
    told: Box<dyn Fn(&CutReport) + Send + Sync>,
}

impl CutCarrier {
    /// For these workers. `told` is told of each statement what was cut of it.
    pub fn new(
        workers: Arc<dyn Workers>,
        options: CutOptions,
        told: impl Fn(&CutReport) + Send + Sync + 'static,
    ) -> Self {
        Self { stages: None, workers, options, told: Box::new(told) }
    }

    /// The same, with stages for statements whose workers exchange rows.
    #[must_use]
    pub fn with_stages(self, stages: StageCarrier) -> Self {
        Self { stages: Some(stages), ..self }
    }

    fn cut(&self, plan: &Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Cut> {
        let cut = cut(plan, &self.workers, self.options, task)?;
        (self.told)(&cut.report);
        Ok(cut)
    }
}

impl fmt::Debug for CutCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CutCarrier").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Carrier for CutCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        if let Some(stages) = &self.stages
            && let Some(carried) = stages.exchanging(&plan, task, || Ok(self.cut(&plan, task)?.plan))?
        {
            return Ok(carried);
        }
        let cut = self.cut(&plan, task)?;
        Ok(Carried { report: Some(Arc::new(cut.running())), finish: None, plan: cut.plan })
    }
}
