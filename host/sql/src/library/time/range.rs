//! RANGEs: from a time up to another one.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, Operator, cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_functions::range::range_bounds;

use super::super::call::{Builder, Call};
use super::interval::interval;
use super::{instant, micros};
use crate::fail::{Planning, Result};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, compare, kernel};

pub(in crate::library) const FUNCTIONS: &[(&str, Builder)] = &[
    ("RANGE", |call| {
        call.count(2, 2)?;
        let (start, end) = (call.value(0)?, call.value(1)?);
        let of = match (&start.ty, &end.ty) {
            (one, other) if is_bound(one) && (one == other || *other == Type::Null) => one.clone(),
            (Type::Null, other) if is_bound(other) => other.clone(),
            (one, other) => {
                return Err(call.fails(format!(
                    "RANGE takes two values of one type, DATE, DATETIME or TIMESTAMP, not {one} and {other}"
                )));
            }
        };
        let bound = |value: Typed| Ok(micros(value.convert(&of, Conversion::implicit(call.at))?));
        let range = kernel("range_of", call.safe, vec![bound(start)?, bound(end)?]);
        Ok(Typed::new(range, Type::Range(Box::new(of))))
    }),
    ("RANGE_START", |call| bound(call, "range_start")),
    ("RANGE_END", |call| bound(call, "range_end")),
    ("RANGE_IS_START_UNBOUNDED", |call| is_unbounded(call, "range_start")),
    ("RANGE_IS_END_UNBOUNDED", |call| is_unbounded(call, "range_end")),
    ("RANGE_CONTAINS", |call| {
        call.count(2, 2)?;
        let ((range, of), value) = (range(call, 0)?, call.value(1)?);
        if let Type::Range(_) = value.ty {
            return two(call, "range_covers", Type::Bool);
        }
        if !matches!(value.ty, Type::Null | Type::String) && value.ty != of {
            return Err(call.fails(format!("a RANGE<{of}> contains values of {of}, not of {}", value.ty)));
        }
        let value = value.convert(&of, Conversion::implicit(call.at))?;
        match within(&range, &of, &value, call)? {
            Some(condition) => Ok(condition),
            None => Ok(Typed::new(kernel("range_contains", call.safe, vec![range.expr, micros(value)]), Type::Bool)),
        }
    }),
    ("RANGE_OVERLAPS", |call| two(call, "range_overlaps", Type::Bool)),
    ("RANGE_INTERSECT", |call| {
        let (_, of) = range(call, 0)?;
        two(call, "range_intersect", Type::Range(Box::new(of)))
    }),
    ("GENERATE_RANGE_ARRAY", |call| {
        call.count(2, 3)?;
        let (range, of) = range(call, 0)?;
        let arguments = vec![range.expr, interval(call, 1)?.expr, call.flag(2, true)?, lit(of.to_string())];
        let parts = kernel("range_series", call.safe, arguments);
        Ok(Typed::new(parts, Type::Array(Box::new(Type::Range(Box::new(of))))))
    }),
];

fn is_bound(ty: &Type) -> bool {
    matches!(ty, Type::Date | Type::Datetime | Type::Timestamp)
}

/// Argument `i`, a RANGE, and what it is of.
fn range(call: &Call<'_>, i: usize) -> Result<(Typed, Type)> {
    let value = call.value(i)?;
    match &value.ty {
        Type::Range(of) => {
            let of = (**of).clone();
            Ok((value, of))
        }
        Type::Null => {
            let message = format!("{} takes a RANGE, and NULL has no type; write CAST(NULL AS RANGE<DATE>)", call.name);
            Err(call.fails(message))
        }
        ty => Err(call.fails(format!("{} takes a RANGE, e.g. RANGE(a, b), not a value of type {ty}", call.name))),
    }
}

/// A kernel over two RANGEs of one type.
fn two(call: &Call<'_>, name: &'static str, returns: Type) -> Result<Typed> {
    call.count(2, 2)?;
    let ((one, of), (other, of_other)) = (range(call, 0)?, range(call, 1)?);
    if of != of_other {
        let message = format!("{} takes two RANGEs of one type, not of {of} and {of_other}", call.name);
        return Err(call.fails(message));
    }
    Ok(Typed::new(kernel(name, call.safe, vec![one.expr, other.expr]), returns))
}

fn bound(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    call.count(1, 1)?;
    let (range, of) = range(call, 0)?;
    let moment = kernel(name, call.safe, vec![range.expr]);
    let moment = if of == Type::Date { cast(moment, DataType::Date32) } else { moment };
    Ok(Typed::new(moment, of))
}

fn is_unbounded(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    let (range, _) = range(call, 0)?;
    let missing = bound(call, name)?.expr.is_null();
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let known = when(range.expr.is_not_null(), missing).otherwise(null);
    Ok(Typed::new(known.planned()?, Type::Bool))
}

/// Comparisons with the bounds of a RANGE that is constant: the storage prunes by them.
fn within(range: &Typed, of: &Type, value: &Typed, call: &Call<'_>) -> Result<Option<Typed>> {
    let Some(ScalarValue::Binary(Some(bytes))) = range.literal() else { return Ok(None) };
    let Some((start, end)) = range_bounds(bytes) else { return Ok(None) };
    let compared = |op: Operator, bound: Option<i64>| match bound {
        Some(micros) => Ok(Some(compare(value.clone(), op, moment(micros, of, call)?, call.at)?.expr)),
        None => Ok(None),
    };
    let condition = match (compared(Operator::GtEq, start)?, compared(Operator::Lt, end)?) {
        (Some(start), Some(end)) => start.and(end),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Ok(None),
    };
    Ok(Some(Typed::new(condition, Type::Bool)))
}

fn moment(micros: i64, of: &Type, call: &Call<'_>) -> Result<Typed> {
    let timestamp = instant(micros, Type::Timestamp);
    timestamp.convert(of, Conversion::implicit(call.at))
}
