//! What is known of FLOAT64 that are stored: they are never NaN, for JSON has none.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use crate::fail::{Planning, Result};
use crate::typing::compared_float;

/// A condition on rows of these plans, in which stored columns are compared as they are: what looks for columns
/// (conditions that move to the scan, statistics by which it prunes) does not find them in calls.
///
/// # Errors
/// If the engine cannot walk the expression.
pub(super) fn with_stored_floats(condition: Expr, plans: &[&LogicalPlan]) -> Result<Expr> {
    let stored = |expr: &Expr| plans.iter().any(|plan| is_stored(expr, plan));
    let plain = |side: Expr| match compared_float(&side) {
        Some(float) if stored(float) => float.clone(),
        _ => side,
    };
    let compared = |part: Expr| {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return Ok(Transformed::no(part)) };
        if compared_float(&left).or(compared_float(&right)).is_none() {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
        }
        let (mut left, mut right) = (plain(*left), plain(*right));
        // Only two NaN could be equal.
        if matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
            if stored(&left)
                && let Some(float) = compared_float(&right)
            {
                right = float.clone();
            } else if stored(&right)
                && let Some(float) = compared_float(&left)
            {
                left = float.clone();
            }
        }
        Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })))
    };
    condition.transform_up(compared).planned().map(|condition| condition.data)
}

/// Whether an expression is a stored column, or a field of one.
pub(super) fn is_stored(expr: &Expr, plan: &LogicalPlan) -> bool {
    stored_part(expr).is_some_and(|column| is_stored_column(column.clone(), plan))
}

fn is_stored_column(mut column: Column, mut plan: &LogicalPlan) -> bool {
    if !plan.schema().has_column(&column) {
        return false;
    }
    loop {
        let (below, part) = match plan {
            LogicalPlan::TableScan(_) => return true,
            LogicalPlan::Projection(node) => (node.input.as_ref(), part_of(&node.expr, plan, &column)),
            LogicalPlan::Aggregate(node) => (node.input.as_ref(), part_of(&node.group_expr, plan, &column)),
            LogicalPlan::SubqueryAlias(node) => {
                let place = plan.schema().maybe_index_of_column(&column);
                (node.input.as_ref(), place.map(|place| Column::from(node.input.schema().qualified_field(place))))
            }
            // Its columns go together by their places.
            LogicalPlan::Union(node) => {
                let Some(place) = plan.schema().maybe_index_of_column(&column) else { return false };
                return node.inputs.iter().all(|input| {
                    place < input.schema().fields().len()
                        && is_stored_column(Column::from(input.schema().qualified_field(place)), input)
                });
            }
            node => {
                let from = node.inputs().into_iter().find(|input| input.schema().has_column(&column));
                let Some(from) = from else { return false };
                (from, Some(column))
            }
        };
        let Some(part) = part else { return false };
        (plan, column) = (below, part);
    }
}

/// The column of which an expression is the value or a field.
fn stored_part(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => stored_part(&alias.expr),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => stored_part(call.args.first()?),
        _ => None,
    }
}

/// The column below a node that computes `exprs`, of which a column of the node is made.
fn part_of(exprs: &[Expr], node: &LogicalPlan, column: &Column) -> Option<Column> {
    let expr = exprs.get(node.schema().maybe_index_of_column(column)?)?;
    stored_part(expr).cloned()
}
