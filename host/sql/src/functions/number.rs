//! Numbers, and the functions that choose between values.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::core::expr_fn as core;
use datafusion::functions::math::expr_fn as math;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use tidegate_model::Position;

use super::{Builder, Call, kernel};
use crate::fail::{Planning, Result};
use crate::resolve::{Conversion, Typed, folded, unify};
use crate::types::Type;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("ABS", |call| same(call, math::abs)),
    ("SIGN", |call| {
        call.count(1, 1)?;
        let ty = number(call, 0)?.ty;
        Ok(Typed::new(cast(math::signum(number(call, 0)?.expr), ty.arrow()), ty))
    }),
    ("CEIL", |call| float(call, math::ceil)),
    ("CEILING", |call| float(call, math::ceil)),
    ("FLOOR", |call| float(call, math::floor)),
    ("SQRT", |call| float(call, math::sqrt)),
    ("EXP", |call| float(call, math::exp)),
    ("LN", |call| float(call, math::ln)),
    ("LOG10", |call| float(call, math::log10)),
    ("SIN", |call| float(call, math::sin)),
    ("COS", |call| float(call, math::cos)),
    ("LOG", |call| {
        if call.count(1, 2)? == 1 {
            return float(call, math::ln);
        }
        Ok(Typed::new(math::log(call.float(1)?, call.float(0)?), Type::Float64))
    }),
    ("POW", power),
    ("POWER", power),
    ("ROUND", |call| rounded(call, math::round)),
    ("TRUNC", |call| rounded(call, math::trunc)),
    ("MOD", |call| {
        call.count(2, 2)?;
        arithmetic(call.value(0)?, Operator::Modulo, call.value(1)?, call.at)
    }),
    ("DIV", |call| {
        call.count(2, 2)?;
        Ok(Typed::new(kernel("integer_divide", call.safe, vec![call.int(0)?, call.int(1)?]), Type::Int64))
    }),
    ("SAFE_DIVIDE", |call| {
        call.count(2, 2)?;
        Ok(Typed::new(kernel("divide", true, vec![call.float(0)?, call.float(1)?]), Type::Float64))
    }),
    ("IEEE_DIVIDE", |call| {
        call.count(2, 2)?;
        Ok(Typed::new(call.float(0)? / call.float(1)?, Type::Float64))
    }),
    ("SAFE_ADD", |call| safely(call, Operator::Plus)),
    ("SAFE_SUBTRACT", |call| safely(call, Operator::Minus)),
    ("SAFE_MULTIPLY", |call| safely(call, Operator::Multiply)),
    ("IS_NAN", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(math::isnan(call.float(0)?), Type::Bool))
    }),
    ("GREATEST", |call| extreme(call, core::greatest)),
    ("LEAST", |call| extreme(call, core::least)),
    ("NULLIF", |call| {
        call.count(2, 2)?;
        let value = call.value(0)?;
        let ty = value.ty.clone();
        let equal = super::compare(value.clone(), Operator::Eq, call.value(1)?, call.at)?;
        if ty == Type::Null {
            return Ok(value);
        }
        let null = Typed::null().convert(&ty, Conversion::implicit(call.at))?;
        Ok(Typed::new(when(equal.expr, null.expr).otherwise(value.expr).planned()?, ty))
    }),
];

fn number(call: &Call<'_>, i: usize) -> Result<Typed> {
    let value = call.value(i)?;
    if value.ty.is_number() { Ok(value) } else { value.convert(&Type::Float64, Conversion::implicit(call.at)) }
}

fn same(call: &Call<'_>, function: fn(Expr) -> Expr) -> Result<Typed> {
    call.count(1, 1)?;
    let value = number(call, 0)?;
    Ok(Typed::new(function(value.expr), value.ty))
}

fn float(call: &Call<'_>, function: fn(Expr) -> Expr) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(function(call.float(0)?), Type::Float64))
}

fn power(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 2)?;
    Ok(Typed::new(math::power(call.float(0)?, call.float(1)?), Type::Float64))
}

fn rounded(call: &Call<'_>, function: fn(Vec<Expr>) -> Expr) -> Result<Typed> {
    let mut arguments = vec![call.float(0)?];
    if call.count(1, 2)? == 2 {
        arguments.push(call.int(1)?);
    }
    Ok(Typed::new(cast(function(arguments), DataType::Float64), Type::Float64))
}

/// NULL if any value is NULL (the engine's own skip NULLs).
fn extreme(call: &Call<'_>, function: fn(Vec<Expr>) -> Expr) -> Result<Typed> {
    let count = call.count(1, usize::MAX)?;
    let values = (0..count).map(|i| call.value(i)).collect::<Result<Vec<_>>>()?;
    let (values, ty) = unify(values, call.at)?;
    let values: Vec<Expr> = values.into_iter().map(|value| value.expr).collect();
    let missing = values.iter().cloned().map(Expr::is_null).reduce(Expr::or).unwrap_or_else(|| lit(false));
    let null = Typed::null().convert(&ty, Conversion::implicit(call.at))?;
    Ok(Typed::new(when(missing, null.expr).otherwise(function(values)).planned()?, ty))
}

/// `+`, `-`, `*` and `%` of numbers.
pub(crate) fn arithmetic(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    let how = Conversion::implicit(at);
    let numeric = |value: Typed| match value.ty {
        Type::Int64 | Type::Float64 | Type::Null => Ok(value),
        Type::String if value.literal_text().is_some_and(|text| text.trim().parse::<i64>().is_ok()) => {
            value.convert(&Type::Int64, how)
        }
        _ => value.convert(&Type::Float64, how),
    };
    let (values, ty) = unify(vec![numeric(left)?, numeric(right)?], at)?;
    let ty = if ty == Type::Null { Type::Int64 } else { ty };
    let mut exprs =
        values.into_iter().map(|value| Ok(value.convert(&ty, how)?.expr)).collect::<Result<Vec<_>>>()?.into_iter();
    let (Some(left), Some(right)) = (exprs.next(), exprs.next()) else {
        return Ok(Typed::null());
    };
    let expr = match (op, &ty) {
        (Operator::Modulo, Type::Int64) => kernel("modulo", false, vec![left, right]),
        _ => binary_expr(left, op, right),
    };
    Ok(folded(Typed::new(expr, ty)))
}

/// Arithmetic whose overflow is NULL: in floats nothing overflows, in integers the float result
/// tells whether it would.
fn safely(call: &Call<'_>, op: Operator) -> Result<Typed> {
    call.count(2, 2)?;
    let exact = arithmetic(call.value(0)?, op, call.value(1)?, call.at)?;
    if exact.ty != Type::Int64 {
        return Ok(exact);
    }
    let rough = binary_expr(call.float(0)?, op, call.float(1)?);
    let fits = math::abs(rough).lt(lit(9.223_372_036_854_775e18));
    Ok(Typed::new(when(fits, exact.expr).end().planned()?, Type::Int64))
}
