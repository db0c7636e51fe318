//! Cutting the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier};

use crate::cut::{CutOptions, cut};
use crate::cut_report::CutReport;
use crate::stages::{Instead, StageCarrier};
use crate::task::Workers;

/// Cuts each statement of an engine and has its tasks run by workers. Where these are given too, a statement whose workers
/// exchange rows runs in stages.
pub struct CutCarrier {
    stages: Option<StageCarrier>,
    cutter: Arc<Cutter>,
}

struct Cutter {
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
        Self { stages: None, cutter: Arc::new(Cutter { workers, options, told: Box::new(told) }) }
    }

    /// The same, with stages for statements whose workers exchange rows.
    #[must_use]
    pub fn with_stages(self, stages: StageCarrier) -> Self {
        Self { stages: Some(stages), ..self }
    }
}

impl Cutter {
    fn carried(&self, plan: &Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let cut = cut(plan, &self.workers, self.options, task)?;
        (self.told)(&cut.report);
        Ok(Carried { report: Some(Arc::new(cut.running())), finish: None, plan: cut.plan })
    }
}

impl fmt::Debug for CutCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CutCarrier").field("workers", &self.cutter.workers).finish_non_exhaustive()
    }
}

impl Carrier for CutCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let instead = |task: Arc<TaskContext>| -> Instead {
            let cutter = Arc::clone(&self.cutter);
            Arc::new(move |plan| cutter.carried(&plan, &task))
        };
        if let Some(stages) = &self.stages
            && let Some(carried) = stages.exchanging(&plan, task, instead)?
        {
            return Ok(carried);
        }
        self.cutter.carried(&plan, task)
    }
}
