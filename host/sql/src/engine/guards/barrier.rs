//! The security barrier among the optimizer's rules and among operators. What it is for: [`crate::barrier`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Filter, LogicalPlan, UserDefinedLogicalNode};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::barrier::{BarrierKind, SecurityBarrier, barrier, expr_may_fail, is_plain};
use crate::engine::wrapper::{Wrapper, wrapped};
use crate::exprs::reads_beyond;

/// The optimizer's rule that moves conditions which cannot fail below a barrier. It comes after the rule that moves
/// filters down to the barrier, and before its next pass, which moves them on to the scan.
#[derive(Debug)]
pub(crate) struct ConditionsPassBarrier;

impl OptimizerRule for ConditionsPassBarrier {
    fn name(&self) -> &'static str {
        "conditions_pass_barrier"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let Some(SecurityBarrier { kind, input }) = barrier(&filter.input) else {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        };
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for condition in split_conjunction(&filter.predicate) {
            let passes = match kind {
                BarrierKind::Grant => {
                    !condition.is_volatile() && !reads_beyond(condition) && !expr_may_fail(condition, input.schema())?
                }
                BarrierKind::Policy => is_plain(condition),
            };
            if passes { &mut below } else { &mut above }.push(condition.clone());
        }
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
        let input = match input {
            // What the policy demands stays before what passed: the engine looks at conditions in their order.
            LogicalPlan::Filter(own) if *kind == BarrierKind::Policy => {
                Filter::try_new(own.predicate.clone().and(below), Arc::clone(&own.input))?
            }
            input => Filter::try_new(below, Arc::new(input.clone()))?,
        };
        let passed = SecurityBarrier { kind: *kind, input: LogicalPlan::Filter(input) }.into_plan();
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(passed))?),
            None => passed,
        }))
    }
}

/// The operator of a node, if it is a barrier.
pub(crate) fn barrier_operator(
    node: &dyn UserDefinedLogicalNode,
    input: Option<&Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let is_barrier = node.as_any().is::<SecurityBarrier>();
    input.filter(|_| is_barrier).map(|input| wrapped(Arc::clone(input), Barrier))
}

/// The barrier in a physical plan: it hands rows on, and filters from above do not pass it.
#[derive(Debug, Clone)]
pub(crate) struct Barrier;

impl Wrapper for Barrier {
    const NAME: &'static str = "SecurityBarrier";
}
