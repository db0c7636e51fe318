//! Numbers, and the functions that choose between values.

use datafusion::functions::core::expr_fn as core;
use datafusion::functions::math::expr_fn as math;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use tidegate_functions::scalar::raised;
use tidegate_model::Position;

use super::call::{Builder, Call};
use crate::fail::{Planning, Result};
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::kernel;
use crate::typing::{Conversion, common_of, compare, folded, unify};

const INT: Type = Type::Int64;
const FLOAT: Type = Type::Float64;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("ABS", |call| match number(call, 0)?.ty {
        Type::Int64 => call.run("abs_int64", 1, &[INT], INT),
        ty if ty.is_decimal() => call.run("decimal_absolute", 1, std::slice::from_ref(&ty), ty.clone()),
        _ => {
            call.count(1, 1)?;
            Ok(Typed::new(math::abs(number(call, 0)?.expr), FLOAT))
        }
    }),
    ("SIGN", |call| {
        call.count(1, 1)?;
        let ty = number(call, 0)?.ty;
        if ty.is_decimal() {
            return call.run("decimal_sign", 1, std::slice::from_ref(&ty), ty.clone());
        }
        Ok(Typed::new(cast(math::signum(number(call, 0)?.expr), ty.arrow()), ty))
    }),
    ("CEIL", |call| of_number(call, "decimal_ceiling", |call| float(call, math::ceil))),
    ("CEILING", |call| of_number(call, "decimal_ceiling", |call| float(call, math::ceil))),
    ("FLOOR", |call| of_number(call, "decimal_floor", |call| float(call, math::floor))),
    ("ROUND", |call| {
        call.count(1, 3)?;
        let to_even = call.word(2, &["ROUND_HALF_AWAY_FROM_ZERO", "ROUND_HALF_EVEN"])? == Some(1);
        let count = call.arguments.len().min(2);
        let arguments = call.arguments.iter().take(count).cloned().collect();
        let call = Call { arguments, ..*call };
        let (of_float, of_decimal) = match to_even {
            true => ("round_float_even", "decimal_round_even"),
            false => ("round_float", "decimal_round"),
        };
        to_places(&call, of_float, of_decimal)
    }),
    ("TYPEOF", |call| {
        call.count(1, 1)?;
        Ok(Typed::text(type_name(&call.value(0)?.ty)))
    }),
    ("TRUNC", |call| to_places(call, "cut_float", "decimal_cut")),
    ("SQRT", |call| of_number(call, "decimal_square_root", |call| of_float(call, "square_root"))),
    ("CBRT", |call| of_number(call, "decimal_cube_root", |call| of_float(call, "cube_root"))),
    ("EXP", |call| of_number(call, "decimal_exponential", |call| of_float(call, "exponential"))),
    ("LN", |call| of_number(call, "decimal_logarithm", |call| of_float(call, "logarithm"))),
    ("LOG10", |call| of_number(call, "decimal_logarithm_10", |call| of_float(call, "logarithm_10"))),
    ("LOG", |call| match call.arguments.len() {
        1 => of_number(call, "decimal_logarithm", |call| of_float(call, "logarithm")),
        _ => of_numbers(call, "logarithm", "decimal_logarithm_of_base"),
    }),
    ("POW", |call| of_numbers(call, "power_of", "decimal_power")),
    ("POWER", |call| of_numbers(call, "power_of", "decimal_power")),
    ("SIN", |call| of_float(call, "sine")),
    ("COS", |call| of_float(call, "cosine")),
    ("TAN", |call| of_float(call, "tangent")),
    ("COT", |call| of_float(call, "cotangent")),
    ("SEC", |call| of_float(call, "secant")),
    ("CSC", |call| of_float(call, "cosecant")),
    ("ASIN", |call| of_float(call, "arc_sine")),
    ("ACOS", |call| of_float(call, "arc_cosine")),
    ("ATAN", |call| of_float(call, "arc_tangent")),
    ("ATAN2", |call| call.run("arc_tangent_2", 2, &[FLOAT, FLOAT], FLOAT)),
    ("SINH", |call| of_float(call, "hyperbolic_sine")),
    ("COSH", |call| of_float(call, "hyperbolic_cosine")),
    ("TANH", |call| of_float(call, "hyperbolic_tangent")),
    ("COTH", |call| of_float(call, "hyperbolic_cotangent")),
    ("SECH", |call| of_float(call, "hyperbolic_secant")),
    ("CSCH", |call| of_float(call, "hyperbolic_cosecant")),
    ("ASINH", |call| of_float(call, "area_sine")),
    ("ACOSH", |call| of_float(call, "area_cosine")),
    ("ATANH", |call| of_float(call, "area_tangent")),
    ("MOD", |call| {
        call.count(2, 2)?;
        arithmetic(call.value(0)?, Operator::Modulo, call.value(1)?, call.safe, call.at)
    }),
    ("DIV", |call| {
        call.count(2, 2)?;
        if let Some((values, ty)) = decimals(&[call.value(0)?, call.value(1)?], call.at)? {
            return Ok(folded(Typed::new(kernel("decimal_divide_whole", call.safe, values), ty)));
        }
        // A conversion would round, and so divide other numbers.
        if call.value(0)?.ty == FLOAT || call.value(1)?.ty == FLOAT {
            return Err(
                call.fails("DIV takes INT64, not FLOAT64; write CAST(x AS INT64), which rounds, or TRUNC(x / y)")
            );
        }
        Ok(Typed::new(kernel("integer_divide", call.safe, vec![call.int(0)?, call.int(1)?]), INT))
    }),
    ("SAFE_DIVIDE", |call| {
        call.count(2, 2)?;
        division(call.value(0)?, call.value(1)?, true, call.at)
    }),
    ("IEEE_DIVIDE", |call| {
        call.count(2, 2)?;
        Ok(Typed::new(call.float(0)? / call.float(1)?, FLOAT))
    }),
    ("SAFE_ADD", |call| safely(call, Operator::Plus)),
    ("SAFE_SUBTRACT", |call| safely(call, Operator::Minus)),
    ("SAFE_MULTIPLY", |call| safely(call, Operator::Multiply)),
    ("SAFE_NEGATE", |call| {
        call.count(1, 1)?;
        let zero = Typed::new(lit(0_i64), INT);
        match number(call, 0)? {
            value if value.ty == INT => arithmetic(zero, Operator::Minus, value, true, call.at),
            value if value.ty.is_decimal() => {
                Ok(Typed::new(kernel("decimal_negate", true, vec![value.expr]), value.ty))
            }
            value => Ok(Typed::new(Expr::Negative(Box::new(value.expr)), FLOAT)),
        }
    }),
    ("BIT_COUNT", |call| {
        call.count(1, 1)?;
        let value = call.value(0)?;
        let expr = if value.ty == Type::Bytes { value.expr } else { call.int(0)? };
        Ok(Typed::new(kernel("bit_count", call.safe, vec![expr]), INT))
    }),
    ("RANGE_BUCKET", range_bucket),
    ("RAND", |call| {
        call.count(0, 0)?;
        Ok(Typed::new(math::random(), FLOAT))
    }),
    ("GENERATE_UUID", |call| {
        call.count(0, 0)?;
        Ok(Typed::new(datafusion::functions::string::expr_fn::uuid(), Type::String))
    }),
    ("ERROR", |call| {
        call.count(1, 1)?;
        // ERROR fails also where other functions would be NULL.
        Ok(Typed::new(raised(call.text(0)?), Type::Null))
    }),
    ("PARSE_NUMERIC", |call| call.run("parse_numeric", 1, &[Type::String], Type::Numeric)),
    ("PARSE_BIGNUMERIC", |call| call.run("parse_bignumeric", 1, &[Type::String], Type::BigNumeric)),
    ("IS_INF", |call| call.run("is_infinite", 1, &[FLOAT], Type::Bool)),
    ("IS_NAN", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(math::isnan(call.float(0)?), Type::Bool))
    }),
    ("GREATEST", |call| extreme(call, core::greatest, "float_greatest")),
    ("LEAST", |call| extreme(call, core::least, "float_least")),
    ("NULLIF", |call| {
        call.count(2, 2)?;
        let (value, other) = (call.value(0)?, call.value(1)?);
        let equal = compare(value.clone(), Operator::Eq, other.clone(), call.at)?;
        if value.ty == Type::Null {
            return Ok(value);
        }
        // Numbers take the type of both.
        let ty = match value.ty.is_number() && other.ty.is_number() {
            true => common_of(&[value.clone(), other], call.at)?,
            false => value.ty.clone(),
        };
        let value = value.convert(&ty, Conversion::implicit(call.at))?;
        let null = Typed::null().convert(&ty, Conversion::implicit(call.at))?;
        Ok(Typed::new(when(equal.expr, null.expr).otherwise(value.expr).planned()?, ty))
    }),
];

