//! Kernels of conversions between decimals and other types.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::error::Result;

use super::arithmetic::{Rounding, in_steps};
use super::form::{BigNumeric, Fault, Form, Made, Native, Numeric, array_of, fitting, held, is_numeric};
use super::text::{Reading, read, text_of};
use super::wide::Wide;
use crate::arrays::{arity, shortened, texts};
use crate::context::value_error;
use crate::kernel::{Fallibility, Kernel};

const NUMERIC: DataType = DataType::Decimal128(38, 9);
const BIGNUMERIC: DataType = DataType::Decimal256(76, 38);

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::arrays("numeric_of_literal", 1, NUMERIC, |a, safe| of_text::<Numeric>(a, safe, Reading::Exact)),
    Kernel::arrays("numeric_of_text", 1, NUMERIC, |a, safe| of_text::<Numeric>(a, safe, Reading::Rounded)),
    Kernel::arrays("parse_numeric", 1, NUMERIC, |a, safe| of_text::<Numeric>(a, safe, Reading::Loose)),
    Kernel::arrays("numeric_of_float", 1, NUMERIC, of_float::<Numeric>),
    Kernel::arrays("numeric_of_bignumeric", 1, NUMERIC, narrowed),
    Kernel::arrays("bignumeric_of_literal", 1, BIGNUMERIC, |a, safe| of_text::<BigNumeric>(a, safe, Reading::Exact)),
    Kernel::arrays("bignumeric_of_text", 1, BIGNUMERIC, |a, safe| of_text::<BigNumeric>(a, safe, Reading::Rounded)),
    Kernel::arrays("parse_bignumeric", 1, BIGNUMERIC, |a, safe| of_text::<BigNumeric>(a, safe, Reading::Loose)),
    Kernel::arrays("bignumeric_of_float", 1, BIGNUMERIC, of_float::<BigNumeric>),
    Kernel::arrays("decimal_int64", 1, DataType::Int64, |arguments, safe| match is_numeric(arguments)? {
        true => whole::<Numeric>(arguments, safe),
        false => whole::<BigNumeric>(arguments, safe),
    }),
    Kernel::arrays("decimal_float64", 1, DataType::Float64, |arguments, _| match is_numeric(arguments)? {
        true => floats::<Numeric>(arguments),
        false => floats::<BigNumeric>(arguments),
    })
    .with_fallibility(Fallibility::Infallible),
    Kernel::arrays("decimal_text", 1, DataType::Utf8View, |arguments, _| {
        let Some(array) = arguments.first() else { return Err(arity()) };
        Ok(Arc::new(texts_of(array)?))
    })
    .with_fallibility(Fallibility::Infallible),
    Kernel::arrays("decimal_json", 1, DataType::Utf8View, |arguments, _| json(arguments))
        .with_fallibility(Fallibility::Infallible),
    Kernel::of_first("bignumeric_key", 2..=2, |arguments, _| movable(arguments)),
    Kernel::of_first("decimal_bounded", 3..=3, |arguments, safe| match is_numeric(arguments)? {
        true => bounded::<Numeric>(arguments, safe),
        false => bounded::<BigNumeric>(arguments, safe),
    }),
];

/// The texts of an array of decimals.
pub(crate) fn texts_of(array: &ArrayRef) -> Result<StringViewArray> {
    fn written<F: Form>(array: &ArrayRef) -> Result<StringViewArray> {
        let mut builder = StringViewBuilder::with_capacity(array.len());
        for value in held::<F>(std::slice::from_ref(array), 0)?.iter() {
            builder.append_option(value.map(text_of::<F>));
        }
        Ok(builder.finish())
    }
    match is_numeric(std::slice::from_ref(array))? {
        true => written::<Numeric>(array),
        false => written::<BigNumeric>(array),
    }
}

/// Decimals as JSON: numbers where a reader that takes them for FLOAT64 keeps all digits, else texts.
fn json(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(array) = arguments.first() else { return Err(arity()) };
    let mut builder = StringViewBuilder::with_capacity(array.len());
    for text in texts_of(array)?.iter() {
        // A float is written with the fewest digits that are read as it.
        let keeps = |text: &str| text.parse::<f64>().is_ok_and(|float| format!("{float}") == text);
        builder.append_option(text.map(|text| if keeps(text) { text.to_owned() } else { format!("\"{text}\"") }));
    }
    Ok(Arc::new(builder.finish()))
}

