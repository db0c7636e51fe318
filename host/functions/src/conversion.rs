//! Kernels of conversions between types, where the dialect differs from the engine's casts.

use std::fmt::Write;
use std::sync::Arc;

use chrono::{NaiveTime, Timelike};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringViewBuilder, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::error::Result;
use tidegate_model::{MOMENTS, parse_timestamp};

use crate::arrays::{arity, shortened, texts};
use crate::context::value_error;
use crate::kernel::Kernel;
use crate::time::with_name;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::arrays("parse_int64", 1, DataType::Int64, parse_int64),
    Kernel::arrays("parse_float64", 1, DataType::Float64, parse_float64),
    Kernel::arrays("parse_bool", 1, DataType::Boolean, parse_bool),
    Kernel::arrays("parse_timestamp", 1, TIMESTAMP, parse_instant),
    Kernel::arrays("parse_datetime", 1, TIMESTAMP, parse_datetime),
    Kernel::arrays("parse_time", 1, DataType::Time64(TimeUnit::Microsecond), parse_time),
    Kernel::arrays("round_int64", 1, DataType::Int64, round_int64),
    Kernel::arrays("float_text", 1, DataType::Utf8View, float_text),
    Kernel::arrays("timestamp_text", 1, DataType::Utf8View, timestamp_text),
    Kernel::arrays("datetime_text", 1, DataType::Utf8View, datetime_text),
];

/// Applies a function to each text; `None` from it is a failure, or NULL where safe.
fn each<T>(array: &ArrayRef, safe: bool, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<Option<T>>> {
    let texts = texts(array)?;
    texts
        .iter()
        .map(|text| match text {
            None => Ok(None),
            Some(text) => match read(text) {
                Some(value) => Ok(Some(value)),
                None if safe => Ok(None),
                None => {
                    let short = shortened(text);
                    Err(value_error(format!(
                        "the text '{short}' cannot be read as {what}; SAFE_CAST gives NULL instead"
                    )))
                }
            },
        })
        .collect()
}

fn parse_int64(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    Ok(Arc::new(Int64Array::from(each(array, safe, "INT64", read_int64)?)))
}

fn read_int64(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        if !hex.starts_with(|c: char| c.is_ascii_hexdigit()) {
            return None;
        }
        let value = i128::from_str_radix(hex, 16).ok()?;
        return i64::try_from(if negative { -value } else { value }).ok();
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn parse_float64(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    Ok(Arc::new(Float64Array::from(each(array, safe, "FLOAT64", |text| text.trim().parse::<f64>().ok())?)))
}

fn parse_bool(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let read = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Ok(Arc::new(BooleanArray::from(each(array, safe, "BOOL", read)?)))
}

fn parse_instant(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    Ok(Arc::new(TimestampMicrosecondArray::from(each(array, safe, "TIMESTAMP", read_instant)?)))
}

fn parse_datetime(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    Ok(Arc::new(TimestampMicrosecondArray::from(each(array, safe, "TIMESTAMP", read_datetime)?)))
}

/// Second 60 is the first one of the next minute; of a DATETIME, as of a TIME, it has no fraction.
pub(crate) fn read_datetime(text: &str) -> Option<i64> {
    let micros = read_instant(text)?;
    Some(if text.contains(":60.") { micros - micros.rem_euclid(1_000_000) } else { micros })
}

/// Also with the name of a time zone behind the time, which may move it out of the years 1 to 9999.
pub(crate) fn read_instant(text: &str) -> Option<i64> {
    let small = || parse_timestamp(&text.replacen('t', "T", 1));
    let micros = parse_timestamp(text).or_else(|| with_name(text)).or_else(small)?;
    Some(micros).filter(|micros| MOMENTS.contains(micros))
}

fn parse_time(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let read = |text: &str| {
        let time = NaiveTime::parse_from_str(text.trim(), "%H:%M:%S%.f").ok()?;
        // Second 60 is the first one of the next minute, without a fraction.
        let micros = i64::from(time.nanosecond() / 1_000).min(1_000_000);
        Some((i64::from(time.num_seconds_from_midnight()) * 1_000_000 + micros) % 86_400_000_000)
    };
    Ok(Arc::new(Time64MicrosecondArray::from(each(array, safe, "TIME", read)?)))
}

/// 2^63, the first float that INT64 does not hold.
const BEYOND_INT64: f64 = 9_223_372_036_854_775_808.0;

/// BigQuery rounds half away from zero.
fn round_int64(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let floats = array.as_primitive::<Float64Type>();
    let values = floats
        .iter()
        .map(|value| match value {
            None => Ok(None),
            Some(value) => {
                let rounded = value.round();
                #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
                if (-BEYOND_INT64..BEYOND_INT64).contains(&rounded) {
                    Ok(Some(rounded as i64))
                } else if safe {
                    Ok(None)
                } else {
                    Err(value_error(format!("the number {value} does not fit INT64")))
                }
            }
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Int64Array::from(values)))
}

fn float_text(arguments: &[ArrayRef], _safe: bool) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let mut builder = StringViewBuilder::new();
    for value in array.as_primitive::<Float64Type>() {
        builder.append_option(value.map(text_of_float));
    }
    Ok(Arc::new(builder.finish()))
}

/// The shortest text that reads back the same, without a trailing `.0`. Its form is that of C's `%.15g`, or of `%.17g`
/// where 15 digits do not suffice, because that is what BigQuery writes; 0 and NaN have no sign.
pub(crate) fn text_of_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:e}");
    let Some((mantissa, power)) = text.split_once('e') else { return text };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let power: i32 = power.parse().unwrap_or_default();
    if (-4..if digits > 15 { 17 } else { 15 }).contains(&power) {
        return format!("{value}");
    }
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

