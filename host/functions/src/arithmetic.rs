//! Kernels of arithmetic: an overflow and a division by zero are errors.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Datum, Float64Array, Int64Array};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};

use crate::arrays::arity;
use crate::context::value_error;
use crate::kernel::Kernel;
use crate::wording::DIVISION_BY_ZERO;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::arrays("divide", 2, DataType::Float64, divide),
    Kernel::arrays("integer_divide", 2, DataType::Int64, integer_divide),
    Kernel::arrays("modulo", 2, DataType::Int64, modulo),
    Kernel::arrays("add_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::add)),
    Kernel::arrays("subtract_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::sub)),
    Kernel::arrays("multiply_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::mul)),
    Kernel::arrays("add_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::add, i64::checked_add)),
    Kernel::arrays("subtract_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::sub, i64::checked_sub)),
    Kernel::arrays("multiply_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::mul, i64::checked_mul)),
];

fn divide(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    let values = left
        .iter()
        .zip(right)
        .map(|pair| match pair {
            (Some(_), Some(0.0)) if !safe => Err(division_by_zero()),
            (Some(left), Some(right)) if right != 0.0 => {
                let value = left / right;
                match value.is_finite() || !left.is_finite() || !right.is_finite() {
                    true => Ok(Some(value)),
                    false if safe => Ok(None),
                    false => Err(float_overflow()),
                }
            }
            _ => Ok(None),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Float64Array::from(values)))
}

fn integers(arguments: &[ArrayRef], safe: bool, op: fn(i64, i64) -> Option<i64>) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    let (left, right) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
    let values = left
        .iter()
        .zip(right)
        .map(|pair| match pair {
            (Some(_), Some(0)) if !safe => Err(division_by_zero()),
            (Some(left), Some(right)) if right != 0 => match op(left, right) {
                None if !safe => Err(overflow()),
                value => Ok(value),
            },
            _ => Ok(None),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Int64Array::from(values)))
}

fn integer_divide(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    integers(arguments, safe, i64::checked_div)
}

fn modulo(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    // The remainder of the smallest INT64 divided by -1 is 0, although the division overflows.
    integers(arguments, safe, |left, right| Some(left.wrapping_rem(right)))
}

/// Integer arithmetic that does not wrap around.
fn whole(
    arguments: &[ArrayRef],
    safe: bool,
    all: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>,
    one: fn(i64, i64) -> Option<i64>,
) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    match all(left, right) {
        Err(ArrowError::ArithmeticOverflow(_)) if safe => {
            let (left, right) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
            let values = left.iter().zip(right).map(|pair| match pair {
                (Some(left), Some(right)) => one(left, right),
                _ => None,
            });
            Ok(Arc::new(values.collect::<Int64Array>()))
        }
        Err(ArrowError::ArithmeticOverflow(_)) => Err(overflow()),
        other => Ok(other?),
    }
}

/// Arithmetic of FLOAT64: an infinite or NaN result of finite arguments is an overflow.
fn fraction(
    arguments: &[ArrayRef],
    safe: bool,
    all: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    let result = all(left, right)?;
    let values = result.as_primitive::<Float64Type>();
    if values.values().iter().all(|value| value.is_finite()) {
        return Ok(result);
    }
    let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
    let values = values
        .iter()
        .zip(left.iter().zip(right))
        .map(|row| match row {
            (Some(value), (Some(left), Some(right))) if !value.is_finite() && left.is_finite() && right.is_finite() => {
                if safe {
                    Ok(None)
                } else {
                    Err(float_overflow())
                }
            }
            (value, _) => Ok(value),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Float64Array::from(values)))
}

fn float_overflow() -> DataFusionError {
    value_error("a FLOAT64 overflowed; SAFE_MULTIPLY and its kin give NULL instead")
}

fn overflow() -> DataFusionError {
    value_error(
        "an integer overflowed 64 bits; SAFE_ADD and its kin give NULL instead, CAST(x AS FLOAT64) a rough number",
    )
}

fn division_by_zero() -> DataFusionError {
    value_error(format!("{DIVISION_BY_ZERO}; SAFE_DIVIDE gives NULL instead"))
}
