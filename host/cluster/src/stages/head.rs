//! The stage that runs where the statement is.
//!
//! What belongs to one run is put among the operators of each stage on the machine that runs it. So the boundaries of the
//! head stage are leaves while that is done, and are put in again at last.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{DistributedExec, DistributedExt, NetworkBoundaryExt};

use super::planner;
use super::workers::StageList;

/// The head stage of a plan with boundaries, each of which is a leaf.
pub(super) fn without_inputs(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let head = Arc::clone(plan).transform_down(|node| {
        if !node.is_network_boundary() {
            return Ok(Transformed::no(node));
        }
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(StageInput(node));
        Ok(Transformed::new(leaf, true, TreeNodeRecursion::Jump))
    });
    head.map(|head| head.data)
}

/// The head stage with its boundaries again, as it runs.
pub(super) fn with_inputs(head: Arc<dyn ExecutionPlan>, workers: StageList) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = head.transform_down(|node| match node.downcast_ref::<StageInput>() {
        Some(StageInput(boundary)) => Ok(Transformed::new(Arc::clone(boundary), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(node)),
    });
    let stages: Arc<dyn ExecutionPlan> = Arc::new(DistributedExec::new(plan?.data));
    Ok(Arc::new(StageRun { stages, workers }))
}

/// The rows of a stage below, in the place of its boundary.
#[derive(Debug)]
struct StageInput(Arc<dyn ExecutionPlan>);

impl DisplayAs for StageInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageInput")
    }
}

impl ExecutionPlan for StageInput {
    fn name(&self) -> &'static str {
        "StageInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("the head stage was not finished")
    }
}

/// The run of all stages.
#[derive(Debug)]
struct StageRun {
    stages: Arc<dyn ExecutionPlan>,
    workers: StageList,
}

impl DisplayAs for StageRun {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageRun: workers={}", self.workers.names.len())
    }
}

impl ExecutionPlan for StageRun {
    fn name(&self) -> &'static str {
        "StageRun"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.stages]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(stages) = children.into_iter().next() else { return Ok(self) };
        Ok(Arc::new(Self { stages, workers: self.workers.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let config = planner::settings(context.session_config().clone(), self.workers.names.len())?
            .with_distributed_channel_resolver(Arc::clone(&self.workers.channels));
        let context = TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        );
        self.stages.execute(partition, Arc::new(context))
    }
}
