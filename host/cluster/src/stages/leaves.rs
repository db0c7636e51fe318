//! Which worker reads what of a leaf.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{DesiredTaskCountEventResponse, DistributedLeafExec};
use tidegate_store::{FileDescription, HeldSegments, ScanDescription};

use super::leaf_rows;
use crate::assignment::Weight;
use crate::piece::has_subquery_value;
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
        Some(Ok(_)) if !is_one && !has_subquery_value(leaf)? => DesiredTaskCountEventResponse::desired(workers),
        None if is_rows(leaf) => DesiredTaskCountEventResponse::desired(1),
        _ => DesiredTaskCountEventResponse::maximum(1),
    })
}

/// On how many workers an operator may run that is no leaf; `None` leaves it to what is below. One that needs rows together
/// by their keys runs in one place, if there are too few to exchange; one that needs the value of a subquery, where that is.
pub(super) fn desired_above(
    plan: &Arc<dyn ExecutionPlan>,
    least_exchanged_rows: u64,
    context: &TaskContext,
) -> Result<Option<DesiredTaskCountEventResponse>> {
    let exchanges = plan.children().into_iter().any(|child| {
        let repartition = child.downcast_ref::<RepartitionExec>();
        repartition.is_some_and(|of| matches!(of.partitioning(), Partitioning::Hash(..)))
    });
    let is_one = exchanges && rows(plan, context)? < least_exchanged_rows || has_subquery_value(plan)?;
    Ok(is_one.then(|| DesiredTaskCountEventResponse::maximum(1)))
}

/// What the scans of segments of a plan read, of those that travel.
pub(super) fn scans(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Vec<ScanDescription>> {
    let mut scans = Vec::new();
    plan.apply(|node| {
        let scan = ScanDescription::of(node.as_ref(), context.session_config().options());
        scans.extend(scan.and_then(Result::ok));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scans)
}

/// The rows that the scans of segments of a plan read, before any condition, about. What does not travel is no reason to
/// exchange.
pub(super) fn rows(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<u64> {
    let scans = scans(plan, context)?;
    Ok(scans.iter().fold(0_u64, |rows, scan| rows.saturating_add(Weight::of(scan, None).rows)))
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
