//! Security barriers: no expression above one is computed for a row that what is below it leaves out.
//!
//! There are two. **That of a grant** stands above each granted table, and keeps a caller's expressions from rows that the
//! grant leaves out. **That of a policy** stands above a stored table of which a tenant may read some rows, below all that
//! the author and the caller wrote.
//!
//! The engine is free to evaluate a caller's condition before the grant's own filter, or beside it. That does not change
//! the result, but an expression that can fail would tell of rows that the caller may not see
//! (`1 / IF(event_message LIKE '%secret%', 0, 1)`): its error even quotes them. So a barrier stands above each granted
//! table, and the optimizer moves nothing through it. (PostgreSQL calls such views `security_barrier`.)
//!
//! Most statements have no expression that can fail. Their barriers are removed before they are optimized, so that
//! their conditions still reach the storage. In the others, a condition that cannot fail passes the barrier
//! (`ConditionsPassBarrier` of the engine; PostgreSQL calls such conditions leakproof), so that a time range is still pruned by.
//! Whether a function can fail is a property of its row in the table of functions
//! ([`tidegate_functions::make::fallibility`]).
//!
//! The barrier of a policy is stricter, because those who write what stands above it may be strangers to the owners of the
//! rows below: nothing but comparisons passes ([`is_plain`]), whether an expression can fail or not, and it
//! comes after the policy's own condition.

mod fallible;
mod plain;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};

pub(crate) use fallible::{expr_may_fail, may_fail};
pub(crate) use plain::{is_comparison, is_literal, is_plain, is_stored};

/// The plan of a granted table with a barrier above it.
pub(crate) fn above_barrier(plan: LogicalPlan) -> LogicalPlan {
    SecurityBarrier { kind: BarrierKind::Grant, input: plan }.into_plan()
}

/// The rows of a stored table that a policy lets through, with a barrier above them.
///
/// # Errors
/// The condition is not one over the plan.
pub(crate) fn held_to(plan: LogicalPlan, policy: Expr) -> Result<LogicalPlan> {
    let input = LogicalPlan::Filter(Filter::try_new(policy, Arc::new(plan))?);
    Ok(SecurityBarrier { kind: BarrierKind::Policy, input }.into_plan())
}

/// The plan without the barriers of grants.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn without_grants(plan: LogicalPlan) -> Result<LogicalPlan> {
    let opened = plan.transform_down_with_subqueries(|node| {
        Ok(match barrier(&node).filter(|barrier| barrier.kind == BarrierKind::Grant) {
            Some(barrier) => Transformed::yes(barrier.input.clone()),
            None => Transformed::no(node),
        })
    });
    opened.map(|opened| opened.data)
}

/// The plan below a barrier, if the node is one.
pub(crate) fn opened(node: &LogicalPlan) -> Option<&LogicalPlan> {
    barrier(node).map(|barrier| &barrier.input)
}

/// The same barrier above another plan, if the node is one.
pub(crate) fn above_same_barrier(node: &LogicalPlan, input: LogicalPlan) -> Option<LogicalPlan> {
    barrier(node).map(|barrier| SecurityBarrier { kind: barrier.kind, input }.into_plan())
}

/// Whether a node is the barrier of a policy.
pub(crate) fn is_policy(node: &LogicalPlan) -> bool {
    barrier(node).is_some_and(|barrier| barrier.kind == BarrierKind::Policy)
}

/// Whether a node is a barrier.
pub(crate) fn is_barrier(node: &LogicalPlan) -> bool {
    barrier(node).is_some()
}

/// The barrier, if the node is one.
pub(crate) fn barrier(node: &LogicalPlan) -> Option<&SecurityBarrier> {
    match node {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

/// Above what a barrier stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BarrierKind {
    /// A granted table.
    Grant,
    /// A stored table whose rows are held to a policy. The input is a filter with the policy's condition.
    Policy,
}

/// The barrier in a logical plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SecurityBarrier {
    pub(crate) kind: BarrierKind,
    pub(crate) input: LogicalPlan,
}

impl SecurityBarrier {
    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for SecurityBarrier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for SecurityBarrier {
    fn name(&self) -> &str {
        "SecurityBarrier"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecurityBarrier: {:?}", self.kind)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(inputs.into_iter().next().map_or_else(|| self.clone(), |input| Self { input, ..self.clone() }))
    }

    /// Columns that nobody reads are not read below either.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
