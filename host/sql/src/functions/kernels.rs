//! The kernels: conversions and operators in which BigQuery differs from the engine.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Datum, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::arrow::error::ArrowError;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use tidegate_model::parse_timestamp;

use super::rows::Body;
use super::udf::{Compute, Kernel, RowKernel};
use crate::fail::value_error;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::folded;

/// A kernel that computes a row at a time.
#[derive(Debug)]
pub(super) struct Entry {
    name: &'static str,
    body: Body,
    nulls: bool,
}

impl Entry {
    /// A NULL argument makes a NULL.
    pub(super) const fn new(name: &'static str, body: Body) -> Self {
        Self { name, body, nulls: false }
    }

    /// The kernel looks at NULLs itself.
    pub(super) const fn with_nulls(name: &'static str, body: Body) -> Self {
        Self { name, body, nulls: true }
    }
}

/// The kernels of all subjects.
fn entries() -> impl Iterator<Item = &'static Entry> {
    [
        super::text::like::KERNELS,
        super::text::pieces::KERNELS,
        super::text::regexps::KERNELS,
        super::text::codes::KERNELS,
        super::text::printf::KERNELS,
        super::bytes::KERNELS,
        super::net::KERNELS,
        super::json::KERNELS,
        super::json::change::KERNELS,
        super::number::KERNELS,
        super::array::KERNELS,
        super::log::KERNELS,
        super::time::KERNELS,
    ]
    .into_iter()
    .flatten()
}

