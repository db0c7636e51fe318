//! The boundaries of a head stage: leaves while what belongs to one run is put among its operators, and put in again at last.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::{DistributedExec, NetworkBoundaryExt};
use uuid::Uuid;

use super::gather::numbered;
use super::received;

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

/// The head stage with its boundaries again.
pub(super) fn with_inputs(head: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = head.transform_down(|node| match node.downcast_ref::<StageInput>() {
        Some(StageInput(boundary)) => Ok(Transformed::new(Arc::clone(boundary), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(node)),
    });
    Ok(Arc::new(DistributedExec::new(received::checked(plan?.data)?)))
}

/// The plan as one run of it: its tasks are not those of another run.
pub(super) fn of_new_run(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let statement = Uuid::new_v4();
    let plan = Arc::clone(plan).transform_up(|node| match node.is_network_boundary() {
        true => numbered(node, statement, None).map(Transformed::yes),
        false => Ok(Transformed::no(node)),
    });
    plan.map(|plan| plan.data)
}

/// How many tasks a plan has.
pub(super) fn tasks(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut tasks = 0;
    // The closure never fails, so neither does the walk. What is below a boundary are its children.
    let _ = plan.apply(|node| {
        tasks += node.as_network_boundary().map_or(0, |boundary| boundary.input_stage().task_count());
        Ok(TreeNodeRecursion::Continue)
    });
    tasks
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion_distributed::NetworkCoalesceExec;

    use super::*;

    /// A part that several operators read may run for each of them, at the same time.
    #[test]
    fn each_run_has_tasks_of_its_own() {
        let rows: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())).with_partitions(2));
        let below: Arc<dyn ExecutionPlan> = Arc::new(NetworkCoalesceExec::try_new(rows, 3, 1).unwrap());
        let below = numbered(below, Uuid::nil(), Some(1)).unwrap();
        let merged: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(below));
        let above: Arc<dyn ExecutionPlan> = Arc::new(NetworkCoalesceExec::try_new(merged, 2, 1).unwrap());
        let plan = numbered(above, Uuid::nil(), Some(2)).unwrap();
        assert_eq!(tasks(&plan), 5);
        let stages = |plan: &Arc<dyn ExecutionPlan>| {
            let mut stages = Vec::new();
            plan.apply(|node| {
                let stage = node.as_network_boundary().map(|boundary| boundary.input_stage());
                stages.extend(stage.map(|stage| (stage.query_id(), stage.num(), stage.task_count())));
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
            stages
        };
        let [one, other] = [of_new_run(&plan).unwrap(), of_new_run(&plan).unwrap()].map(|plan| stages(&plan));
        let [(run, 2, 2), (of_below, 1, 3)] = one[..] else { unreachable!("{one:?}") };
        assert!(run == of_below && !run.is_nil() && other.iter().all(|(of_other, ..)| *of_other != run));
    }
}