fn of_text<F: Form>(arguments: &[ArrayRef], safe: bool, reading: Reading) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let texts = texts(array)?;
    let values = texts.iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match read::<F>(text, reading) {
            None if !safe => {
                let (short, ty) = (shortened(text), F::TYPE);
                let instead = if reading == Reading::Loose { "SAFE. before the function" } else { "SAFE_CAST" };
                Err(value_error(format!("the text '{short}' cannot be read as {ty}; {instead} gives NULL instead")))
            }
            value => Ok(value),
        }
    });
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

fn of_float<F: Form>(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let floats = arguments.first().and_then(|array| array.as_primitive_opt::<Float64Type>()).ok_or_else(arity)?;
    let values = floats.iter().map(|value| match value.map(|value| (value, rounded::<F>(value))) {
        None => Ok(None),
        Some((_, Some(decimal))) => Ok(Some(decimal)),
        Some(_) if safe => Ok(None),
        Some((value, None)) => Err(value_error(format!("the number {value} does not fit {}", F::TYPE))),
    });
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

/// The nearest decimal of the exact value of a float.
fn rounded<F: Form>(value: f64) -> Option<Native<F>> {
    if !value.is_finite() {
        return None;
    }
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), i32::try_from(bits >> 52 & 0x7ff).ok()?);
    let (fraction, power) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    // 2^256 is beyond both types, and what is below 2^-200 is 0 to both.
    if power > 256 {
        return None;
    }
    let size = Wide::of(fraction.into()).times(&Wide::power_of_ten(F::SCALE));
    let size = match u32::try_from(power) {
        Ok(power) => size.shifted_left(power),
        Err(_) if power < -300 => Wide::ZERO,
        Err(_) => {
            let power = power.unsigned_abs();
            size.plus(&Wide::of(1).shifted_left(power - 1)).shifted_right(power)
        }
    };
    F::value(value.is_sign_negative(), size)
}

/// BIGNUMERIC as NUMERIC.
fn narrowed(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let narrow = |value| {
        let (negative, size) = BigNumeric::parts(value);
        fitting::<Numeric>(negative, size.over_rounded(&Wide::power_of_ten(29)))
    };
    let values = held::<BigNumeric>(arguments, 0)?.iter().map(|value| match value.map(narrow) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) if safe => Ok(None),
        Some(Err(fault)) => Err(fault.error::<Numeric>()),
    });
    Ok(array_of::<Numeric>(values.collect::<Result<Vec<_>>>()?))
}

/// BIGNUMERIC as keys of a frame of RANGE, which the engine moves by its distance; the second argument tells that it is so
/// large that none can be moved by it.
fn movable(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (keys, far) = (held::<BigNumeric>(arguments, 0)?, arguments.get(1).and_then(|far| far.as_boolean_opt()));
    let half = Wide::of(1).shifted_left(254);
    let is_far = far.is_some_and(|far| far.iter().any(|far| far == Some(true)));
    match keys.iter().flatten().any(|key| is_far || BigNumeric::parts(key).1 >= half) {
        true => Err(value_error(
            "a frame of RANGE with a distance takes BIGNUMERIC below 2.89e38; divide the key and the distance by 10",
        )),
        false => arguments.first().cloned().ok_or_else(arity),
    }
}

fn whole<F: Form>(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let values = held::<F>(arguments, 0)?.iter().map(|value| {
        let Some(value) = value else { return Ok(None) };
        match int64::<F>(value) {
            None if !safe => Err(value_error(format!("the number {} does not fit INT64", text_of::<F>(value)))),
            whole => Ok(whole),
        }
    });
    Ok(Arc::new(Int64Array::from(values.collect::<Result<Vec<_>>>()?)))
}

fn int64<F: Form>(value: Native<F>) -> Option<i64> {
    let (negative, size) = F::parts(value);
    let (low, high) = size.over_rounded(&Wide::power_of_ten(F::SCALE)).halves()?;
    let size = i128::try_from(low).ok().filter(|_| high == 0)?;
    i64::try_from(if negative { -size } else { size }).ok()
}

fn floats<F: Form>(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::new(held::<F>(arguments, 0)?.iter().map(|value| value.map(float::<F>)).collect::<Float64Array>()))
}

