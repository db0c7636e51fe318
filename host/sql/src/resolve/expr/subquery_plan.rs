//! What the plan of a subquery is like: its order and limit, whether it has one row, how many subqueries it holds.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, FetchType, Limit, LogicalPlan, SkipType, SortExpr, lit};

use crate::exprs::is_subquery;
use crate::fail::{Planning, Result};

/// A plan, the order of its rows and a limit of them, for an aggregate that is given the order.
pub(super) struct OrderedPlan {
    pub(super) plan: LogicalPlan,
    pub(super) order: Vec<SortExpr>,
    /// How many of the ordered rows are left out, and how many taken.
    pub(super) limit: Option<(usize, Option<usize>)>,
}

/// Takes the order and the limit off the end of a plan that reads the outer row: the engine makes no join of a plan with
/// these. A projection above them is removed too, because the sort keys may not be among its columns.
pub(super) fn ordered_plan(plan: LogicalPlan) -> OrderedPlan {
    let correlated = !plan.all_out_ref_exprs().is_empty();
    let below = match &plan {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        _ => &plan,
    };
    let (limit, sorted) = match below {
        LogicalPlan::Limit(limit) => (limits(limit), limit.input.as_ref()),
        other => (None, other),
    };
    let unlimited = !matches!(below, LogicalPlan::Limit(_)) || limit.is_some();
    match sorted {
        LogicalPlan::Sort(sort) if correlated && unlimited => {
            OrderedPlan { plan: sort.input.as_ref().clone(), order: sort.expr.clone(), limit }
        }
        LogicalPlan::Sort(sort) => OrderedPlan { order: sort.expr.clone(), plan: below.clone(), limit: None },
        _ if correlated && limit.is_some() => OrderedPlan { plan: sorted.clone(), order: Vec::new(), limit },
        _ => OrderedPlan { plan, order: Vec::new(), limit: None },
    }
}

/// What a limit skips and takes, if that is known.
fn limits(limit: &Limit) -> Option<(usize, Option<usize>)> {
    match (limit.get_skip_type().ok()?, limit.get_fetch_type().ok()?) {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => Some((skip, fetch)),
        _ => None,
    }
}

/// Whether a plan has exactly one row, whatever the rows below: an aggregate without keys.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Sort(sort) => is_one_row(&sort.input),
        LogicalPlan::Limit(limit) => {
            matches!(limits(limit), Some((0, fetch)) if fetch != Some(0)) && is_one_row(&limit.input)
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// How many subqueries a plan holds, nested ones included.
pub(super) fn subqueries(plan: &LogicalPlan) -> Result<usize> {
    let mut count = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                count += usize::from(is_subquery(part));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .planned()?;
    Ok(count)
}

/// The elements of a list from `skip` on, at most `fetch`.
pub(super) fn slice(list: Expr, skip: usize, fetch: Option<usize>) -> Expr {
    // No array is longer than an i32 counts, and the engine takes no larger number.
    let place = |n: usize| lit(i64::from(i32::try_from(n).unwrap_or(i32::MAX)));
    let end = fetch.map_or(usize::MAX, |fetch| skip.saturating_add(fetch));
    nested::array_slice(list, place(skip.saturating_add(1)), place(end), None)
}