fn timestamp_text(arguments: &[ArrayRef], _safe: bool) -> Result<ArrayRef> {
    instant_text(arguments, "+00")
}

fn datetime_text(arguments: &[ArrayRef], _safe: bool) -> Result<ArrayRef> {
    instant_text(arguments, "")
}

fn instant_text(arguments: &[ArrayRef], suffix: &str) -> Result<ArrayRef> {
    let [array] = arguments else { return Err(arity()) };
    let mut builder = StringViewBuilder::new();
    for micros in array.as_primitive::<TimestampMicrosecondType>() {
        let mut text = String::new();
        let written = micros.and_then(|micros| write_moment(micros, false, suffix, &mut text).ok());
        builder.append_option(written.map(|()| text));
    }
    Ok(Arc::new(builder.finish()))
}

/// Writes a time as CAST does, or only its date.
pub(crate) fn write_moment(micros: i64, is_date: bool, suffix: &str, out: &mut impl Write) -> std::fmt::Result {
    let moment = chrono::DateTime::from_timestamp_micros(micros).ok_or(std::fmt::Error)?;
    let format = match moment.timestamp_subsec_micros() {
        _ if is_date => "%Y-%m-%d",
        0 => "%Y-%m-%d %H:%M:%S",
        fraction if fraction % 1000 == 0 => "%Y-%m-%d %H:%M:%S%.3f",
        _ => "%Y-%m-%d %H:%M:%S%.6f",
    };
    write!(out, "{}{suffix}", moment.format(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_exponents_where_bigquery_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (0.0001, "0.0001"),
            (0.000_12, "0.00012"),
            (0.000_01, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1_234_567_890_123_456.0, "1234567890123456"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e20, "1e+20"),
            (-1.5e300, "-1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text_of_float(value), text);
            assert!(value.is_nan() || text.parse() == Ok(value), "{text}");
        }
    }

    #[test]
    fn instants_lie_within_the_years_1_to_9999_after_their_zone() {
        for (text, read) in [
            ("9999-12-31 12:00:00 UTC", true),
            ("9999-12-31 23:00:00-14:00", false),
            ("9999-12-31 23:00:00 America/New_York", false),
            ("0001-01-01 00:00:00 Asia/Tokyo", false),
            ("0001-01-01+1:00", false),
        ] {
            assert_eq!(read_instant(text).is_some(), read, "{text}");
        }
    }
}
