//! Kernels of arithmetic.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;

use super::form::{BigNumeric, Fault, Form, Made, Native, Numeric, array_of, fitting, held, is_numeric};
use super::wide::Wide;
use crate::arrays::arity;
use crate::context::check;
use crate::kernel::Kernel;

/// The kernel of a function of one value, of two, or of one and a number of places; the types are told apart here.
macro_rules! kernel {
    ($name:literal, $most:literal, $compute:ident, $function:expr) => {
        Kernel::of_first($name, 1..=$most, |arguments, safe| match $crate::decimal::form::is_numeric(arguments)? {
            true => {
                type F = Numeric;
                $compute::<F>(arguments, safe, $function)
            }
            false => {
                type F = BigNumeric;
                $compute::<F>(arguments, safe, $function)
            }
        })
    };
}
pub(super) use kernel;

pub(crate) const KERNELS: &[Kernel] = &[
    kernel!("decimal_add", 2, of_two, |one, other| F::plus(one, other).ok_or(Fault::Overflow)),
    kernel!("decimal_subtract", 2, of_two, |one, other| F::minus(one, other).ok_or(Fault::Overflow)),
    kernel!("decimal_multiply", 2, of_two, product::<F>),
    kernel!("decimal_divide", 2, of_two, quotient::<F>),
    kernel!("decimal_divide_whole", 2, of_two, whole_quotient::<F>),
    kernel!("decimal_modulo", 2, of_two, remainder::<F>),
    kernel!("decimal_negate", 1, of_one, negated::<F>),
    kernel!("decimal_absolute", 1, of_one, |value| fitting::<F>(false, F::parts(value).1)),
    kernel!("decimal_sign", 1, of_one, sign::<F>),
    kernel!("decimal_ceiling", 1, of_one, |value| in_steps::<F>(value, 0, Rounding::Up)),
    kernel!("decimal_floor", 1, of_one, |value| in_steps::<F>(value, 0, Rounding::Down)),
    kernel!("decimal_round", 2, to_places, |value, places| in_steps::<F>(value, places, Rounding::HalfAway)),
    kernel!("decimal_round_even", 2, to_places, |value, places| in_steps::<F>(value, places, Rounding::HalfEven)),
    kernel!("decimal_cut", 2, to_places, |value, places| in_steps::<F>(value, places, Rounding::ToZero)),
];