/// The nearest float.
#[expect(clippy::cast_precision_loss, reason = "it is the nearest float")]
pub(super) fn float<F: Form>(value: Native<F>) -> f64 {
    let (negative, size) = F::parts(value);
    let size = match size.halves() {
        // The quotient of two floats that are exact is the nearest to that of the numbers.
        Some((units @ 0..EXACT, 0)) if F::SCALE <= 22 => units as f64 / 10_f64.powi(F::SCALE.cast_signed()),
        _ => ratio(&size, &Wide::power_of_ten(F::SCALE)),
    };
    if negative { -size } else { size }
}

/// What is below is a float, exactly.
const EXACT: u128 = 1 << 53;

/// The float nearest to a quotient of no more than 2^1000 and no less than 2^-1000, or 0.
#[expect(clippy::cast_precision_loss, reason = "it is the nearest float")]
fn ratio(size: &Wide, by: &Wide) -> f64 {
    // A quotient of 63 or 64 bits, of which the last stands for all that follow.
    let power = i64::from(size.bits()) - i64::from(by.bits()) - 63;
    let shift = u32::try_from(power.unsigned_abs()).unwrap_or_default();
    let (quotient, rest) = match power < 0 {
        true => size.shifted_left(shift).over(by),
        false => size.over(&by.shifted_left(shift)),
    };
    let bits = quotient.halves().map_or(0, |(low, _)| low) | u128::from(!rest.is_zero());
    bits as f64 * f64::from_bits(u64::try_from(1023 + power).unwrap_or_default() << 52)
}

/// A number of no more digits than the parameters of its type allow, rounded to their scale.
fn bounded<F: Form>(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let number = |i: usize| arguments.get(i).and_then(|array| array.as_primitive_opt::<Int64Type>()).ok_or_else(arity);
    let bounds = number(1)?.iter().zip(number(2)?);
    let values = held::<F>(arguments, 0)?.iter().zip(bounds).map(|row| {
        let (Some(value), (Some(digits), Some(scale))) = row else { return Ok(None) };
        match within::<F>(value, digits, scale) {
            Ok(value) => Ok(Some(value)),
            Err(_) if safe => Ok(None),
            Err(fault) => Err(fault.error::<F>()),
        }
    });
    Ok(array_of::<F>(values.collect::<Result<Vec<_>>>()?))
}

fn within<F: Form>(value: Native<F>, digits: i64, scale: i64) -> Made<Native<F>> {
    let rounded = in_steps::<F>(value, scale, Rounding::HalfAway)?;
    let whole = u32::try_from(digits - scale).unwrap_or_default().min(80);
    match F::parts(rounded).1 < Wide::power_of_ten(whole + F::SCALE) {
        true => Ok(rounded),
        false => Err(Fault::Other(format!(
            "{}({digits}, {scale}) has no value {}; SAFE_CAST gives NULL instead",
            F::TYPE,
            text_of::<F>(value)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use arrow_buffer::i256;

    use super::*;

    /// A float is the nearest one, as a text is read.
    #[test]
    fn floats_are_those_of_the_texts() {
        fn check<F: Form>(value: Native<F>) {
            let text = text_of::<F>(value);
            assert_eq!(Ok(float::<F>(value).to_bits()), text.parse::<f64>().map(f64::to_bits), "{text}");
        }
        let mut seed = 1_u128;
        for n in 0..20_000_u32 {
            seed = seed.wrapping_mul(0xda94_2042_e4dd_58b5_0123_4567_89ab_cdef).wrapping_add(0x9e37_79b9_7f4a_7c15);
            let small = (seed >> (n % 127)).cast_signed();
            // Of some bits with zeros behind them: what lies halfway between two floats among them.
            let half = ((1_i128 << 53) + 1 + 2 * i128::from(n)) << (n % 60);
            for value in [small, -small, half, half + 1, half - 1, half * i128::from(n % 10)] {
                check::<Numeric>(value % 10_i128.pow(38));
                check::<BigNumeric>(i256::from_parts(
                    value.cast_unsigned(),
                    if n % 3 == 0 { small } else { value >> 127 },
                ));
            }
        }
        for value in [i256::MIN, i256::MAX, i256::ZERO, i256::MINUS_ONE] {
            check::<BigNumeric>(value);
        }
    }
}