/// Name, number of arguments, result, computation.
type Batched = (&'static str, usize, DataType, Compute);

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

const BATCHED: &[Batched] = &[
    ("parse_int64", 1, DataType::Int64, parse_int64),
    ("parse_float64", 1, DataType::Float64, parse_float64),
    ("parse_bool", 1, DataType::Boolean, parse_bool),
    ("parse_timestamp", 1, TIMESTAMP, parse_instant),
    ("parse_time", 1, DataType::Time64(TimeUnit::Microsecond), parse_time),
    ("round_int64", 1, DataType::Int64, round_int64),
    ("float_text", 1, DataType::Utf8View, float_text),
    ("timestamp_text", 1, DataType::Utf8View, timestamp_text),
    ("datetime_text", 1, DataType::Utf8View, datetime_text),
    ("divide", 2, DataType::Float64, divide),
    ("integer_divide", 2, DataType::Int64, integer_divide),
    ("modulo", 2, DataType::Int64, modulo),
    ("float_above", 2, DataType::Boolean, |a, _| float_order(a, |left, right| left > right)),
    ("float_not_below", 2, DataType::Boolean, |a, _| float_order(a, |left, right| left >= right)),
    ("add_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::add)),
    ("subtract_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::sub)),
    ("multiply_float64", 2, DataType::Float64, |a, safe| fraction(a, safe, numeric::mul)),
    ("add_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::add, i64::checked_add)),
    ("subtract_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::sub, i64::checked_sub)),
    ("multiply_int64", 2, DataType::Int64, |a, safe| whole(a, safe, numeric::mul, i64::checked_mul)),
];

/// A kernel: the strict form, the safe one, and both again as never computed early.
struct Forms {
    strict: Arc<ScalarUDF>,
    safe: Arc<ScalarUDF>,
    late: Option<[Arc<ScalarUDF>; 2]>,
}

static KERNELS: LazyLock<HashMap<&'static str, Forms>> = LazyLock::new(|| {
    let batched = BATCHED.iter().map(|(name, arguments, returns, compute)| {
        let make = |safe| Arc::new(ScalarUDF::from(Kernel::new(name, safe, *arguments, returns.clone(), *compute)));
        (*name, Forms { strict: make(false), safe: make(true), late: None })
    });
    let by_row = entries().map(|entry| {
        let make = |safe, volatile| {
            Arc::new(ScalarUDF::from(RowKernel::new(entry.name, safe, entry.nulls, entry.body, volatile)))
        };
        let late = entry.body.makes_much().then(|| [make(false, true), make(true, true)]);
        (entry.name, Forms { strict: make(false, false), safe: make(true, false), late })
    });
    batched.chain(by_row).collect()
});

/// A call of a kernel. A safe one gives NULL where the other fails.
pub(crate) fn kernel(name: &'static str, safe: bool, arguments: Vec<Expr>) -> Expr {
    let Some(forms) = KERNELS.get(name) else {
        // Names are ours: a missing one is a bug that every test of its function meets.
        return Expr::Literal(datafusion::scalar::ScalarValue::Null, None);
    };
    // A constant that is too long to fold would be folded by the engine all the same, and kept in the plan
    // or copied into each row: it is left for when the statement runs.
    if let Some([strict, lenient]) = &forms.late
        && arguments.iter().all(|argument| !argument.any_column_refs())
    {
        let early = if safe { &forms.safe } else { &forms.strict }.call(arguments.clone());
        let value = folded(Typed::new(early, Type::Null)).expr;
        return match value {
            Expr::Literal(..) => value,
            _ => if safe { lenient } else { strict }.call(arguments),
        };
    }
    if safe { &forms.safe } else { &forms.strict }.call(arguments)
}

/// Any string array as a view array, without copying text.
pub(super) fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

/// The beginning of a text, for a message. An address is not cut in two: what masks personal data in the
/// message would not know its first half.
pub(in crate::functions) fn shortened(text: &str) -> &str {
    const LONGEST: usize = 60;
    if text.len() <= LONGEST {
        return text;
    }
    let short = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
    short.trim_end_matches(|c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '%'))
}

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

/// Also with the name of a time zone behind the time.
fn read_instant(text: &str) -> Option<i64> {
    parse_timestamp(text).or_else(|| super::time::zone::with_name(text))
}

fn parse_time(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    use chrono::{NaiveTime, Timelike};
    let [array] = arguments else { return Err(arity()) };
    let read = |text: &str| {
        let time = NaiveTime::parse_from_str(text.trim(), "%H:%M:%S%.f").ok()?;
        Some(i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1_000))
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
        builder.append_option(value.map(|value| {
            if value.is_nan() {
                "NaN".to_owned()
            } else if value.is_infinite() {
                if value > 0.0 { "inf" } else { "-inf" }.to_owned()
            } else {
                // Shortest text that reads back the same, without exponent or trailing `.0`.
                format!("{value}")
            }
        }));
    }
    Ok(Arc::new(builder.finish()))
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
        let text = micros.and_then(chrono::DateTime::from_timestamp_micros).map(|instant| {
            let fraction = instant.timestamp_subsec_micros();
            let format = match fraction {
                0 => "%Y-%m-%d %H:%M:%S",
                f if f % 1000 == 0 => "%Y-%m-%d %H:%M:%S%.3f",
                _ => "%Y-%m-%d %H:%M:%S%.6f",
            };
            format!("{}{suffix}", instant.format(format))
        });
        builder.append_option(text);
    }
    Ok(Arc::new(builder.finish()))
}

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
    // The rest of the smallest INT64 by -1 is 0, although the division overflows.
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

/// A comparison that is false of NaN.
fn float_order(arguments: &[ArrayRef], holds: fn(f64, f64) -> bool) -> Result<ArrayRef> {
    let [left, right] = arguments else { return Err(arity()) };
    let pairs = left.as_primitive::<Float64Type>().iter().zip(right.as_primitive::<Float64Type>());
    let values = pairs.map(|(left, right)| left.zip(right).map(|(left, right)| holds(left, right)));
    Ok(Arc::new(values.collect::<BooleanArray>()))
}

/// Arithmetic of FLOAT64, whose result is beyond all numbers only where an argument is.
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

fn float_overflow() -> datafusion::error::DataFusionError {
    value_error("a FLOAT64 overflowed; SAFE_MULTIPLY and its kin give NULL instead")
}

fn overflow() -> datafusion::error::DataFusionError {
    value_error(
        "an integer overflowed 64 bits; SAFE_ADD and its kin give NULL instead, CAST(x AS FLOAT64) a rough number",
    )
}

fn division_by_zero() -> datafusion::error::DataFusionError {
    value_error("division by zero; SAFE_DIVIDE gives NULL instead")
}

/// The resolver gives every kernel the arguments it takes.
pub(super) fn arity() -> datafusion::error::DataFusionError {
    value_error("a function got a wrong number of arguments")
}
