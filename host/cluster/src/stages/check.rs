//! Whether each stage has its rows where its operators need them.
//!
//! The planner of stages lets a stage run as several tasks without a look at what its operators require. In a stage of
//! several tasks one partition is not all of the rows, and partitions of one task are not all that have a key. So each
//! operator is looked at here once more: its rows are either shared out, so that each task has some of them, or copied,
//! so that each task has all of them.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildSatisfactionOptions, Distribution, ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt, NetworkBroadcastExec, NetworkCoalesceExec};
use tidegate_sql::OwnOperator;

/// Where the rows of an operator are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// Each task has some of them.
    Shared,
    /// Each task has all of them.
    Copied,
}

/// Why a plan does not run in stages.
pub(super) type Refusal = String;

/// The stages that workers run of a plan with boundaries, if it may run so, from the lowest.
///
/// # Errors
/// If an operator does not get the rows that it needs.
pub(super) fn stages(head: &Arc<dyn ExecutionPlan>) -> std::result::Result<Vec<Arc<dyn ExecutionPlan>>, Refusal> {
    let mut stages = Vec::new();
    inputs(head, &mut stages)?;
    Ok(stages)
}

fn inputs(plan: &Arc<dyn ExecutionPlan>, stages: &mut Vec<Arc<dyn ExecutionPlan>>) -> std::result::Result<(), Refusal> {
    if plan.is::<ScalarSubqueryExec>() {
        return Err("the value of a subquery is computed after workers have begun".to_owned());
    }
    if let Some(boundary) = plan.as_network_boundary() {
        let stage = boundary.input_stage();
        let Some(below) = stage.local_plan() else { return Err("a stage has no plan".to_owned()) };
        inputs(below, stages)?;
        let is_round = below
            .downcast_ref::<RepartitionExec>()
            .is_some_and(|of| plan.is::<NetworkCoalesceExec>() && !matches!(of.partitioning(), Partitioning::Hash(..)));
        if is_round {
            return Err("a stage begins with a repartition".to_owned());
        }
        let rows = checked(below, stage.task_count())?;
        if stage.task_count() > 1 && rows == Rows::Copied {
            return Err("each task of a stage would hand on the same rows".to_owned());
        }
        stages.push(Arc::clone(below));
        return Ok(());
    }
    plan.children().into_iter().try_for_each(|child| inputs(child, stages))
}

/// Where the rows of an operator of a stage with so many tasks are.
fn checked(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> std::result::Result<Rows, Refusal> {
    if plan.is_network_boundary() {
        return Ok(if plan.is::<NetworkBroadcastExec>() { Rows::Copied } else { Rows::Shared });
    }
    if matches!(OwnOperator::of(plan.as_ref()), Some(OwnOperator::SharedRows { .. })) {
        return Err("a part that several operators read is below a boundary".to_owned());
    }
    // What needs the value is asked for it while that is not there.
    if plan.is::<ScalarSubqueryExec>() {
        return Err("the value of a subquery is computed below a boundary".to_owned());
    }
    let children = plan.children();
    if children.is_empty() {
        return match tasks > 1 && !plan.is::<DistributedLeafExec>() {
            true => Err(format!("{} would run in each task", plan.name())),
            false => Ok(Rows::Shared),
        };
    }
    let rows = children.iter().map(|child| checked(child, tasks)).collect::<std::result::Result<Vec<_>, _>>()?;
    if tasks < 2 {
        return Ok(Rows::Shared);
    }
    if rows.iter().all(|rows| *rows == Rows::Copied) {
        return Ok(Rows::Copied);
    }
    if rows.contains(&Rows::Copied) {
        return match rows.as_slice() {
            [Rows::Copied, Rows::Shared] if takes_copies(plan.as_ref()) => Ok(Rows::Shared),
            _ => Err(format!("{} would read copies beside shares", plan.name())),
        };
    }
    if plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return Err(format!("{} would merge the rows of a task only", plan.name()));
    }
    meets(plan, children.as_slice()).map_err(|error| error.to_string())?.map_or(Ok(Rows::Shared), Err)
}

/// Whether an operator may have all rows of its left input in each task, and some of its right one: it hands on no rows of
/// the left one by themselves.
fn takes_copies(plan: &dyn ExecutionPlan) -> bool {
    let join = match (plan.downcast_ref::<HashJoinExec>(), plan.downcast_ref::<NestedLoopJoinExec>()) {
        (Some(join), _) => (*join.partition_mode() == PartitionMode::CollectLeft).then(|| *join.join_type()),
        (_, Some(join)) => Some(*join.join_type()),
        _ => plan.is::<CrossJoinExec>().then_some(JoinType::Inner),
    };
    use JoinType::{Inner, Right, RightAnti, RightMark, RightSemi};
    matches!(join, Some(Inner | Right | RightAnti | RightMark | RightSemi))
}

/// Why the rows of tasks, of which each has some, do not meet what an operator requires.
fn meets(plan: &Arc<dyn ExecutionPlan>, children: &[&Arc<dyn ExecutionPlan>]) -> Result<Option<Refusal>> {
    let required = plan.input_distribution_requirements();
    for (place, (child, distribution)) in children.iter().zip(required.per_child_distributions()).enumerate() {
        let is_met = match distribution {
            Distribution::UnspecifiedDistribution => true,
            Distribution::SinglePartition => false,
            // One partition of each task would satisfy it.
            _ => match child.output_partitioning() {
                Partitioning::Hash(_, partitions) if *partitions > 1 => {
                    let options = ChildSatisfactionOptions::new().with_allow_subset(true);
                    required.child_satisfaction(place, child.as_ref(), options)?.is_satisfied()
                }
                _ => false,
            },
        };
        if !is_met {
            return Ok(Some(format!("{} would not have all rows that it needs: {distribution}", plan.name())));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
