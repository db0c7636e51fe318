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
use super::workers::{StageList, StageWorkers};
use super::{check, head, leaf_rows, leaves, planner};
use crate::cut::is_recursive;
use crate::decoder::decode;
use crate::encoder::encode;
use crate::held_segments::held_segments;
use crate::local_leaves::LocalLeaves;
use crate::stay::Stay;

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

    /// A statement whose workers exchange rows, and `other` that runs instead if it fails because of a worker before its first row;
    /// `None` for any other statement.
    ///
    /// # Errors
    /// If the engine cannot make the operators again: none that is known.
    pub(crate) fn exchanging(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        task: &TaskContext,
        other: impl FnOnce() -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Option<Carried>> {
        // Most statements read little, and pay for nothing more than this.
        if leaves::rows(plan, task)? < self.options.least_exchanged_rows {
            return Ok(None);
        }
        let list = self.workers.list();
        match self.told(tried(plan, &list.names, self.options, &planning(task))) {
            Some(staged) if exchanges(&staged.plan) => staged.carried(list, other()?).map(Some),
            _ => Ok(None),
        }
    }

    /// The statement, if it runs in stages.
    fn told(&self, tried: std::result::Result<Staged, StageReport>) -> Option<Staged> {
        match tried {
            Ok(staged) => {
                (self.told)(&StageReport::Stages(staged.stages));
                Some(staged)
            }
            Err(report) => {
                (self.told)(&report);
                None
            }
        }
    }
}

/// A plan with boundaries, which may run.
struct Staged {
    plan: Arc<dyn ExecutionPlan>,
    /// How many stages it has; the last one runs where the statement is.
    stages: usize,
}

impl Staged {
    fn carried(self, workers: StageList, other: Arc<dyn ExecutionPlan>) -> Result<Carried> {
        let run = Arc::new(RunningStages::new(workers.clone(), self.stages));
        let (plan, report) = (head::without_inputs(&self.plan)?, Arc::clone(&run));
        let finish: Finish = Box::new(move |head, other| head::with_inputs(head, other, workers, &run));
        Ok(Carried { plan, finish: Some((other, finish)), report: Some(report) })
    }
}

/// What plans are made with.
fn planning(task: &TaskContext) -> Arc<TaskContext> {
    let context = TaskContext::default().with_session_config(task.session_config().clone());
    Arc::new(context.with_runtime(task.runtime_env()))
}

impl fmt::Debug for StageCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageCarrier").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Carrier for StageCarrier {
    /// Where a statement may not run with exchanges, it is tried without.
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> Result<Carried> {
        let (list, context) = (self.workers.list(), planning(task));
        let none = StageOptions { least_exchanged_rows: u64::MAX, ..self.options };
        let staged = tried(&plan, &list.names, self.options, &context).or_else(|report| match report {
            StageReport::Refused(why) => {
                tried(&plan, &list.names, none, &context).map_err(|_| StageReport::Refused(why))
            }
            report => Err(report),
        });
        match self.told(staged) {
            Some(staged) => staged.carried(list, plan),
            None => Ok(plan.into()),
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

/// The plan with boundaries, or why it stays whole.
fn tried(
    plan: &Arc<dyn ExecutionPlan>,
    names: &[Arc<str>],
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
    Ok(Staged { plan: staged, stages: stages.len() + 1 })
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
