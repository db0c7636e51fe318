//! Expressions over the elements of a list: each element mapped, or the list filtered.
//!
//! The engine has no lambdas. A list is mapped by the same kernel that computes subqueries over the
//! arrays of a row: one UNNEST, a condition, a value for each element.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, col, lit};
use tidegate_functions::array_subquery::{ArraySubquery, Finish, Step};

use crate::fail::{Planning, Result};

/// The list of what `value` gives for each element of `array`; in `value`, the column `element` is the element.
///
/// # Errors
/// If the engine does not take the expression, which is a bug.
pub(crate) fn mapped(array: Expr, element: String, value: Expr) -> Result<Expr> {
    over_list(array, element, None, value, Finish::Array)
}

/// The elements of `array` for which `condition` is true; in it, the column `element` is the element.
///
/// # Errors
/// As [`mapped`].
pub(crate) fn filtered(array: Expr, element: String, condition: Expr) -> Result<Expr> {
    let value = col(&element);
    over_list(array, element, Some(condition), value, Finish::Array)
}

/// What `finish` makes of `value` for the elements of `array` that fulfil `condition`.
///
/// # Errors
/// As [`mapped`].
pub(crate) fn over_list(
    array: Expr,
    element: String,
    condition: Option<Expr>,
    value: Expr,
    finish: Finish,
) -> Result<Expr> {
    let query = ArraySubquery {
        steps: vec![Step { array, keep: false, element, offset: None }],
        filter: condition.map(|condition| core::coalesce(vec![condition, lit(false)])),
        aggregates: Vec::new(),
        sorts: Vec::new(),
        distinct: false,
        skip: 0,
        limit: None,
        value,
        finish,
    };
    query.into_expr().planned()
}
