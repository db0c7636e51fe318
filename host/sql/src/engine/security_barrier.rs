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
//! ([`ConditionsPassBarrier`]; PostgreSQL calls such conditions leakproof), so that a time range is still pruned by.
//! Whether a function can fail is a property of its row in the table of functions
//! ([`tidegate_functions::make::fallibility`]).
//!
//! The barrier of a policy is stricter, because those who write what stands above it may be strangers to the owners of the
//! rows below: nothing but comparisons passes ([`super::plain_conditions`]), whether an expression can fail or not, and it
//! comes after the policy's own condition.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, Filter, LogicalPlan, Operator, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::Fallibility;
use tidegate_functions::make::fallibility;

use super::plain_conditions::{is_literal, is_plain};
use super::wrapper::{Wrapper, wrapped};

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
pub(super) fn without_grants(plan: LogicalPlan) -> Result<LogicalPlan> {
    let opened = plan.transform_down_with_subqueries(|node| {
        Ok(match barrier(&node).filter(|barrier| barrier.kind == BarrierKind::Grant) {
            Some(barrier) => Transformed::yes(barrier.input.clone()),
            None => Transformed::no(node),
        })
    });
    opened.map(|opened| opened.data)
}

/// The optimizer's rule that moves conditions which cannot fail below a barrier. It comes after the rule that moves
/// filters down to the barrier, and before its next pass, which moves them on to the scan.
#[derive(Debug)]
pub(super) struct ConditionsPassBarrier;

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
                    !condition.is_volatile()
                        && !condition.exists(|part| Ok(is_subquery(part)))?
                        && !expr_may_fail(condition, input.schema())?
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

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::OuterReferenceColumn(..))
}

/// The plan below a barrier, if the node is one.
pub(super) fn opened(node: &LogicalPlan) -> Option<&LogicalPlan> {
    barrier(node).map(|barrier| &barrier.input)
}

/// The same barrier above another plan, if the node is one.
pub(super) fn above_same_barrier(node: &LogicalPlan, input: LogicalPlan) -> Option<LogicalPlan> {
    barrier(node).map(|barrier| SecurityBarrier { kind: barrier.kind, input }.into_plan())
}

/// Whether a node is the barrier of a policy.
pub(super) fn is_policy(node: &LogicalPlan) -> bool {
    barrier(node).is_some_and(|barrier| barrier.kind == BarrierKind::Policy)
}

/// Whether a node is a barrier.
pub(super) fn is_barrier(node: &LogicalPlan) -> bool {
    barrier(node).is_some()
}

fn barrier(node: &LogicalPlan) -> Option<&SecurityBarrier> {
    match node {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

/// Whether any expression above the barriers may fail.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(super) fn may_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut fails = false;
    plan.apply(|node| {
        if barrier(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            fails |= expr_may_fail(expr, &schema)?;
            Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Whether an expression over columns of a schema may fail for some value of them.
///
/// # Errors
/// None that is known: walking an expression does not fail.
pub(crate) fn expr_may_fail(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let mut fails = false;
    expr.apply(|part| {
        fails |= match part {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Alias(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between(_)
            | Expr::InList(_)
            | Expr::Case(_)
            | Expr::TryCast(_)
            // Aggregates and windows are computed where they stand; their arguments are looked at.
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_) => false,
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::And
                | Operator::Or
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom => false,
                Operator::RegexMatch | Operator::RegexNotMatch => !is_literal(&binary.right),
                _ => true,
            },
            Expr::Like(like) => !is_literal(&like.pattern),
            Expr::Cast(cast) => {
                !cast.expr.get_type(schema).is_ok_and(|from| always_casts(&from, cast.field.data_type()))
            }
            Expr::ScalarFunction(call) => {
                match fallibility(&call.func) {
                    Fallibility::Fallible => true,
                    Fallibility::FallibleUnlessLiterals => !call.args.iter().skip(1).all(is_literal),
                    Fallibility::Infallible => false,
                }
            }
            Expr::Exists(exists) => may_fail(&exists.subquery.subquery)?,
            Expr::InSubquery(of) => may_fail(&of.subquery.subquery)?,
            // A subquery used as a value fails where it has two rows.
            _ => true,
        };
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Whether every value of a type has a counterpart in another.
fn always_casts(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        // Anything can be shown as text.
        (_, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => true,
        // Stored and computed times lie within the years 1 to 9999.
        (DataType::Timestamp(..), DataType::Date32) => true,
        (DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32, DataType::Int64) => true,
        (DataType::Int64, DataType::Float64) => true,
        (from, to) => from == to,
    }
}

/// Above what a barrier stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BarrierKind {
    /// A granted table.
    Grant,
    /// A stored table whose rows are held to a policy. The input is a filter with the policy's condition.
    Policy,
}

/// The barrier in a logical plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SecurityBarrier {
    kind: BarrierKind,
    input: LogicalPlan,
}

impl SecurityBarrier {
    fn into_plan(self) -> LogicalPlan {
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

/// The operator of a node, if it is a barrier.
pub(super) fn barrier_operator(
    node: &dyn UserDefinedLogicalNode,
    input: Option<&Arc<dyn ExecutionPlan>>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let is_barrier = node.as_any().is::<SecurityBarrier>();
    input.filter(|_| is_barrier).map(|input| wrapped(Arc::clone(input), Barrier))
}

/// The barrier in a physical plan: it hands rows on, and filters from above do not pass it.
#[derive(Debug, Clone)]
pub(super) struct Barrier;

impl Wrapper for Barrier {
    const NAME: &'static str = "SecurityBarrier";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        rows
    }
}
