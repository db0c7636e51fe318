//! Questions about an expression of a plan.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};

/// Whether `is` holds for an expression or a part of it.
pub(crate) fn any(expr: &Expr, is: impl Fn(&Expr) -> bool) -> bool {
    // The closure never fails, so neither does the walk.
    expr.exists(|part| Ok(is(part))).unwrap_or(false)
}

/// The plan of a subquery, if an expression is one.
pub(crate) fn subquery_of(expr: &Expr) -> Option<&Arc<LogicalPlan>> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(&subquery.subquery),
        Expr::Exists(exists) => Some(&exists.subquery.subquery),
        Expr::InSubquery(within) => Some(&within.subquery.subquery),
        _ => None,
    }
}

/// Whether an expression is a subquery.
pub(crate) fn is_subquery(expr: &Expr) -> bool {
    subquery_of(expr).is_some()
}

/// Whether an expression, or a subquery in it, has another value each time that it is computed.
pub(crate) fn is_volatile(expr: &Expr) -> bool {
    expr.is_volatile() || any(expr, |part| subquery_of(part).is_some_and(|plan| has_volatile(plan)))
}

fn has_volatile(plan: &LogicalPlan) -> bool {
    let mut found = false;
    // The closure never fails, so neither does the walk.
    let _ = plan.apply_with_subqueries(|node| {
        found |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether an expression reads more than the row for which it is computed.
pub(crate) fn reads_beyond(expr: &Expr) -> bool {
    any(expr, |part| is_subquery(part) || matches!(part, Expr::OuterReferenceColumn(..)))
}

/// `condition IS value`. The engine's own expressions of this (`IsTrue` and its like) are never NULL in a logical plan and
/// may be in the operators made of it, so that a grouping by one failed (DataFusion 55.2.0, planner.rs).
pub(crate) fn is_truth(condition: Expr, value: bool) -> Expr {
    let known = coalesced(vec![condition, lit(!value)]);
    if value { known } else { !known }
}

/// The first value that is not NULL. What is itself the first of several is one of them: the engine makes a CASE of the
/// call, with all values but the last twice, so that of nested calls the innermost value would be there again with each
/// level.
pub(crate) fn coalesced(values: Vec<Expr>) -> Expr {
    let mut flat = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Expr::ScalarFunction(call) if is_coalesce(&call) => flat.extend(call.args),
            Expr::Cast(of) => match *of.expr {
                Expr::ScalarFunction(call) if is_coalesce(&call) => {
                    let one = |arg| Expr::Cast(Cast { expr: Box::new(arg), field: Arc::clone(&of.field) });
                    flat.extend(call.args.into_iter().map(one));
                }
                expr => flat.push(Expr::Cast(Cast { expr: Box::new(expr), ..of })),
            },
            value => flat.push(value),
        }
    }
    coalesce(flat)
}

fn is_coalesce(call: &ScalarFunction) -> bool {
    call.name() == "coalesce"
}

/// A column, or a path of fields below one. In an optimized plan every field that is read stands by its path from a column
/// on.
pub(crate) fn path_of(expr: &Expr) -> Option<(&Column, Vec<String>)> {
    match expr {
        Expr::Column(column) => Some((column, Vec::new())),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            let (base, names) = call.args.split_first()?;
            let (column, mut path) = path_of(base)?;
            for name in names {
                let Expr::Literal(name, _) = name else { return None };
                path.push(name.try_as_str().flatten()?.to_owned());
            }
            Some((column, path))
        }
        _ => None,
    }
}
