//! FLOAT64 as keys of groups and of DISTINCT.
//!
//! There the engine takes both zeros for one, but not all NaN. A stored FLOAT64 is never NaN, for JSON has none, and
//! stays as it is, so that what looks for columns (conditions that move to the scan, counts of rows) still finds them.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::typed::Typed;
use crate::types::Type;
use crate::typing::float_key;

/// A value over the rows of `plan` as a key: of all NaN one.
pub(super) fn distinct_key(value: Typed, plan: &LogicalPlan) -> Expr {
    if value.ty == Type::Float64 && !is_stored(&value.expr, plan) {
        return float_key(value).expr;
    }
    value.expr
}

/// Whether an expression is a stored column, or a field of one.
fn is_stored(expr: &Expr, plan: &LogicalPlan) -> bool {
    let (mut plan, mut column) = match stored_part(expr) {
        Some(column) => (plan, column.clone()),
        None => return false,
    };
    loop {
        let (below, part) = match plan {
            LogicalPlan::TableScan(_) => return true,
            LogicalPlan::Projection(node) => (node.input.as_ref(), part_of(&node.expr, plan, &column)),
            LogicalPlan::Aggregate(node) => (node.input.as_ref(), part_of(&node.group_expr, plan, &column)),
            LogicalPlan::SubqueryAlias(node) => {
                let place = plan.schema().maybe_index_of_column(&column);
                (node.input.as_ref(), place.map(|place| Column::from(node.input.schema().qualified_field(place))))
            }
            LogicalPlan::Union(_) => return false,
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