fn number(call: &Call<'_>, i: usize) -> Result<Typed> {
    let value = call.value(i)?;
    if value.ty.is_number() { Ok(value) } else { value.convert(&Type::Float64, Conversion::implicit(call.at)) }
}

fn float(call: &Call<'_>, function: fn(Expr) -> Expr) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(function(call.float(0)?), Type::Float64))
}

fn of_float(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    call.run(name, 1, &[FLOAT], FLOAT)
}

/// A function of one number: of a decimal its own, of any other as `other` builds it.
fn of_number(call: &Call<'_>, of_decimal: &'static str, other: Builder) -> Result<Typed> {
    call.count(1, 1)?;
    match call.value(0)?.ty {
        ty if ty.is_decimal() => call.run(of_decimal, 1, std::slice::from_ref(&ty), ty.clone()),
        _ => other(call),
    }
}

/// The same of two.
fn of_numbers(call: &Call<'_>, of_float: &'static str, of_decimal: &'static str) -> Result<Typed> {
    call.count(2, 2)?;
    match decimals(&[call.value(0)?, call.value(1)?], call.at)? {
        Some((values, ty)) => Ok(folded(Typed::new(kernel(of_decimal, call.safe, values), ty))),
        None => call.run(of_float, 2, &[FLOAT, FLOAT], FLOAT),
    }
}

