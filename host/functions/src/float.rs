//! Kernels of FLOAT64 values that are compared: 0.0 and -0.0 are one number, and NaN equals nothing, itself included.
//!
//! The engine compares keys of windows, elements of lists and distinct values by their bits, and there are many NaN. So
//! keys go through `float_key` first, and lists through kernels of their own.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;

use crate::arrays::arity;
use crate::kernel::{Fallibility, Kernel};
use crate::rows::{Body, Row};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::arrays("float_key", 1, DataType::Float64, |a, _| keys(a)).with_fallibility(Fallibility::Infallible),
    Kernel::arrays("float_key_bits", 1, DataType::Int64, |a, _| key_bits(a)).with_fallibility(Fallibility::Infallible),
    Kernel::arrays("float_equal", 2, DataType::Boolean, |a, _| equal(a)).with_fallibility(Fallibility::Infallible),
    Kernel::rows("float_included", 2..=2, Body::Bool(|row| Ok(Some(included(row))))),
    Kernel::rows("floats_share_any", 2..=2, Body::Bool(|row| Ok(Some(shared(row, false))))),
    Kernel::rows("floats_share_all", 2..=2, Body::Bool(|row| Ok(Some(shared(row, true))))),
    Kernel::rows("floats_differ", 1..=1, Body::Bool(|row| Ok(Some(differ(row))))),
    Kernel::rows("float_least", 1..=usize::MAX, Body::Float(|row| Ok(extreme(row, f64::min)))),
    Kernel::rows("float_greatest", 1..=usize::MAX, Body::Float(|row| Ok(extreme(row, f64::max)))),
];

/// The value that stands for all that are the same key: 0.0 for -0.0, one NaN for all.
fn key(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

fn is_key(value: f64) -> bool {
    value.to_bits() == key(value).to_bits()
}

fn keys(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else { return Err(arity()) };
    let floats = values.as_primitive::<Float64Type>();
    // Nearly all batches are so already, and are not copied.
    if floats.values().iter().all(|value| is_key(*value)) {
        return Ok(Arc::clone(values));
    }
    Ok(Arc::new(floats.unary::<_, Float64Type>(key)))
}

fn key_bits(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else { return Err(arity()) };
    let bits: Int64Array =
        values.as_primitive::<Float64Type>().unary::<_, Int64Type>(|value| key(value).to_bits().cast_signed());
    Ok(Arc::new(bits))
}

#[expect(clippy::float_cmp, reason = "equal is what the dialect calls equal")]
fn equal(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    let pairs = left.as_primitive::<Float64Type>().iter().zip(right.as_primitive::<Float64Type>());
    let values = pairs.map(|(left, right)| left.zip(right).map(|(left, right)| left == right));
    Ok(Arc::new(values.collect::<BooleanArray>()))
}

/// Whether the first argument is an element of the second.
#[expect(clippy::float_cmp, reason = "equal is what the dialect calls equal")]
fn included(row: &Row) -> bool {
    let wanted = row.float(0);
    row.floats(1).into_iter().flatten().any(|value| value == wanted)
}

/// The elements of an array by which they are looked up: no NaN, and one NULL.
fn elements(row: &Row, argument: usize) -> HashSet<Option<u64>> {
    let found = row.floats(argument).into_iter().filter(|value| !value.is_some_and(f64::is_nan));
    found.map(|value| value.map(|value| key(value).to_bits())).collect()
}

/// Whether the first array has an element of the second, or all of them.
fn shared(row: &Row, all: bool) -> bool {
    let (one, other) = (elements(row, 0), elements(row, 1));
    match all {
        true => other.is_subset(&one) && !row.floats(1).into_iter().flatten().any(f64::is_nan),
        false => !one.is_disjoint(&other),
    }
}

/// Whether no element of an array comes twice, as SELECT DISTINCT sees it: there a NaN is as another.
fn differ(row: &Row) -> bool {
    let mut seen = HashSet::new();
    row.floats(0).into_iter().all(|value| seen.insert(value.map(|value| key(value).to_bits())))
}

/// The least or largest argument; NaN if one is.
fn extreme(row: &Row, choose: fn(f64, f64) -> f64) -> Option<f64> {
    let either = |one: f64, other: f64| if one.is_nan() || other.is_nan() { f64::NAN } else { choose(one, other) };
    (0..row.count()).map(|i| row.float(i)).reduce(either)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Array, Float64Array};

    use super::*;

    fn floats(values: &[Option<f64>]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    #[test]
    fn zeros_are_one_key_and_so_are_all_nan() {
        let odd = [Some(-0.0), Some(0.0), Some(f64::NAN), Some(-f64::NAN), None, Some(-1.5)];
        let made = keys(&[floats(&odd)]).unwrap();
        let bits: Vec<_> = made.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect();
        let (zero, nan) = (Some(0), Some(f64::NAN.to_bits()));
        assert_eq!(bits, [zero, zero, nan, nan, None, Some((-1.5_f64).to_bits())]);
        let again = key_bits(&[floats(&odd)]).unwrap();
        let again: Vec<_> = again.as_primitive::<Int64Type>().iter().map(|bits| bits.map(i64::cast_unsigned)).collect();
        assert_eq!(again, bits);
    }

    #[test]
    fn what_is_a_key_already_is_not_copied() {
        let plain = floats(&[Some(0.0), None, Some(2.0), Some(f64::NEG_INFINITY), Some(f64::NAN)]);
        assert!(Arc::ptr_eq(&keys(&[Arc::clone(&plain)]).unwrap(), &plain));
        assert!(keys(&[]).is_err());
    }

    #[test]
    fn nan_equals_nothing() {
        let (left, right) =
            ([Some(f64::NAN), Some(-0.0), Some(1.0), None], [Some(f64::NAN), Some(0.0), Some(2.0), None]);
        let made = equal(&[floats(&left), floats(&right)]).unwrap();
        assert_eq!(made.as_boolean().iter().collect::<Vec<_>>(), [Some(false), Some(true), Some(false), None]);
        assert_eq!(made.null_count(), 1);
    }
}
