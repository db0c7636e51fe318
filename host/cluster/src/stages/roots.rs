//! What of a statement runs in stages by itself: all of it, or, where it has such, the subqueries whose values it needs, and
//! what needs them.
//!
//! The value of a subquery is there before what needs it begins, so it goes to workers as a constant. A part that several
//! operators read is computed by workers for each of them: held in one place, its rows would have to go there and back.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_sql::{Carried, OwnOperator};

use super::head;
use super::report::StatementStages;
use super::running::{Retry, RunningStages};
use super::staged::{Instead, StagePlanner, StageReport, Staged, exchanges};

/// The plans of a statement that run in stages.
pub(super) struct Roots<'c> {
    planner: &'c Arc<StagePlanner>,
    context: &'c Arc<TaskContext>,
    instead: Instead,
    running: Vec<Arc<RunningStages>>,
    /// The stages that workers run.
    stages: usize,
    /// Whether workers exchange rows.
    exchanges: bool,
    /// Why the last plan stays whole that does.
    whole: Option<StageReport>,
}

impl<'c> Roots<'c> {
    /// `instead` runs in the place of a plan whose workers failed.
    pub(super) fn new(planner: &'c Arc<StagePlanner>, context: &'c Arc<TaskContext>, instead: Instead) -> Self {
        Self { planner, context, instead, running: Vec::new(), stages: 0, exchanges: false, whole: None }
    }

    /// The statement with the head stages of what runs in stages, and whether workers exchange rows; or why it stays whole.
    ///
    /// # Errors
    /// If the engine cannot make an operator again: none that is known.
    pub(super) fn of(
        mut self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<std::result::Result<(Carried, bool, StageReport), StageReport>> {
        if has_held_parts(plan)? {
            return Ok(Err(StageReport::Refused("several operators must read the same rows of a part".to_owned())));
        }
        let made = self.root(&with_own_parts(plan)?)?;
        if self.running.is_empty() {
            return Ok(Err(self.whole.unwrap_or(StageReport::NoSegments)));
        }
        let options = self.context.session_config().options();
        if let Err(error) = SanityCheckPlan::new().optimize(Arc::clone(&made), options) {
            return Ok(Err(StageReport::Refused(error.strip_backtrace())));
        }
        let report = Some(Arc::new(StatementStages(self.running)) as _);
        let carried = Carried { plan: made, finish: Some(Box::new(head::finished)), report };
        // All head stages run here, and are one.
        Ok(Ok((carried, self.exchanges, StageReport::Stages(self.stages + 1))))
    }

    fn root(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<ScalarSubqueryExec>() {
            let roots = plan.children().into_iter().map(|child| self.root(&in_one_partition(child)));
            return replace_children_if_necessary(Arc::clone(plan), roots.collect::<Result<_>>()?);
        }
        if let [child] = plan.children().as_slice()
            && needs_subqueries(child)
        {
            return replace_children_if_necessary(Arc::clone(plan), vec![self.root(child)?]);
        }
        match self.planner.staged(plan, &[], self.context) {
            Ok(staged) => self.head(plan, &staged),
            Err(whole) => {
                self.whole = Some(whole);
                Ok(Arc::clone(plan))
            }
        }
    }

    fn head(&mut self, plan: &Arc<dyn ExecutionPlan>, staged: &Staged) -> Result<Arc<dyn ExecutionPlan>> {
        self.exchanges |= exchanges(&staged.plan);
        self.stages += staged.stages - 1;
        let retry = Retry::new(plan, self.context, self.planner, &self.instead);
        let running = Arc::new(RunningStages::new(staged, retry));
        self.running.push(Arc::clone(&running));
        head::of(&staged.plan, &staged.list, running)
    }
}

/// Whether something in a plan must be computed once for several operators.
fn has_held_parts(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| match OwnOperator::of(node.as_ref()) {
        Some(OwnOperator::SharedRows { place, input }) => Ok(place.once || has_held_parts(&input)?),
        _ => Ok(false),
    })
}

/// The plan, each of whose operators has a part by itself that several read. Nothing in a part is volatile or fails.
fn with_own_parts(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = Arc::clone(plan).transform_up(|node| match OwnOperator::of(node.as_ref()) {
        // Operators hold what belongs to one run of them.
        Some(OwnOperator::SharedRows { input, .. }) => {
            Ok(Transformed::yes(reset_plan_states(with_own_parts(&input)?)?))
        }
        _ => Ok(Transformed::no(node)),
    });
    plan.map(|plan| plan.data)
}

/// Whether the values of subqueries are computed for all of a plan.
fn needs_subqueries(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ScalarSubqueryExec>() || matches!(plan.children().as_slice(), [child] if needs_subqueries(child))
}

/// The plan in one partition, if its rows have an order that a stage would lose.
fn in_one_partition(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_ordering() {
        Some(order) if plan.output_partitioning().partition_count() > 1 => {
            Arc::new(SortPreservingMergeExec::new(order.clone(), Arc::clone(plan)))
        }
        _ => Arc::clone(plan),
    }
}