/// A function of a number and a number of places.
fn to_places(call: &Call<'_>, of_float: &'static str, of_decimal: &'static str) -> Result<Typed> {
    call.count(1, 2)?;
    match call.value(0)?.ty {
        ty if ty.is_decimal() => call.run(of_decimal, 1, &[ty.clone(), INT], ty),
        _ => call.run(of_float, 1, &[FLOAT, INT], FLOAT),
    }
}

/// Values as the decimals that they are together; `None` where none is one, or a FLOAT64 is among them.
fn decimals(values: &[Typed], at: Option<Position>) -> Result<Option<(Vec<Expr>, Type)>> {
    if !values.iter().any(|value| value.ty.is_decimal()) {
        return Ok(None);
    }
    let ty = common_of(values, at)?;
    if !ty.is_decimal() {
        return Ok(None);
    }
    let convert = |value: &Typed| Ok(value.clone().convert(&ty, Conversion::implicit(at))?.expr);
    Ok(Some((values.iter().map(convert).collect::<Result<_>>()?, ty.clone())))
}

/// `left / right`.
pub(crate) fn division(left: Typed, right: Typed, safe: bool, at: Option<Position>) -> Result<Typed> {
    let values = [left, right];
    if let Some((values, ty)) = decimals(&values, at)? {
        return Ok(folded(Typed::new(kernel("decimal_divide", safe, values), ty)));
    }
    let convert = |value: Typed| Ok(value.convert(&FLOAT, Conversion::implicit(at))?.expr);
    let values = values.into_iter().map(convert).collect::<Result<_>>()?;
    Ok(folded(Typed::new(kernel("divide", safe, values), FLOAT)))
}

/// Points and bounds of one kind: numbers, times, or texts.
fn range_bucket(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 2)?;
    let Some(item) = call.value(1)?.ty.element() else {
        return Err(call.fails("RANGE_BUCKET takes a point and an array, e.g. RANGE_BUCKET(20, [0, 10, 20, 30])"));
    };
    let (_, ty) = unify(vec![call.value(0)?, Typed::new(Typed::null().expr, item)], call.at)?;
    let bounds = call.typed(1, &Type::Array(Box::new(ty.clone())))?;
    let name = if ty.is_decimal() { "decimal_bucket" } else { "range_bucket" };
    Ok(Typed::new(kernel(name, call.safe, vec![call.typed(0, &ty)?, bounds]), INT))
}

