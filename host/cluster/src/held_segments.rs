//! The segments that a plan reads, held.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::DistributedLeafExec;
use tidegate_sql::OwnOperator;
use tidegate_store::HeldSegments;

/// The segments that a plan reads, held, so that their files stay while the plan runs elsewhere.
pub fn held_segments(plan: &Arc<dyn ExecutionPlan>) -> HeldSegments {
    let mut held = HeldSegments::of_plan(plan);
    let (mut plans, mut parts) = (vec![Arc::clone(plan)], HashSet::new());
    while let Some(plan) = plans.pop() {
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|operator| {
            // The plan of a shared part is no child of its readers.
            if let Some(OwnOperator::SharedRows { place, input }) = OwnOperator::of(operator.as_ref())
                && parts.insert(place.part)
            {
                held.extend(HeldSegments::of_plan(&input));
                plans.push(input);
            }
            // Nor is that of a leaf of several tasks.
            if let Some(leaf) = operator.downcast_ref::<DistributedLeafExec>() {
                held.extend(HeldSegments::of_plan(leaf.original()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    held
}
