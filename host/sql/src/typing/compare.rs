//! Comparisons: two values brought to one type, and NaN as the dialect has it.

use datafusion::logical_expr::{Expr, Operator, binary_expr, lit};
use datafusion::scalar::ScalarValue;
use tidegate_model::Position;

use super::coerce::{Conversion, unify};
use super::common::pair;
use super::constant::folded;
use super::fields::fields_of;
use super::float::{float_key, nan_last};
use super::group_key::sort_key;
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
    if is_text_beside_bytes(&left.ty, &right.ty) {
        let (one, other) = (&left.ty, &right.ty);
        return Err(invalid(format!("values of the types {one} and {other} cannot be compared; {BYTES_AS_TEXT}"), at));
    }
    let target = match (&left.ty, &right.ty) {
        (one, other) if one == other => one.clone(),
        (Type::Null, other) => other.clone(),
        (one, Type::Null) => one.clone(),
        (one, Type::Float64) if one.is_decimal() && right.digits.is_some() => one.clone(),
        (Type::Float64, other) if other.is_decimal() && left.digits.is_some() => other.clone(),
        (Type::String, other) if other.is_number() => text_against_number(&left, other),
        (one, Type::String) if one.is_number() => text_against_number(&right, one),
        (Type::String, other @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time | Type::Range(_))) => {
            other.clone()
        }
        (one @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time | Type::Range(_)), Type::String) => {
            one.clone()
        }
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

/// How text and BYTES become one type.
pub(crate) const BYTES_AS_TEXT: &str =
    "b'a' is a literal of BYTES, and SAFE_CONVERT_BYTES_TO_STRING and TO_HEX make text of BYTES";

/// Whether text would be compared with BYTES, also in fields of a STRUCT. A conversion of either would be a guess: BYTES
/// that are no UTF-8 have no text.
fn is_text_beside_bytes(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::String, Type::Bytes) | (Type::Bytes, Type::String) => true,
        (Type::Struct { fields, .. }, Type::Struct { fields: others, .. }) => {
            fields.iter().zip(others.iter()).any(|(field, other)| is_text_beside_bytes(&field.ty, &other.ty))
        }
        _ => false,
    }
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
        Some(literal) if literal.trim().parse::<f64>().is_ok() => match number {
            Type::Int64 => Type::Float64,
            other => other.clone(),
        },
        Some(_) => Type::String,
        // A column of text may hold both integers and fractions.
        None => Type::Float64,
    }
}

/// `left op right` for the six comparison operators.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    let are_arrays = match (&left.ty, &right.ty) {
        (Type::Array(_), Type::Array(_)) => left.ty.is_groupable() && right.ty.is_groupable(),
        (ty @ Type::Array(_), Type::Null) | (Type::Null, ty @ Type::Array(_)) => ty.is_groupable(),
        _ => false,
    };
    if are_arrays && matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
        let (mut values, _) = unify(vec![left, right], at)?;
        let (Some(right), Some(left)) = (values.pop(), values.pop()) else {
            return Err(invalid("a comparison has two sides", at));
        };
        return compare(sort_key(left), op, sort_key(right), at);
    }
    let nan = (may_be_nan(&left), may_be_nan(&right));
    let (left, right) = comparable(left, right, at)?;
    if let Type::Struct { .. } = left.ty {
        return compared_by_fields(left, op, right, at);
    }
    let expr = match left.ty {
        Type::Float64 => compared(left.expr, op, right.expr, nan),
        _ => binary_expr(left.expr, op, right.expr),
    };
    Ok(folded(Typed::new(expr, Type::Bool)))
}

/// STRUCTs are equal if all their fields are; NULL if some field is NULL and no other differs. The engine would compare
/// them by bits, with NULL as a value.
fn compared_by_fields(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    let (of_fields, negated) = match op {
        Operator::Eq => (Operator::Eq, false),
        Operator::NotEq => (Operator::Eq, true),
        Operator::IsNotDistinctFrom => (Operator::IsNotDistinctFrom, false),
        Operator::IsDistinctFrom => (Operator::IsNotDistinctFrom, true),
        _ => return Err(invalid("STRUCTs have no order; compare their fields", at)),
    };
    let (Some(fields), Some(others)) = (fields_of(&left), fields_of(&right)) else {
        return Ok(folded(Typed::new(binary_expr(left.expr, op, right.expr), Type::Bool)));
    };
    let mut all = match of_fields {
        // A STRUCT that is NULL is another one than a STRUCT of NULLs.
        Operator::IsNotDistinctFrom => left.expr.is_null().eq(right.expr.is_null()),
        _ => lit(true),
    };
    for (field, other) in fields.into_iter().zip(others) {
        all = all.and(compare(field, of_fields, other, at)?.expr);
    }
    Ok(folded(Typed::new(if negated { !all } else { all }, Type::Bool)))
}

/// Whether a value may be NaN once it is a FLOAT64.
pub(crate) fn may_be_nan(value: &Typed) -> bool {
    match value.literal() {
        Some(ScalarValue::Float64(value)) => value.is_some_and(f64::is_nan),
        Some(ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)) => {
            value.literal_text().is_some_and(|text| text.trim().parse().is_ok_and(f64::is_nan))
        }
        Some(_) => false,
        None => matches!(value.ty, Type::Float64 | Type::String | Type::Json),
    }
}

/// A comparison of floats. To the engine there are many NaN, each above all numbers or below them and equal to itself;
/// in the dialect NaN compares with nothing. `nan` tells which sides may be one.
///
/// So NaN is moved to where the comparison is false: on the side that has to be less it is made the greatest value, on
/// the other the least. The comparison stays the engine's own, of which it makes joins. [`crate::resolve`] takes the
/// calls from stored columns, which have no NaN, so that the storage prunes by them.
fn compared(left: Expr, op: Operator, right: Expr, nan: (bool, bool)) -> Expr {
    let key = |float: Expr| float_key(Typed::new(float, Type::Float64)).expr;
    let (left, right) = match op {
        // A subquery can be joined by an equality with a column of its own alone.
        Operator::Eq | Operator::NotEq if nan == (true, true) && right.contains_outer() => (left, nan_last(right)),
        Operator::Eq | Operator::NotEq if nan == (true, true) => (nan_last(left), right),
        Operator::Lt | Operator::LtEq => {
            (if nan.0 { nan_last(left) } else { left }, if nan.1 { key(right) } else { right })
        }
        Operator::Gt | Operator::GtEq => {
            (if nan.0 { key(left) } else { left }, if nan.1 { nan_last(right) } else { right })
        }
        // Here NaN is one value.
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom if nan == (true, true) => (key(left), key(right)),
        _ => (left, right),
    };
    binary_expr(left, op, right)
}