/// Each value alone; where `safe`, a fault is NULL.
pub(super) fn of_one<F: Form>(
    arguments: &[ArrayRef],
    safe: bool,
    function: impl Fn(Native<F>) -> Made<Native<F>>,
) -> Result<ArrayRef> {
    let made = |value| value_or_null::<F>(function(value), safe);
    let values = watched(held::<F>(arguments, 0)?.iter()).map(|value| value?.map_or(Ok(None), made));
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

/// Pairs of values.
pub(super) fn of_two<F: Form>(
    arguments: &[ArrayRef],
    safe: bool,
    function: impl Fn(Native<F>, Native<F>) -> Made<Native<F>>,
) -> Result<ArrayRef> {
    let pairs = held::<F>(arguments, 0)?.iter().zip(held::<F>(arguments, 1)?);
    let values = watched(pairs).map(|pair| match pair? {
        (Some(one), Some(other)) => value_or_null::<F>(function(one, other), safe),
        _ => Ok(None),
    });
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

/// Values and numbers of places, which are 0 if they are not given.
fn to_places<F: Form>(
    arguments: &[ArrayRef],
    safe: bool,
    function: impl Fn(Native<F>, i64) -> Made<Native<F>>,
) -> Result<ArrayRef> {
    let Some(places) = arguments.get(1) else { return of_one::<F>(arguments, safe, |value| function(value, 0)) };
    let places = places.as_primitive_opt::<Int64Type>().ok_or_else(arity)?;
    let values = watched(held::<F>(arguments, 0)?.iter().zip(places)).map(|pair| match pair? {
        (Some(value), Some(places)) => value_or_null::<F>(function(value, places), safe),
        _ => Ok(None),
    });
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

/// The rows, with a look at the stop sign now and then: a power takes a hundred times as long as a sum.
fn watched<T>(rows: impl Iterator<Item = T>) -> impl Iterator<Item = Result<T>> {
    const BETWEEN_CHECKS: usize = 64;
    rows.enumerate().map(|(i, row)| if i % BETWEEN_CHECKS == 0 { check().map(|()| row) } else { Ok(row) })
}

fn value_or_null<F: Form>(made: Made<Native<F>>, safe: bool) -> Result<Option<Native<F>>> {
    match made {
        Ok(value) => Ok(Some(value)),
        Err(_) if safe => Ok(None),
        Err(fault) => Err(fault.error::<F>()),
    }
}

fn negated<F: Form>(value: Native<F>) -> Made<Native<F>> {
    let (negative, size) = F::parts(value);
    fitting::<F>(!negative, size)
}

pub(super) fn product<F: Form>(one: Native<F>, other: Native<F>) -> Made<Native<F>> {
    if let Some(product) = F::product(one, other) {
        return Ok(product);
    }
    let ((one_negative, one), (other_negative, other)) = (F::parts(one), F::parts(other));
    fitting::<F>(one_negative != other_negative, one.times(&other).over_rounded(&Wide::power_of_ten(F::SCALE)))
}

pub(super) fn quotient<F: Form>(one: Native<F>, other: Native<F>) -> Made<Native<F>> {
    let ((one_negative, size), (other_negative, divisor)) = (F::parts(one), F::parts(other));
    if divisor.is_zero() {
        return Err(Fault::Zero);
    }
    if let Some(quotient) = F::quotient(one, other) {
        return Ok(quotient);
    }
    fitting::<F>(one_negative != other_negative, size.times(&Wide::power_of_ten(F::SCALE)).over_rounded(&divisor))
}

fn whole_quotient<F: Form>(one: Native<F>, other: Native<F>) -> Made<Native<F>> {
    let ((one_negative, one), (other_negative, other)) = (F::parts(one), F::parts(other));
    if other.is_zero() {
        return Err(Fault::Zero);
    }
    fitting::<F>(one_negative != other_negative, one.over(&other).0.times(&Wide::power_of_ten(F::SCALE)))
}

fn remainder<F: Form>(one: Native<F>, other: Native<F>) -> Made<Native<F>> {
    let ((negative, one), (_, other)) = (F::parts(one), F::parts(other));
    if other.is_zero() {
        return Err(Fault::Zero);
    }
    fitting::<F>(negative, one.over(&other).1)
}

fn sign<F: Form>(value: Native<F>) -> Made<Native<F>> {
    let (negative, size) = F::parts(value);
    fitting::<F>(negative, if size.is_zero() { size } else { Wide::power_of_ten(F::SCALE) })
}

/// What becomes of the digits behind the last place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    HalfAway,
    HalfEven,
    ToZero,
    Up,
    Down,
}

/// A value with so many places behind the point, or so many zeros before it.
pub(super) fn in_steps<F: Form>(value: Native<F>, places: i64, rounding: Rounding) -> Made<Native<F>> {
    let scale = i64::from(F::SCALE);
    if places >= scale {
        return Ok(value);
    }
    let (negative, size) = F::parts(value);
    // All digits of both types are fewer.
    let Ok(dropped) = u32::try_from((scale - places.max(-200)).min(120)) else { return Ok(value) };
    let step = Wide::power_of_ten(dropped);
    let (steps, rest) = size.over(&step);
    let up = match rounding {
        Rounding::HalfAway => rest >= step.minus(&rest),
        Rounding::HalfEven => rest > step.minus(&rest) || rest == step.minus(&rest) && steps.is_odd(),
        Rounding::ToZero => false,
        Rounding::Up => !negative && !rest.is_zero(),
        Rounding::Down => negative && !rest.is_zero(),
    };
    let steps = if up { steps.plus(&Wide::of(1)) } else { steps };
    fitting::<F>(negative, steps.times(&step))
}

/// The value so far behind the one of a rank, in units of 1e-38, on the way to the next one.
pub(crate) fn interpolated(sorted: &ArrayRef, rank: usize, rest: u128) -> Result<ScalarValue> {
    fn between<F: Form>(sorted: &ArrayRef, rank: usize, rest: u128) -> Result<ArrayRef> {
        let values = held::<F>(std::slice::from_ref(sorted), 0)?;
        let last = values.len().saturating_sub(1);
        let (low, high) = (values.value(rank.min(last)), values.value((rank + 1).min(last)));
        // A part has no more digits than its type. The sum is rounded, and not what it is of.
        let rest = Wide::of(rest).over(&Wide::power_of_ten(38 - F::SCALE)).0;
        let unit = Wide::power_of_ten(F::SCALE);
        let ((negative, low), (below, high)) = (F::parts(low), F::parts(high));
        let (low, high) = (low.times(&unit.minus(&rest)), high.times(&rest));
        let (negative, size) = match negative == below {
            true => (negative, low.plus(&high)),
            false if low >= high => (negative, low.minus(&high)),
            false => (below, high.minus(&low)),
        };
        let value = fitting::<F>(negative, size.over_rounded(&unit)).map_err(Fault::error::<F>)?;
        Ok(array_of::<F>([Some(value)]))
    }
    let array = match is_numeric(std::slice::from_ref(sorted))? {
        true => between::<Numeric>(sorted, rank, rest)?,
        false => between::<BigNumeric>(sorted, rank, rest)?,
    };
    ScalarValue::try_from_array(&array, 0)
}
