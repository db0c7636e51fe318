//! Cutting the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier};

use crate::cut::{CutOptions, cut};
use crate::cut_report::CutReport;
use crate::task::Workers;

/// Cuts each statement of an engine and has its tasks run by workers.
pub struct CutCarrier {
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
        Self { workers, options, told: Box::new(told) }
    }
}

impl fmt::Debug for CutCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CutCarrier").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Carrier for CutCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let cut = cut(&plan, &self.workers, self.options, task)?;
        (self.told)(&cut.report);
        Ok(Carried { report: Some(Arc::new(cut.running())), finish: None, plan: cut.plan })
    }
}
