//! The stages of the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::NetworkBoundaryExt;
use tidegate_sql::{Carried, Carrier, Finish, OwnOperator};
use tidegate_store::ScanDescription;

use super::options::StageOptions;
use super::running::RunningStages;
use super::workers::StageWorkers;
use super::{check, head, leaf_rows, planner};
use crate::decoder::decode;
use crate::encoder::encode;
use crate::held_segments::held_segments;
use crate::local_leaves::LocalLeaves;

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

/// Runs each statement of an engine in stages, if it may.
pub struct StageCarrier {
    workers: Arc<dyn StageWorkers>,
    options: StageOptions,
    told: Box<dyn Fn(&StageReport) + Send + Sync>,
}

impl StageCarrier {
    /// For these workers. `told` is told of each statement what became of it.
    pub fn new(
        workers: Arc<dyn StageWorkers>,
        options: StageOptions,
        told: impl Fn(&StageReport) + Send + Sync + 'static,
    ) -> Self {
        Self { workers, options, told: Box::new(told) }
    }

    /// The head stage of a statement that runs in stages, and `other` if it fails because of a worker before its first row;
    /// `None` if it stays whole, or workers would exchange nothing and `must_exchange`.
    ///
    /// # Errors
    /// If the engine cannot make the operators again: none that is known.
    pub(crate) fn carried(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        task: &TaskContext,
        must_exchange: bool,
        other: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Option<Carried>> {
        let context =
            TaskContext::default().with_session_config(task.session_config().clone()).with_runtime(task.runtime_env());
        let list = self.workers.list();
        let staged = match self.staged(plan, &list.names, &Arc::new(context)) {
            Ok((staged, stages)) if !must_exchange || exchanges(&staged) => {
                (self.told)(&StageReport::Stages(stages));
                staged
            }
            Ok(_) => return Ok(None),
            Err(report) => {
                (self.told)(&report);
                return Ok(None);
            }
        };
        let stages = check::stages(&staged).map_or(0, |stages| stages.len() + 1);
        let run = Arc::new(RunningStages::new(list.clone(), stages));
        let (plan, report) = (head::without_inputs(&staged)?, Arc::clone(&run));
        let finish: Finish = Box::new(move |head, other| head::with_inputs(head, other, list, &run));
        Ok(Some(Carried { plan, finish: Some((other()?, finish)), report: Some(report) }))
    }

    /// The plan with boundaries and the number of its stages, or why it stays whole. Where it may not run with exchanges, it
    /// is tried without.
    fn staged(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        names: &[Arc<str>],
        context: &Arc<TaskContext>,
    ) -> std::result::Result<(Arc<dyn ExecutionPlan>, usize), StageReport> {
        if !reads_segments(plan, context) {
            return Err(StageReport::NoSegments);
        }
        let none = StageOptions { least_exchanged_rows: u64::MAX, ..self.options };
        tried(plan, names, self.options, context).or_else(|report| match report {
            StageReport::Refused(why) => {
                tracing::debug!(why, "a statement is planned again, without exchanges");
                tried(plan, names, none, context).map_err(|_| StageReport::Refused(why))
            }
            report => Err(report),
        })
    }
}

impl fmt::Debug for StageCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCarrier").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Carrier for StageCarrier {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let carried = self.carried(&plan, task, false, || Ok(Arc::clone(&plan)))?;
        Ok(carried.unwrap_or_else(|| plan.into()))
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

/// The plan with boundaries and the number of its stages, with these options.
fn tried(
    plan: &Arc<dyn ExecutionPlan>,
    names: &[Arc<str>],
    options: StageOptions,
    context: &Arc<TaskContext>,
) -> std::result::Result<(Arc<dyn ExecutionPlan>, usize), StageReport> {
    let refused = |error: &dyn fmt::Display| StageReport::Refused(error.to_string());
    let staged = planner::staged(plan, names, options, context);
    let staged = staged.map_err(|error| refused(&error))?;
    let Some(staged) = staged else { return Err(StageReport::OneStage) };
    let stages = check::stages(&staged).map_err(StageReport::Refused)?;
    let options = context.session_config().options();
    let checked = |plan| SanityCheckPlan::new().optimize(plan, options).map_err(|error| refused(&error));
    checked(Arc::clone(&staged))?;
    for stage in &stages {
        // What the stage below has in common (an order, columns that are equal or constant) is not in the messages.
        let mut leaves = LocalLeaves::default();
        let encoded = encode(stage, options, Some(&mut leaves)).map_err(|error| refused(&error))?;
        let leaves = leaf_rows::without_rows(&leaves).map_err(|error| refused(&error))?;
        let decoded = decode(&encoded.bytes, &held_segments(stage), context, &leaves);
        checked(decoded.map_err(|error| refused(&error))?)?;
    }
    Ok((staged, stages.len() + 1))
}

/// Whether a scan of the plan, or of a part that several operators read, reads segments.
fn reads_segments(plan: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> bool {
    let mut reads = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply(|node| {
        reads |= match OwnOperator::of(node.as_ref()) {
            Some(OwnOperator::SharedRows { input, .. }) => reads_segments(&input, context),
            _ => ScanDescription::of(node.as_ref(), context.session_config().options()).is_some(),
        };
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    reads
}
