//! The stages of the statements of an engine.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Carried, Carrier, OwnOperator};
use tidegate_store::ScanDescription;

use super::options::StageOptions;
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
        let none = StageOptions { least_exchanged_rows: u64::MAX };
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
        let context =
            TaskContext::default().with_session_config(task.session_config().clone()).with_runtime(task.runtime_env());
        let list = self.workers.list();
        match self.staged(&plan, &list.names, &Arc::new(context)) {
            Ok((staged, stages)) => {
                (self.told)(&StageReport::Stages(stages));
                let finish = move |head| head::with_inputs(head, list);
                Ok(Carried { plan: head::without_inputs(&staged)?, finish: Some(Box::new(finish)), report: None })
            }
            Err(report) => {
                (self.told)(&report);
                Ok(plan.into())
            }
        }
    }
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
