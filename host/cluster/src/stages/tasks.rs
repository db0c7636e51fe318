//! The tasks that read the scans of a plan in stages, and what they have done.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt};
use tidegate_store::ScanDescription;

use super::weight::Weight;
use super::workers::{RunningTask, StageList};
use crate::statement_report::{LeafReport, RunReport, TaskReport};

/// The scans of segments in the stages that workers run.
pub(super) fn reports(plan: &Arc<dyn ExecutionPlan>, list: &StageList, options: &ConfigOptions) -> Vec<LeafReport> {
    let runs = (list.tasks)();
    let mut reports = Vec::new();
    // The closure never fails, so neither does the walk. What is below a boundary are its children.
    let _ = plan.apply(|node| {
        if let Some(boundary) = node.as_network_boundary()
            && let Some(stage) = boundary.input_stage().local_plan()
        {
            let mut scans = Vec::new();
            scans_of(stage, &mut Vec::new(), &mut scans);
            let number = boundary.input_stage().num();
            let told = |(operators, leaf)| report(operators, &leaf, number, (list, &runs), options);
            reports.extend(scans.into_iter().filter_map(told));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    reports
}

/// The leaves of a stage, each with the names of the operators down to it.
fn scans_of(
    plan: &Arc<dyn ExecutionPlan>,
    above: &mut Vec<String>,
    scans: &mut Vec<(Vec<String>, Arc<dyn ExecutionPlan>)>,
) {
    if plan.is_network_boundary() {
        return;
    }
    let leaf = plan.downcast_ref::<DistributedLeafExec>().map_or(plan, DistributedLeafExec::original);
    above.push(leaf.name().to_owned());
    if plan.children().is_empty() {
        scans.push((above.clone(), Arc::clone(plan)));
    }
    plan.children().into_iter().for_each(|child| scans_of(child, above, scans));
    above.pop();
}

fn report(
    operators: Vec<String>,
    leaf: &Arc<dyn ExecutionPlan>,
    stage: usize,
    (list, runs): (&StageList, &[RunningTask]),
    options: &ConfigOptions,
) -> Option<LeafReport> {
    let variants = leaf.downcast_ref::<DistributedLeafExec>().map(DistributedLeafExec::variants);
    let variants = variants.unwrap_or(std::slice::from_ref(leaf));
    let mut source = None;
    let mut tasks = Vec::new();
    for (place, variant) in variants.iter().enumerate() {
        let Ok(reads) = ScanDescription::of(variant.as_ref(), options)? else { continue };
        source = Some(reads.source.to_string());
        if reads.segments.is_empty() {
            continue;
        }
        let Weight { bytes, rows } = Weight::of(&reads, None);
        tasks.push(TaskReport {
            worker: list.names.get(place).map(|name| name.to_string()).unwrap_or_default(),
            segments: reads.segments.len(),
            partitions: reads.partitions.iter().filter(|files| !files.is_empty()).count(),
            bytes,
            rows,
            ran: runs.iter().find(|run| (run.stage, run.task) == (stage, place)).map(RunningTask::report),
        });
    }
    Some(LeafReport { source: source?, operators, tasks, left_out: 0 })
}

impl RunningTask {
    fn report(&self) -> RunReport {
        let Self { taken, rows_sent, cost, .. } = self;
        RunReport {
            taken: *taken,
            rows_sent: *rows_sent,
            rows_read: cost.rows_read,
            bytes_read: cost.bytes_read,
            memory: cost.memory,
        }
    }
}
