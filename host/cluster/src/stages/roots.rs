//! What of a statement runs in stages by itself: all of it, or, where it has such, the subqueries whose values it needs, and
//! what needs them; and parts that several operators read.
//!
//! The value of a subquery is there before what needs it begins, so it goes to workers as a constant. Where workers exchange
//! rows, a part that several operators read is computed by them for each: held in one place, its rows would have to go there
//! and back. Where they do not, it is computed once.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidegate_sql::OwnOperator;

use super::report::StatementStages;
use super::running::{Retry, RunningStages};
use super::staged::StagePlanner;
use super::{head, travel};
use crate::stay::Stay;

/// The plans of a statement that run in stages.
pub(super) struct Roots<'c> {
    planner: &'c Arc<StagePlanner>,
    context: &'c Arc<TaskContext>,
    /// Whether workers may exchange rows.
    exchange: bool,
    /// The parts that several operators read, by number.
    parts: HashMap<usize, Arc<dyn ExecutionPlan>>,
    stages: StatementStages,
}

/// The statement with the head stages of what runs in stages, and what is told of it.
///
/// # Errors
/// If the engine cannot make an operator again: none that is known.
pub(super) fn of(
    planner: &Arc<StagePlanner>,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<(Arc<dyn ExecutionPlan>, StatementStages)> {
    let roots =
        |exchange| Roots { planner, context, exchange, parts: HashMap::new(), stages: StatementStages::default() };
    let mut not_exchanged = None;
    if has_held_parts(plan)? {
        let stays = vec![Stay::Unsendable("several operators must read the same rows of a part".to_owned())];
        return Ok((Arc::clone(plan), StatementStages { stays, ..StatementStages::default() }));
    }
    if planner.exchanges(plan, context)? {
        let (made, stages) = roots(true).all(plan, &with_own_parts(plan)?)?;
        if stages.running.iter().any(|running| running.exchange().is_some()) {
            return Ok((made, stages));
        }
        not_exchanged = stages.not_exchanged;
    }
    let (made, stages) = roots(false).all(plan, plan)?;
    Ok((made, StatementStages { not_exchanged, ..stages }))
}

impl Roots<'_> {
    /// The plan `given` as the statement with this plan runs.
    fn all(
        mut self,
        plan: &Arc<dyn ExecutionPlan>,
        given: &Arc<dyn ExecutionPlan>,
    ) -> Result<(Arc<dyn ExecutionPlan>, StatementStages)> {
        let made = self.root(given)?;
        // What reads nothing but the rows of others is no scan that stays.
        let is_other = |stay: &Stay| *stay != Stay::NoSegments;
        if !self.stages.running.is_empty() || self.stages.stays.iter().any(is_other) {
            self.stages.stays.retain(is_other);
        } else {
            self.stages.stays.truncate(1);
        }
        if self.stages.running.is_empty() {
            return Ok((Arc::clone(plan), self.stages));
        }
        if let Err(error) = travel::is_sane(Arc::clone(&made), self.context) {
            let stays = vec![Stay::OrderLost(error.strip_backtrace())];
            return Ok((Arc::clone(plan), StatementStages { stays, ..StatementStages::default() }));
        }
        Ok((made, self.stages))
    }

    fn root(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
            self.stages.stays.push(Stay::Recursive);
            return Ok(Arc::clone(plan));
        }
        let plan = self.with_staged_parts(plan)?;
        self.of_subqueries(&plan)
    }

    fn of_subqueries(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<ScalarSubqueryExec>() {
            let roots = plan.children().into_iter().map(|child| self.of_subqueries(&in_one_partition(child)));
            return replace_children_if_necessary(Arc::clone(plan), roots.collect::<Result<_>>()?);
        }
        if let [child] = plan.children().as_slice()
            && needs_subqueries(child)
        {
            return replace_children_if_necessary(Arc::clone(plan), vec![self.of_subqueries(child)?]);
        }
        let placed = self.planner.placed(plan, &[], self.exchange, self.context);
        self.stages.stays.extend(placed.stays);
        self.stages.not_exchanged = self.stages.not_exchanged.take().or(placed.not_exchanged);
        let Some(staged) = placed.staged else { return Ok(Arc::clone(plan)) };
        let retry = Retry::new(plan, self.exchange, self.context, self.planner);
        let running = Arc::new(RunningStages::new(&staged, retry));
        self.stages.running.push(Arc::clone(&running));
        head::of(&staged.plan, &staged.list, running)
    }

    /// The plan, whose parts that several operators read run in stages by themselves.
    fn with_staged_parts(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(plan).transform_up(|node| {
            let Some(OwnOperator::SharedRows { place, input }) = OwnOperator::of(node.as_ref()) else {
                return Ok(Transformed::no(node));
            };
            let input = match self.parts.get(&place.part) {
                Some(input) => Arc::clone(input),
                None => self.part(&input)?,
            };
            self.parts.insert(place.part, Arc::clone(&input));
            Ok(Transformed::yes(OwnOperator::SharedRows { place, input }.into_plan()))
        });
        plan.map(|plan| plan.data)
    }

    fn part(&mut self, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let before = self.stages.running.len();
        let made = self.root(&in_one_partition(input))?;
        if self.stages.running.len() == before {
            return Ok(Arc::clone(input));
        }
        // A head stage has one partition. Its readers may rely on the keys of those that were there, if they are among its columns.
        Ok(match input.output_partitioning() {
            of @ Partitioning::Hash(keys, partitions) if *partitions > 1 && !keys.iter().any(has_unknown_column) => {
                Arc::new(RepartitionExec::try_new(made, of.clone())?)
            }
            _ => made,
        })
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

/// Whether a key is of a column that is not handed on. Nothing relies on it.
fn has_unknown_column(key: &Arc<dyn PhysicalExpr>) -> bool {
    // The closure never fails, so neither does the walk.
    key.exists(|part| Ok(part.is::<UnKnownColumn>())).unwrap_or(true)
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