/// NULL if any value is NULL (the engine's own skip NULLs); of FLOAT64 the kernel, where NaN makes NaN.
fn extreme(call: &Call<'_>, function: fn(Vec<Expr>) -> Expr, of_float: &'static str) -> Result<Typed> {
    let count = call.count(1, usize::MAX)?;
    let values = (0..count).map(|i| call.value(i)).collect::<Result<Vec<_>>>()?;
    let (values, ty) = unify(values, call.at)?;
    if !ty.is_sortable() {
        return Err(call.fails(format!("{} cannot compare values of type {ty}", call.name)));
    }
    let values: Vec<Expr> = values.into_iter().map(|value| value.expr).collect();
    if ty == Type::Float64 {
        return Ok(folded(Typed::new(kernel(of_float, call.safe, values), ty)));
    }
    let missing = values.iter().cloned().map(Expr::is_null).reduce(Expr::or).unwrap_or_else(|| lit(false));
    let null = Typed::null().convert(&ty, Conversion::implicit(call.at))?;
    Ok(Typed::new(when(missing, null.expr).otherwise(function(values)).planned()?, ty))
}

/// `+`, `-`, `*` and `%` of numbers.
pub(crate) fn arithmetic(left: Typed, op: Operator, right: Typed, safe: bool, at: Option<Position>) -> Result<Typed> {
    let how = Conversion::implicit(at);
    let decimal = [&left.ty, &right.ty].into_iter().find(|ty| ty.is_decimal()).cloned();
    let numeric = |value: Typed| match value.ty {
        Type::Null => Ok(value),
        _ if value.ty.is_number() => Ok(value),
        // As FLOAT64 it would lose digits.
        Type::String
            if let Some(decimal) = &decimal
                && value.literal_text().is_some() =>
        {
            value.convert(decimal, how)
        }
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
        (Operator::Modulo, Type::Int64) => kernel("modulo", safe, vec![left, right]),
        (Operator::Plus, Type::Int64) => kernel("add_int64", safe, vec![left, right]),
        (Operator::Minus, Type::Int64) => kernel("subtract_int64", safe, vec![left, right]),
        (Operator::Multiply, Type::Int64) => kernel("multiply_int64", safe, vec![left, right]),
        (_, ty) if ty.is_decimal() => {
            let name = match op {
                Operator::Plus => "decimal_add",
                Operator::Minus => "decimal_subtract",
                Operator::Multiply => "decimal_multiply",
                _ => "decimal_modulo",
            };
            kernel(name, safe, vec![left, right])
        }
        (Operator::Plus, Type::Float64) => kernel("add_float64", safe, vec![left, right]),
        (Operator::Minus, Type::Float64) => kernel("subtract_float64", safe, vec![left, right]),
        (Operator::Multiply, Type::Float64) => kernel("multiply_float64", safe, vec![left, right]),
        _ => binary_expr(left, op, right),
    };
    Ok(folded(Typed::new(expr, ty)))
}

/// Arithmetic whose overflow is NULL.
fn safely(call: &Call<'_>, op: Operator) -> Result<Typed> {
    call.count(2, 2)?;
    arithmetic(call.value(0)?, op, call.value(1)?, true, call.at)
}

/// The name of a type with those of its fields, which messages leave out.
fn type_name(ty: &Type) -> String {
    let fields_of = |fields: &[Field]| {
        let fields = fields.iter().filter(|field| !field.is_hidden());
        let fields = fields.enumerate().map(|(i, field)| match type_name(&field.ty) {
            // A field without a name.
            ty if field.name == format!("_field_{}", i + 1) => ty,
            ty => format!("{} {ty}", field.name),
        });
        format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", "))
    };
    match ty {
        Type::Null => "INT64".to_owned(),
        Type::Array(item) => format!("ARRAY<{}>", type_name(item)),
        Type::Struct { fields, .. } => fields_of(fields),
        Type::Record(fields) => format!("ARRAY<{}>", fields_of(fields)),
        plain => plain.to_string(),
    }
}
