//! Kernels of FLOAT64 values that are compared: 0.0 and -0.0 are one number, and NaN equals nothing, itself included.
//!
//! The engine compares all values by their bits, where there are many NaN: those with a sign are below all numbers, the
//! others above them. So keys go through `float_key` first, what may be NaN in a comparison through `float_key` or
//! `float_nan_last`, and lists through kernels of their own.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;

use crate::arrays::arity;
use crate::kernel::{Fallibility, Kernel};
use crate::rows::{Body, Row};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::arrays("float_key", 1, DataType::Float64, |a, _| keys(a)).with_fallibility(Fallibility::Infallible),
    Kernel::arrays("float_key_bits", 1, DataType::Int64, |a, _| key_bits(a)).with_fallibility(Fallibility::Infallible),
    Kernel::arrays("float_nan_last", 1, DataType::Float64, |a, _| nan_last(a))
        .with_fallibility(Fallibility::Infallible),
    Kernel::rows("float_included", 2..=2, Body::Bool(|row| Ok(Some(included(row))))),
    Kernel::rows("floats_share_any", 2..=2, Body::Bool(|row| Ok(Some(shared(row, false))))),
    Kernel::rows("floats_share_all", 2..=2, Body::Bool(|row| Ok(Some(shared(row, true))))),
    Kernel::rows("floats_differ", 1..=1, Body::Bool(|row| Ok(Some(differ(row))))),
    Kernel::rows("float_least", 1..=usize::MAX, Body::Float(|row| Ok(extreme(row, f64::min)))),
    Kernel::rows("float_greatest", 1..=usize::MAX, Body::Float(|row| Ok(extreme(row, f64::max)))),
];

/// The NaN of keys, which the engine sorts before all numbers, as the dialect does.
const FIRST_NAN: f64 = -f64::NAN;

/// A NaN that no computation makes, and that the engine takes for greater than all else.
const LAST_NAN: u64 = i64::MAX.cast_unsigned();

/// The value that stands for all that are the same key: 0.0 for -0.0, one NaN for all.
fn key(value: f64) -> f64 {
    if value.is_nan() { FIRST_NAN } else { value + 0.0 }
}

/// The keys of values.
pub(crate) fn keys(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else { return Err(arity()) };
    mapped(values, |value| value.is_nan() || value.to_bits() == (-0.0_f64).to_bits(), key)
}

/// The values with a NaN that equals no other value, and than which nothing is greater.
fn nan_last(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else { return Err(arity()) };
    mapped(values, f64::is_nan, |value| if value.is_nan() { f64::from_bits(LAST_NAN) } else { value })
}

/// The values, of which `change` makes others where some are `odd`. Nearly all batches have none, and are not copied.
fn mapped(values: &ArrayRef, odd: fn(f64) -> bool, change: fn(f64) -> f64) -> Result<ArrayRef> {
    let floats = values.as_primitive::<Float64Type>();
    if !floats.values().iter().any(|value| odd(*value)) {
        return Ok(Arc::clone(values));
    }
    Ok(Arc::new(floats.unary::<_, Float64Type>(change)))
}

fn key_bits(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else { return Err(arity()) };
    let bits: Int64Array =
        values.as_primitive::<Float64Type>().unary::<_, Int64Type>(|value| key(value).to_bits().cast_signed());
    Ok(Arc::new(bits))
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
        let (zero, nan) = (Some(0), Some((-f64::NAN).to_bits()));
        assert_eq!(bits, [zero, zero, nan, nan, None, Some((-1.5_f64).to_bits())]);
        let again = key_bits(&[floats(&odd)]).unwrap();
        let again: Vec<_> = again.as_primitive::<Int64Type>().iter().map(|bits| bits.map(i64::cast_unsigned)).collect();
        assert_eq!(again, bits);
    }

    #[test]
    fn what_is_a_key_already_is_not_copied() {
        let plain = floats(&[Some(0.0), None, Some(2.0), Some(f64::NEG_INFINITY)]);
        assert!(Arc::ptr_eq(&keys(&[Arc::clone(&plain)]).unwrap(), &plain));
        assert!(keys(&[]).is_err());
    }

    #[test]
    fn nan_is_before_all_numbers_or_after_them_and_equals_none() {
        let odd = floats(&[Some(f64::NAN), Some(-f64::NAN), Some(f64::INFINITY), None, Some(-0.0)]);
        let sides = [keys(&[Arc::clone(&odd)]).unwrap(), nan_last(&[Arc::clone(&odd)]).unwrap()];
        let [first, last] = sides.each_ref().map(|array| array.as_primitive::<Float64Type>());
        assert_eq!(last.null_count(), 1);
        for at in [0, 1] {
            assert!(first.value(at).total_cmp(&f64::NEG_INFINITY).is_lt());
            assert!(last.value(at).total_cmp(&f64::INFINITY).is_gt());
            for other in [f64::NAN, -f64::NAN, first.value(at)] {
                assert!(last.value(at).total_cmp(&other).is_ne());
            }
        }
        assert!(last.value(2).is_infinite() && last.value(4).is_sign_negative());
        let plain = floats(&[Some(-0.0), None, Some(2.0)]);
        assert!(Arc::ptr_eq(&nan_last(&[Arc::clone(&plain)]).unwrap(), &plain));
        assert!(nan_last(&[]).is_err());
    }
}
