//! Kernels of numbers. It is an error where a function is not defined, or its value is beyond all FLOAT64.

use crate::kernel::Kernel;
use crate::rows::{Body, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows(
        "abs_int64",
        1..=1,
        Body::Int(|row| match row.int(0).checked_abs() {
            Some(value) => Ok(Some(value)),
            None => Err("the absolute value of the smallest INT64 overflows".into()),
        }),
    ),
    Kernel::rows("round_float_even", 1..=2, Body::Float(|row| scaled(row, f64::round_ties_even))),
    Kernel::rows("round_float", 1..=2, Body::Float(|row| scaled(row, f64::round))),
    Kernel::rows("cut_float", 1..=2, Body::Float(|row| scaled(row, f64::trunc))),
    Kernel::rows(
        "square_root",
        1..=1,
        Body::Float(|row| inside(row, |x| x >= 0.0, f64::sqrt, "SQRT takes 0 and more")),
    ),
    Kernel::rows("cube_root", 1..=1, Body::Float(|row| plain(row, f64::cbrt))),
    Kernel::rows("exponential", 1..=1, Body::Float(|row| finite(row, row.float(0).exp(), "EXP"))),
    Kernel::rows("logarithm", 1..=2, Body::Float(logarithm)),
    Kernel::rows(
        "logarithm_10",
        1..=1,
        Body::Float(|row| inside(row, |x| x > 0.0, f64::log10, "LOG10 takes numbers above 0")),
    ),
    Kernel::rows("power_of", 2..=2, Body::Float(power)),
    Kernel::rows("sine", 1..=1, Body::Float(|row| inside(row, f64::is_finite, f64::sin, "SIN takes finite numbers"))),
    Kernel::rows("cosine", 1..=1, Body::Float(|row| inside(row, f64::is_finite, f64::cos, "COS takes finite numbers"))),
    Kernel::rows(
        "tangent",
        1..=1,
        Body::Float(|row| inside(row, f64::is_finite, f64::tan, "TAN takes finite numbers")),
    ),
    Kernel::rows(
        "cotangent",
        1..=1,
        Body::Float(|row| inside(row, |x| x != 0.0, |x| 1.0 / x.tan(), "COT is not defined at 0")),
    ),
    Kernel::rows("secant", 1..=1, Body::Float(|row| plain(row, |x| 1.0 / x.cos()))),
    Kernel::rows(
        "cosecant",
        1..=1,
        Body::Float(|row| inside(row, |x| x != 0.0, |x| 1.0 / x.sin(), "CSC is not defined at 0")),
    ),
    Kernel::rows(
        "arc_sine",
        1..=1,
        Body::Float(|row| inside(row, |x| x.abs() <= 1.0, f64::asin, "ASIN takes -1 to 1")),
    ),
    Kernel::rows(
        "arc_cosine",
        1..=1,
        Body::Float(|row| inside(row, |x| x.abs() <= 1.0, f64::acos, "ACOS takes -1 to 1")),
    ),
    Kernel::rows("arc_tangent", 1..=1, Body::Float(|row| plain(row, f64::atan))),
    Kernel::rows("arc_tangent_2", 2..=2, Body::Float(|row| Ok(Some(row.float(0).atan2(row.float(1)))))),
    Kernel::rows("hyperbolic_sine", 1..=1, Body::Float(|row| finite(row, row.float(0).sinh(), "SINH"))),
    Kernel::rows("hyperbolic_cosine", 1..=1, Body::Float(|row| finite(row, row.float(0).cosh(), "COSH"))),
    Kernel::rows("hyperbolic_tangent", 1..=1, Body::Float(|row| plain(row, f64::tanh))),
    Kernel::rows(
        "hyperbolic_cotangent",
        1..=1,
        Body::Float(|row| inside(row, |x| x != 0.0, |x| 1.0 / x.tanh(), "COTH is not defined at 0")),
    ),
    Kernel::rows("hyperbolic_secant", 1..=1, Body::Float(|row| plain(row, |x| 1.0 / x.cosh()))),
    Kernel::rows(
        "hyperbolic_cosecant",
        1..=1,
        Body::Float(|row| inside(row, |x| x != 0.0, |x| 1.0 / x.sinh(), "CSCH is not defined at 0")),
    ),
    Kernel::rows("area_sine", 1..=1, Body::Float(|row| plain(row, f64::asinh))),
    Kernel::rows(
        "area_cosine",
        1..=1,
        Body::Float(|row| inside(row, |x| x >= 1.0, f64::acosh, "ACOSH takes 1 and more")),
    ),
    Kernel::rows(
        "area_tangent",
        1..=1,
        Body::Float(|row| inside(row, |x| x.abs() < 1.0, f64::atanh, "ATANH takes numbers between -1 and 1")),
    ),
    Kernel::rows("is_infinite", 1..=1, Body::Bool(|row| Ok(Some(row.float(0).is_infinite())))),
    Kernel::rows(
        "bit_count",
        1..=1,
        Body::Int(|row| {
            let bits: u32 = match row.bytes(0) {
                [] => row.int(0).count_ones(),
                bytes => bytes.iter().map(|byte| byte.count_ones()).sum(),
            };
            Ok(Some(i64::from(bits)))
        }),
    ),
    Kernel::rows("bitwise_xor", 2..=2, Body::Int(|row| Ok(Some(row.int(0) ^ row.int(1))))),
    Kernel::rows("shift_left", 2..=2, Body::Int(|row| shifted(row, |bits, by| bits.checked_shl(by)))),
    Kernel::rows("shift_right", 2..=2, Body::Int(|row| shifted(row, |bits, by| bits.checked_shr(by)))),
    Kernel::rows("range_bucket", 2..=2, Body::Int(bucket)),
];

