//! The stages of a plan, or why it has none.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::NetworkBoundaryExt;
use tidegate_store::ScanDescription;

use super::gather::{Gathered, gathered};
use super::options::StageOptions;
use super::weight::Weight;
use super::workers::{StageList, StageWorkers};
use super::{check, leaves, planner, travel};
use crate::damaged_copies::DamagedCopies;
use crate::rendezvous::worker_of;
use crate::stay::Stay;
use crate::worker_failure::DamagedCopy;

/// Makes the stages of statements.
#[derive(Debug)]
pub(super) struct StagePlanner {
    pub(super) workers: Arc<dyn StageWorkers>,
    pub(super) options: StageOptions,
    pub(super) damaged: Arc<DamagedCopies>,
}

/// A plan with boundaries, which may run.
pub(super) struct Staged {
    /// It has one partition.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// How many stages it has; the last one runs where the statement is.
    pub(super) stages: usize,
    /// Whether workers exchange rows.
    pub(super) exchanges: bool,
    /// The workers that run the others.
    pub(super) list: StageList,
}

/// What became of a plan.
#[derive(Default)]
pub(super) struct Placed {
    /// Its stages, if workers run some.
    pub(super) staged: Option<Staged>,
    /// Why scans stay.
    pub(super) stays: Vec<Stay>,
    /// Why workers exchange no rows, if they should.
    pub(super) not_exchanged: Option<String>,
}

impl From<Stay> for Placed {
    fn from(stay: Stay) -> Self {
        Self { stays: vec![stay], ..Self::default() }
    }
}

fn unsendable(error: &dyn fmt::Display) -> Stay {
    Stay::Unsendable(error.to_string())
}

impl StagePlanner {
    /// Whether workers should exchange rows for a plan. Most statements have no keys or read little, and pay for nothing more than
    /// this.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn exchanges(&self, plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<bool> {
        Ok(leaves::has_keys(plan)? && leaves::rows(plan, context)? >= self.options.least_exchanged_rows)
    }

    /// The plan in stages, for all workers without those of these names; or why it stays whole. Where workers may not exchange
    /// rows, they run what they can by themselves.
    pub(super) fn placed(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        left_out: &[Arc<str>],
        exchange: bool,
        context: &Arc<TaskContext>,
    ) -> Placed {
        self.tried(plan, left_out, exchange, context).unwrap_or_else(Placed::from)
    }

    fn tried(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        left_out: &[Arc<str>],
        exchange: bool,
        context: &Arc<TaskContext>,
    ) -> std::result::Result<Placed, Stay> {
        let failed = |error: DataFusionError| unsendable(&error.strip_backtrace());
        let scans = leaves::scans(plan, context).map_err(failed)?;
        if scans.is_empty() {
            return Err(Stay::NoSegments);
        }
        if let Some(little) = self.little(&scans) {
            return Err(little);
        }
        let now = Instant::now();
        let is_damaged = !self.damaged.is_empty()
            && scans.iter().flat_map(|scan| &scan.segments).any(|segment| self.damaged.has(segment.id, now));
        if is_damaged {
            return Err(Stay::Damaged);
        }
        let list = self.workers.list(left_out);
        if list.names.is_empty() {
            return Err(Stay::NoWorkers);
        }
        let mut not_exchanged = None;
        if exchange && list.names.len() > 1 {
            match self.exchanging(plan, list.clone(), context) {
                Ok(Some(staged)) => return Ok(Placed { staged: Some(staged), ..Placed::default() }),
                Ok(None) => {}
                Err(why) => not_exchanged = Some(why),
            }
        }
        // Those that read nothing are not asked.
        let segments = scans.iter().flat_map(|scan| &scan.segments);
        let readers: BTreeSet<_> = segments.filter_map(|segment| worker_of(&list.names, &segment.id)).collect();
        let idle = list.names.iter().enumerate().filter(|(place, _)| !readers.contains(place));
        let idle: Vec<_> = idle.map(|(_, name)| Arc::clone(name)).collect();
        let list = if idle.is_empty() { list } else { self.workers.list(&[left_out, &idle].concat()) };
        if list.names.is_empty() {
            return Err(Stay::NoWorkers);
        }
        let Gathered { plan, stays, stages } = gathered(plan, &list.names, self.options, context).map_err(failed)?;
        if stages == 0 {
            return Ok(Placed { staged: None, stays, not_exchanged });
        }
        check::stages(&plan).map_err(Stay::OrderLost)?;
        travel::is_sane(Arc::clone(&plan), context).map_err(|error| Stay::OrderLost(error.strip_backtrace()))?;
        let staged = Staged { plan, stages: stages + 1, exchanges: false, list };
        Ok(Placed { staged: Some(staged), stays, not_exchanged })
    }

    /// That all scans together are not worth a task.
    fn little(&self, scans: &[ScanDescription]) -> Option<Stay> {
        let StageOptions { least_bytes, least_rows, always, .. } = self.options;
        let add = |Weight { bytes, rows }: Weight, scan: &ScanDescription| {
            let more = Weight::of(scan, None);
            Weight { bytes: bytes.saturating_add(more.bytes), rows: rows.saturating_add(more.rows) }
        };
        let Weight { bytes, rows } = scans.iter().fold(Weight::default(), add);
        let is_little = !always && (bytes < least_bytes || rows < least_rows);
        is_little.then_some(Stay::Little { bytes, rows })
    }

    /// The plan whose workers exchange rows; `None` if they would not. Or why it may not run so.
    fn exchanging(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        list: StageList,
        context: &Arc<TaskContext>,
    ) -> std::result::Result<Option<Staged>, String> {
        let failed = |error: DataFusionError| error.strip_backtrace();
        let plan = planner::staged(plan, &list.names, context).map_err(failed)?;
        let Some(plan) = plan.filter(exchanges) else { return Ok(None) };
        let stages = check::stages(&plan)?;
        travel::is_sane(Arc::clone(&plan), context).map_err(failed)?;
        for stage in &stages {
            travel::checked(stage, context)?;
        }
        Ok(Some(Staged { plan, stages: stages.len() + 1, exchanges: true, list }))
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
fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> bool {
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
