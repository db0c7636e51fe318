//! Sort keys: how ORDER BY sorts, in queries, aggregates and windows.

use datafusion::arrow::compute::SortOptions;
use datafusion::logical_expr::{LogicalPlan, SortExpr};
use sqlparser::ast::{Expr as Ast, OrderBy, OrderByExpr, OrderByKind, Value};

use tidegate_model::{Code, Failure};

use super::stored::is_stored;
use crate::fail::{Result, invalid, place, unsupported};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{float_key, interval_length, keyed_float, plan_column};

/// The limit on the keys of one ORDER BY: the time of planning grows with the square of their number.
const MAX_SORT_KEYS: usize = 256;

/// The keys, if there are no more than may be.
///
/// # Errors
/// If there are.
pub(super) fn bounded<T>(keys: &[T]) -> Result<&[T]> {
    if keys.len() > MAX_SORT_KEYS {
        let message = format!("an ORDER BY has {} keys; at most {MAX_SORT_KEYS} are allowed", keys.len());
        return Err(Failure::new(Code::TooLarge, message));
    }
    Ok(keys)
}

/// The keys of an ORDER BY; none without one.
///
/// # Errors
/// For `ORDER BY ALL`, and too many keys.
pub(super) fn sort_keys(order_by: Option<&OrderBy>) -> Result<&[OrderByExpr]> {
    match order_by {
        None => Ok(&[]),
        Some(OrderBy { kind: OrderByKind::Expressions(keys), interpolate: None }) => bounded(keys),
        Some(_) => Err(unsupported("ORDER BY ALL", Some("name the columns, or their numbers"), None)),
    }
}

/// A resolved key with the direction that `key` says. Unless it says otherwise, NULL is the smallest value.
///
/// # Errors
/// If values of the type cannot be sorted.
pub(super) fn sorted(value: Typed, key: &OrderByExpr) -> Result<SortExpr> {
    if key.with_fill.is_some() {
        return Err(unsupported("WITH FILL", None, place(&key.expr)));
    }
    let value = if value.ty == Type::Interval { interval_length(value.expr) } else { value };
    if !value.ty.is_sortable() {
        return Err(invalid(format!("ORDER BY cannot sort values of type {}", value.ty), place(&key.expr)));
    }
    let ascending = key.options.asc.unwrap_or(true);
    Ok(plan_column(float_key(value)).expr.sort(ascending, key.options.nulls_first.unwrap_or(ascending)))
}

/// The keys of rows of a plan, of which the last may be a stored column as it is: no key after it decides between two
/// zeros, and the scan leaves out what a limit excludes by its statistics.
pub(super) fn with_stored_last(mut sorts: Vec<SortExpr>, plan: &LogicalPlan) -> Vec<SortExpr> {
    if let Some(last) = sorts.last_mut()
        && let Some(float) = keyed_float(&last.expr).filter(|float| is_stored(float, plan))
    {
        last.expr = float.clone();
    }
    sorts
}

/// The direction of a key, as kernels take it.
pub(super) fn sort_options(key: &SortExpr) -> SortOptions {
    SortOptions { descending: !key.asc, nulls_first: key.nulls_first }
}

/// The number of a column, counted from 1: `GROUP BY 1`, `ORDER BY 2`.
pub(super) fn ordinal(ast: &Ast) -> Option<usize> {
    match ast {
        Ast::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