/// A logical shift: bits that are shifted out are lost, and zeros come in, also at the sign.
fn shifted(row: &Row, shift: fn(u64, u32) -> Option<u64>) -> RowResult<i64> {
    let by = row.int(1);
    if by < 0 {
        return Err(format!("bits cannot be shifted by {by}; a shift is 0 or more").into());
    }
    let bits = u32::try_from(by).ok().and_then(|by| shift(row.int(0).cast_unsigned(), by));
    Ok(Some(bits.unwrap_or_default().cast_signed()))
}

fn plain(row: &Row, f: fn(f64) -> f64) -> RowResult<f64> {
    Ok(Some(f(row.float(0))))
}

/// A function that is defined for some numbers; NaN stays NaN.
fn inside(row: &Row, defined: fn(f64) -> bool, f: fn(f64) -> f64, message: &str) -> RowResult<f64> {
    let x = row.float(0);
    if x.is_nan() {
        return Ok(Some(x));
    }
    if defined(x) { Ok(Some(f(x))) } else { Err(format!("{message}, not {x}").into()) }
}

/// A result that is beyond all numbers although the arguments are not.
fn finite(row: &Row, value: f64, name: &str) -> RowResult<f64> {
    if value.is_infinite() && row.float(0).is_finite() {
        return Err(format!("{name}({}) is beyond all FLOAT64", row.float(0)).into());
    }
    Ok(Some(value))
}

fn logarithm(row: &Row) -> RowResult<f64> {
    let x = row.float(0);
    if x <= 0.0 {
        return Err(format!("a logarithm takes numbers above 0, not {x}").into());
    }
    if row.count() < 2 {
        return Ok(Some(x.ln()));
    }
    let base = row.float(1);
    if base == f64::INFINITY {
        return Ok(Some(f64::NAN));
    }
    if base <= 0.0 || base == 1.0 {
        return Err(format!("a logarithm's base is above 0 and not 1; it cannot be {base}").into());
    }
    #[expect(clippy::float_cmp, reason = "the base is exactly this one")]
    let value = if base == 10.0 {
        x.log10()
    } else if base == 2.0 {
        x.log2()
    } else {
        x.ln() / base.ln()
    };
    Ok(Some(value))
}

fn power(row: &Row) -> RowResult<f64> {
    let (x, y) = (row.float(0), row.float(1));
    if x == 0.0 && y < 0.0 {
        return Err("0 cannot be raised to a negative power".into());
    }
    let value = x.powf(y);
    if value.is_nan() && !x.is_nan() && !y.is_nan() {
        return Err(format!("{x} cannot be raised to the power {y}").into());
    }
    finite(row, value, "POW")
}

/// Rounding to a number of places, which may be negative. Half goes away from zero.
fn scaled(row: &Row, f: fn(f64) -> f64) -> RowResult<f64> {
    let x = row.float(0);
    let places = if row.count() > 1 { row.int(1) } else { 0 };
    // From 2^52 on a FLOAT64 has no fraction.
    if !x.is_finite() || places > 308 || (places >= 0 && x.abs() >= 4_503_599_627_370_496.0) {
        return Ok(Some(x));
    }
    if places < -308 {
        return Ok(Some(0.0));
    }
    let scale = 10_f64.powi(i32::try_from(places.abs()).map_err(|_| RowError::from("too many places"))?);
    let value = if places < 0 { f(x / scale) * scale } else { f(x * scale) / scale };
    // A number so large that it has no digits at this place is round already.
    Ok(Some(if value.is_finite() { value } else { x }))
}

/// How many bounds are less than or equal to the point.
fn bucket(row: &Row) -> RowResult<i64> {
    Ok(row.rank(1, 0)?.map(|count| i64::try_from(count).unwrap_or(i64::MAX)))
}
