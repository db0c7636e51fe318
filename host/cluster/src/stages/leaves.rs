//! Which worker reads what of a leaf.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{Partitioning, PhysicalExpr, conjunction_opt};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{DesiredTaskCountEventResponse, DistributedLeafExec};
use tidegate_sql::OwnOperator;
use tidegate_store::{FileDescription, HeldSegments, ScanDescription};

use super::weight::Weight;
use super::{distinct_groups, leaf_rows};
use crate::rendezvous::worker_of;

/// On how many workers a leaf may run. Rows in memory lie in one place, but do not keep others from running on many;
/// what is not known runs once.
pub(super) fn desired(
    leaf: &Arc<dyn ExecutionPlan>,
    workers: usize,
    context: &TaskContext,
) -> Result<DesiredTaskCountEventResponse> {
    let is_one = leaf.output_partitioning().partition_count() < 2;
    Ok(match ScanDescription::of(leaf.as_ref(), context.session_config().options()) {
        // Above one partition nothing merges partitions, or counts a limit again.
        Some(Ok(_)) if !is_one => DesiredTaskCountEventResponse::desired(workers),
        None if is_rows(leaf) => DesiredTaskCountEventResponse::desired(1),
        _ => DesiredTaskCountEventResponse::maximum(1),
    })
}

/// Sees the operators of a plan, and those of the parts that several of them read.
fn each(plan: &Arc<dyn ExecutionPlan>, mut see: impl FnMut(&Arc<dyn ExecutionPlan>)) -> Result<()> {
    let (mut plans, mut parts) = (vec![Arc::clone(plan)], HashSet::new());
    while let Some(plan) = plans.pop() {
        plan.apply(|node| {
            match OwnOperator::of(node.as_ref()) {
                Some(OwnOperator::SharedRows { place, input }) if parts.insert(place.part) => plans.push(input),
                _ => see(node),
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(())
}

/// What the scans of segments of a plan read, of those that travel.
pub(super) fn scans(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Vec<ScanDescription>> {
    let mut scans = Vec::new();
    each(plan, |node| {
        let scan = ScanDescription::of(node.as_ref(), context.session_config().options());
        scans.extend(scan.and_then(Result::ok));
    })?;
    Ok(scans)
}

/// Whether something in a plan needs rows together by their keys, or those of one side for each of the other.
pub(super) fn has_keys(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut has = false;
    each(plan, |node| {
        let is_join = node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
        has |= is_join || is_keyed(node) || distinct_groups::is_counted(node);
    })?;
    Ok(has)
}

fn is_keyed(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let repartition = plan.downcast_ref::<RepartitionExec>();
    repartition.is_some_and(|of| matches!(of.partitioning(), Partitioning::Hash(..)))
}

/// The rows that the scans of segments of a plan read, before any condition, about. What does not travel is no reason to
/// exchange.
pub(super) fn rows(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<u64> {
    let scans = scans(plan, context)?;
    Ok(scans.iter().fold(0_u64, |rows, scan| rows.saturating_add(Weight::of(scan, None).rows)))
}

/// The plan as it runs again: without the filters that its operators have made while it ran. Those who made them forget them,
/// the scans do not (`SortExec::reset_state`, DataFusion 55.2).
pub(super) fn unlearnt(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    let is_learnt = |part: &&Arc<dyn PhysicalExpr>| part.downcast_ref::<DynamicFilterPhysicalExpr>().is_some();
    let plan = reset_plan_states(Arc::clone(plan))?.transform_up(|node| {
        let Some(Ok(scan)) = ScanDescription::of(node.as_ref(), context.session_config().options()) else {
            return Ok(Transformed::no(node));
        };
        let Some(condition) = &scan.predicate else { return Ok(Transformed::no(node)) };
        let parts = split_conjunction(condition);
        if !parts.iter().any(is_learnt) {
            return Ok(Transformed::no(node));
        }
        let known = parts.into_iter().filter(|part| !is_learnt(part)).map(Arc::clone);
        let scan = ScanDescription { predicate: conjunction_opt(known), ..scan };
        scan.scan(&HeldSegments::of_plan(&node), context).map(Transformed::yes)
    });
    plan.map(|plan| plan.data)
}

/// A leaf of rows that this machine has in memory.
pub(super) fn is_rows(leaf: &Arc<dyn ExecutionPlan>) -> bool {
    leaf.is::<datafusion::datasource::source::DataSourceExec>()
}

/// The leaf for so many tasks, of which each reads rows that no other one reads.
pub(super) fn scaled(
    leaf: &Arc<dyn ExecutionPlan>,
    workers: &[Arc<str>],
    tasks: usize,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    if tasks < 2 {
        return Ok(Arc::clone(leaf));
    }
    let workers = workers.get(..tasks).unwrap_or(workers);
    let variants = match ScanDescription::of(leaf.as_ref(), context.session_config().options()) {
        Some(reads) => {
            let (reads, held) = (reads?, HeldSegments::of_plan(leaf));
            (0..tasks).map(|task| share(&reads, workers, task).scan(&held, context)).collect::<Result<Vec<_>>>()?
        }
        None => {
            let none = leaf_rows::leaf_without_rows(leaf)?;
            std::iter::once(Arc::clone(leaf)).chain(std::iter::repeat_n(none, tasks - 1)).collect()
        }
    };
    Ok(Arc::new(DistributedLeafExec::try_new(Arc::clone(leaf), variants)?))
}

/// What a scan reads of the segments of one worker, in as many partitions as the scan has.
fn share(scan: &ScanDescription, workers: &[Arc<str>], worker: usize) -> ScanDescription {
    let mut places = HashMap::new();
    let mut segments = Vec::new();
    for (place, segment) in scan.segments.iter().enumerate() {
        if worker_of(workers, &segment.id) == Some(worker) {
            places.insert(place, segments.len());
            segments.push(segment.clone());
        }
    }
    let own = |file: &FileDescription| {
        let segment = *places.get(&file.segment)?;
        Some(FileDescription { segment, ..file.clone() })
    };
    let partitions: Vec<Vec<_>> = scan.partitions.iter().map(|files| files.iter().filter_map(own).collect()).collect();
    let rows = partitions.iter().flatten().map(|file| file.rows).reduce(|all, rows| all.add(&rows));
    let rows = rows.unwrap_or(datafusion::common::stats::Precision::Exact(0));
    ScanDescription { segments, partitions, rows, ..scan.clone() }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_store::ScanOutline;

    use super::*;
    use crate::tests::samples::Samples;

    fn outlines(plan: &Arc<dyn ExecutionPlan>) -> Vec<ScanOutline> {
        let mut outlines = Vec::new();
        each(plan, |node| outlines.extend(ScanOutline::of(node.as_ref()))).unwrap();
        outlines
    }

    #[tokio::test]
    async fn a_plan_that_runs_again_has_its_own_conditions_only() {
        let samples = Samples::made().await;
        let mut learning = 0;
        for (plan, context) in &samples.plans {
            let (before, after) = (outlines(plan), outlines(&unlearnt(plan, context).unwrap()));
            learning += before.iter().filter(|scan| scan.learns_conditions).count();
            assert!(after.iter().all(|scan| !scan.learns_conditions), "{after:?}");
            let known = |scans: &[ScanOutline]| scans.iter().map(|scan| scan.conditions.clone()).collect::<Vec<_>>();
            assert_eq!(known(&before), known(&after));
        }
        assert!(learning > 0, "no plan learns conditions");
    }
}
