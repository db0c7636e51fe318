//! The tasks of a branch: each worker's share of its segments.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_store::{FileDescription, HeldSegments, ScanDescription, SegmentName};

use crate::batch_bytes::is_sendable;
use crate::decoder::decode;
use crate::encoder::encode;
use crate::error::PlanError;
use crate::local_leaves::LocalLeaves;
use crate::rendezvous::worker_of;
use crate::task::Task;

/// What is left to read of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// As it is stored, with all columns, about.
    pub(crate) bytes: u64,
    /// Before any condition, about.
    pub(crate) rows: u64,
}

impl Weight {
    /// Of a scan. Where each partition hands on at most `limit` rows, no more are read.
    pub(crate) fn of(scan: &ScanDescription, limit: Option<usize>) -> Self {
        let mut all = Self::default();
        for files in &scan.partitions {
            let mut left = limit.map_or(u64::MAX, |limit| limit as u64);
            for file in files {
                let Some(segment) = scan.segments.get(file.segment) else { continue };
                let rows = rows_of(file, segment).min(left);
                left -= rows;
                let bytes = u128::from(segment.bytes) * u128::from(rows) / u128::from(segment.rows.max(1));
                all.rows = all.rows.saturating_add(rows);
                all.bytes = all.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            }
        }
        all
    }
}

fn rows_of(file: &FileDescription, segment: &SegmentName) -> u64 {
    match file.rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => (rows as u64).min(segment.rows),
        Precision::Absent => segment.rows,
    }
}

/// What a scan reads of the segments of one worker, partition by partition in the same order; `None` if it has none.
fn share(scan: &ScanDescription, workers: &[Arc<str>], worker: usize) -> Option<ScanDescription> {
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
    let partitions = scan.partitions.iter().map(|files| files.iter().filter_map(own).collect::<Vec<_>>());
    let partitions: Vec<_> = partitions.filter(|files| !files.is_empty()).collect();
    if partitions.is_empty() {
        return None;
    }
    let rows = partitions.iter().flatten().map(|file| file.rows).reduce(|all, rows| all.add(&rows));
    Some(ScanDescription { segments, partitions, rows: rows.unwrap_or(Precision::Absent), ..scan.clone() })
}

/// The tasks of the operators `plan` over the scan of segments `scan`, one for each worker that has some of its segments.
///
/// # Errors
/// [`PlanError::Unsendable`] if the operators do not travel.
pub(crate) fn tasks(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &Arc<dyn ExecutionPlan>,
    reads: &ScanDescription,
    workers: &[Arc<str>],
    context: &TaskContext,
) -> std::result::Result<Vec<Task>, PlanError> {
    if let Some(field) = plan.schema().fields().iter().find(|field| !is_sendable(field)) {
        return Err(PlanError::Unsendable(format!("rows with a {} are not sent", field.data_type())));
    }
    let held = HeldSegments::of_plan(scan);
    let mut tasks: Vec<Task> = Vec::new();
    for (place, worker) in workers.iter().enumerate() {
        let Some(share) = share(reads, workers, place) else { continue };
        let (held, weight) = (held.only(&share.segments), Weight::of(&share, None));
        let own = share.scan(&held, context).and_then(|own| with_leaf(plan, scan, &own));
        let own = own.map_err(|error| PlanError::from_engine(&error, PlanError::Unsendable))?;
        let encoded = encode(&own, context.session_config().options(), None)?;
        // A filter that an operator of the plan changes while it runs may know its columns in a way that is not decoded.
        // The tasks of a plan have the same expressions.
        if tasks.is_empty() {
            decode(&encoded.bytes, &held, context, &LocalLeaves::default())?;
        }
        tasks.push(Task {
            worker: Arc::clone(worker),
            partitions: own.output_partitioning().partition_count(),
            schema: own.schema(),
            plan: encoded,
            held,
            bytes: weight.bytes,
            rows: weight.rows,
        });
    }
    Ok(tasks)
}

/// The plan over another leaf.
fn with_leaf(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &Arc<dyn ExecutionPlan>,
    other: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = Arc::clone(plan).transform_up(|node| {
        Ok(if Arc::ptr_eq(&node, leaf) { Transformed::yes(Arc::clone(other)) } else { Transformed::no(node) })
    });
    changed.map(|changed| changed.data)
}
