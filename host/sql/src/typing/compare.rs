//! Comparisons: two values brought to one type, and NaN as the dialect has it.

use datafusion::logical_expr::{Expr, Operator, binary_expr, lit};
use datafusion::scalar::ScalarValue;
use tidegate_model::Position;

use super::coerce::Conversion;
use super::common::pair;
use super::constant::folded;
use super::fields::{fields_of, holds_float};
use super::kernel::kernel;
use super::records::text_of_mixed;
use crate::fail::{Result, invalid};
use crate::typed::Typed;
use crate::types::Type;

/// What INTERVALs are compared and sorted by: microseconds, where a day is 24 hours and a month 30 days.
pub(crate) fn interval_length(interval: Expr) -> Typed {
    folded(Typed::new(kernel("interval_length", false, vec![interval]), Type::Int64))
}

/// Brings the two sides of a comparison to one type.
pub(crate) fn comparable(left: Typed, right: Typed, at: Option<Position>) -> Result<(Typed, Typed)> {
    let (left, right) = (plain_text(left)?, plain_text(right)?);
    let target = match (&left.ty, &right.ty) {
        (one, other) if one == other => one.clone(),
        (Type::Null, other) => other.clone(),
        (one, Type::Null) => one.clone(),
        (Type::String, other) if other.is_number() => text_against_number(&left, other),
        (one, Type::String) if one.is_number() => text_against_number(&right, one),
        (Type::String, other @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time)) => other.clone(),
        (one @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time), Type::String) => one.clone(),
        (Type::Timestamp, Type::Int64) | (Type::Int64, Type::Timestamp) => Type::Timestamp,
        // A DATE compared with a midnight stays a DATE, because the storage prunes by such conditions.
        (Type::Date, Type::Datetime) if is_midnight(&right) => Type::Date,
        (Type::Datetime, Type::Date) if is_midnight(&left) => Type::Date,
        (one, other) => pair(one.clone(), other.clone(), at)
            .map_err(|_| invalid(format!("values of the types {one} and {other} cannot be compared"), at))?,
    };
    if matches!(target, Type::Array(_) | Type::Record(_)) {
        return Err(invalid(format!("values of type {target} cannot be compared; unnest them first"), at));
    }
    let how = Conversion::implicit(at);
    let (left, right) = (left.convert(&target, how)?, right.convert(&target, how)?);
    if target == Type::Interval {
        return Ok((interval_length(left.expr), interval_length(right.expr)));
    }
    Ok((left, right))
}

/// A mixed record as its text; every other value as it is.
fn plain_text(value: Typed) -> Result<Typed> {
    Ok(match text_of_mixed(&value)? {
        Some(text) => Typed::new(text, Type::String),
        None => value,
    })
}

fn is_midnight(value: &Typed) -> bool {
    const DAY: i64 = 86_400_000_000;
    matches!(value.literal(), Some(ScalarValue::TimestampMicrosecond(Some(micros), _)) if micros % DAY == 0)
}

/// The type in which text and a number are compared: text for a literal that is no number, so that `status = 'abc'` is
/// false instead of an error; a number otherwise.
fn text_against_number(text: &Typed, number: &Type) -> Type {
    match text.literal_text() {
        Some(literal) if literal.trim().parse::<i64>().is_ok() => number.clone(),
        Some(literal) if literal.trim().parse::<f64>().is_ok() => Type::Float64,
        Some(_) => Type::String,
        // A column of text may hold both integers and fractions.
        None => Type::Float64,
    }
}

/// `left op right` for the six comparison operators.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    let nan = (may_be_nan(&left), may_be_nan(&right));
    let (left, right) = comparable(left, right, at)?;
    if matches!(op, Operator::Eq | Operator::NotEq)
        && holds_float(&left.ty)
        && let (Some(left), Some(right)) = (fields_of(&left), fields_of(&right))
    {
        return compared_by_fields(left, op, right, at);
    }
    let expr = match left.ty {
        Type::Float64 => compared(left.expr, op, right.expr, nan),
        _ => binary_expr(left.expr, op, right.expr),
    };
    Ok(folded(Typed::new(expr, Type::Bool)))
}

/// STRUCTs are equal if all their fields are.
fn compared_by_fields(left: Vec<Typed>, op: Operator, right: Vec<Typed>, at: Option<Position>) -> Result<Typed> {
    let mut all = lit(true);
    for (left, right) in left.into_iter().zip(right) {
        all = all.and(compare(left, Operator::Eq, right, at)?.expr);
    }
    let expr = if op == Operator::NotEq { !all } else { all };
    Ok(folded(Typed::new(expr, Type::Bool)))
}

fn may_be_nan(value: &Typed) -> bool {
    match value.literal() {
        Some(ScalarValue::Float64(value)) => value.is_some_and(f64::is_nan),
        Some(ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)) => {
            value.literal_text().is_some_and(|text| text.trim().parse().is_ok_and(f64::is_nan))
        }
        Some(_) => false,
        None => matches!(value.ty, Type::Float64 | Type::String | Type::Json),
    }
}

/// A comparison of floats. To the engine NaN is above all numbers and equals itself; in the dialect
/// it compares with nothing. `nan` tells which sides may be one.
///
/// A comparison with infinity is added, so that a condition on a column is still one that the storage
/// prunes by. It repeats a side, so it is added for columns only. Computed values are ordered by a kernel
/// instead, and a computed NaN equals itself.
fn compared(left: Expr, op: Operator, right: Expr, nan: (bool, bool)) -> Expr {
    let short = is_short(&left) && is_short(&right);
    // NULL beside NaN is NULL.
    let number = |expr: Expr, other: &Expr| match other {
        Expr::Literal(value, _) if !value.is_null() => expr.lt_eq(lit(f64::INFINITY)),
        other => expr.lt_eq(lit(f64::INFINITY)).or(other.clone().is_null()),
    };
    let beyond = |expr: Expr| expr.gt(lit(f64::INFINITY));
    match op {
        Operator::Gt | Operator::GtEq if nan.0 => {
            if !short {
                let name = if op == Operator::Gt { "float_above" } else { "float_not_below" };
                return kernel(name, false, vec![left, right]);
            }
            binary_expr(left.clone(), op, right.clone()).and(number(left, &right))
        }
        Operator::Lt if nan.1 => compared(right, Operator::Gt, left, (true, nan.0)),
        Operator::LtEq if nan.1 => compared(right, Operator::GtEq, left, (true, nan.0)),
        Operator::Eq if nan == (true, true) && short => {
            // The side of this query is tested, because a subquery can be joined by = alone.
            let (one, other) = if right.contains_outer() { (&left, &right) } else { (&right, &left) };
            let number = match other.contains_outer() {
                true => one.clone().lt_eq(lit(f64::INFINITY)),
                false => number(one.clone(), other),
            };
            left.clone().eq(right.clone()).and(number)
        }
        Operator::NotEq if nan == (true, true) && short => {
            left.clone().not_eq(right.clone()).or(beyond(left).and(beyond(right)))
        }
        op => binary_expr(left, op, right),
    }
}

/// Whether an expression is cheap enough to be repeated: a column, a field of one, a literal.
fn is_short(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) => true,
        Expr::Cast(cast) => is_short(&cast.expr),
        Expr::ScalarFunction(call) => call.func.name() == "get_field" && call.args.iter().all(is_short),
        _ => false,
    }
}
