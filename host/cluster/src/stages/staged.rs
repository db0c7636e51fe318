//! The stages of a plan, or why it has none.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::NetworkBoundaryExt;
use tidegate_sql::Carried;
use tidegate_store::ScanDescription;

use super::options::StageOptions;
use super::workers::{StageList, StageWorkers};
use super::{check, leaf_rows, leaves, planner};
use crate::batch_bytes::is_sendable;
use crate::cut::is_recursive;
use crate::damaged_copies::DamagedCopies;
use crate::decoder::decode;
use crate::encoder::encode_pending;
use crate::held_segments::held_segments;
use crate::local_leaves::LocalLeaves;
use crate::stay::Stay;
use crate::worker_failure::DamagedCopy;

/// What became of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageReport {
    /// It reads no segments.
    NoSegments,
    /// Its plan has one stage only.
    OneStage,
    /// It runs in so many stages, of which the last one is here.
    Stages(usize),
    /// It stays whole, because it would not give its answer in stages, or does not travel.
    Refused(String),
}

/// Makes the stages of statements.
#[derive(Debug)]
pub(super) struct StagePlanner {
    pub(super) workers: Arc<dyn StageWorkers>,
    pub(super) options: StageOptions,
    pub(super) damaged: Arc<DamagedCopies>,
}

/// What runs instead of stages whose workers failed, of the operators that it is given.
pub(crate) type Instead = Arc<dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Carried> + Send + Sync>;

/// A plan with boundaries, which may run.
pub(super) struct Staged {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// How many stages it has; the last one runs where the statement is.
    pub(super) stages: usize,
    /// The workers that run the others.
    pub(super) list: StageList,
}

impl StagePlanner {
    /// The plan in stages, for all workers without those of these names; or why it stays whole. Where it may not run with exchanges, it is
    /// tried without.
    pub(super) fn staged(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        left_out: &[Arc<str>],
        context: &Arc<TaskContext>,
    ) -> std::result::Result<Staged, StageReport> {
        let refused = |error: DataFusionError| StageReport::Refused(error.to_string());
        if !self.damaged.is_empty() {
            let (scans, now) = (leaves::scans(plan, context).map_err(refused)?, Instant::now());
            let mut segments = scans.iter().flat_map(|scan| &scan.segments);
            if segments.any(|segment| self.damaged.has(segment.id, now)) {
                return Err(StageReport::Refused("a copy of a segment that workers would read is damaged".to_owned()));
            }
        }
        let list = self.workers.list(left_out);
        tried(plan, list.clone(), self.options, context).or_else(|report| match report {
            StageReport::Refused(why) => {
                tracing::debug!(why, "workers do not exchange rows");
                let none = StageOptions { least_exchanged_rows: u64::MAX, ..self.options };
                tried(plan, list, none, context).map_err(|_| StageReport::Refused(why))
            }
            report => Err(report),
        })
    }

    /// Notes a damaged copy that workers found.
    pub(super) fn found_damaged(&self, copy: &DamagedCopy) {
        if self.damaged.found(&copy.failure, Instant::now()) {
            let failure = &copy.failure;
            tracing::error!(%failure, "a copy of a segment is damaged; for some minutes, what needs it is not given to workers");
        }
    }
}

/// Whether workers exchange rows: some stage of them reads another one.
pub(super) fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut exchanges = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply(|node| {
        let stage = node.as_network_boundary().map(|boundary| boundary.input_stage());
        let below = stage.and_then(|stage| stage.local_plan());
        exchanges |= below.is_some_and(|below| below.exists(|node| Ok(node.is_network_boundary())).unwrap_or(false));
        Ok(TreeNodeRecursion::Continue)
    });
    exchanges
}

/// The plan with boundaries, or why it stays whole.
fn tried(
    plan: &Arc<dyn ExecutionPlan>,
    list: StageList,
    options: StageOptions,
    context: &Arc<TaskContext>,
) -> std::result::Result<Staged, StageReport> {
    if !reads_segments(plan, context) {
        return Err(StageReport::NoSegments);
    }
    let refused = |error: &dyn fmt::Display| StageReport::Refused(error.to_string());
    if is_recursive(plan).map_err(|error| refused(&error))? {
        return Err(StageReport::Refused(Stay::Recursive.to_string()));
    }
    let staged = planner::staged(plan, &list.names, options, context);
    let staged = staged.map_err(|error| refused(&error))?;
    let Some(staged) = staged else { return Err(StageReport::OneStage) };
    let stages = check::stages(&staged).map_err(StageReport::Refused)?;
    let options = context.session_config().options();
    let checked = |plan| SanityCheckPlan::new().optimize(plan, options).map_err(|error| refused(&error));
    checked(Arc::clone(&staged))?;
    for stage in &stages {
        if let Some(field) = stage.schema().fields().iter().find(|field| !is_sendable(field)) {
            return Err(StageReport::Refused(format!("rows with a {} are not sent", field.data_type())));
        }
        // What the stage below has in common (an order, columns that are equal or constant) is not in the messages.
        let mut leaves = LocalLeaves::default();
        let encoded = encode_pending(stage, options, &mut leaves).map_err(|error| refused(&error))?;
        let leaves = leaf_rows::without_rows(&leaves).map_err(|error| refused(&error))?;
        let decoded = decode(&encoded.bytes, &held_segments(stage), context, &leaves);
        checked(decoded.map_err(|error| refused(&error))?)?;
    }
    Ok(Staged { plan: staged, stages: stages.len() + 1, list })
}

/// Whether a scan of the plan reads segments.
fn reads_segments(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> bool {
    let options = context.session_config().options();
    // The closure never fails, so neither does the walk.
    plan.exists(|node| Ok(ScanDescription::of(node.as_ref(), options).is_some())).unwrap_or_default()
}
