//! Kernels of INTERVALs: months, days and nanoseconds, each with a sign of its own.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::ColumnarValue;

use super::calendar::DAY;
use crate::arrays::shortened;
use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowResult, compute};
use crate::wording::DIVISION_BY_ZERO;

const NANO: i64 = 1_000_000_000;
pub(super) const TOO_LARGE: &str = "the INTERVAL is too large";

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("interval_of", 4..=4, Body::Interval(|row| scaled((row.int(1), row.int(2), row.int(3)), row.int(0)))),
    Kernel::rows("interval_times", 2..=2, Body::Interval(|row| scaled(row.interval(0), row.int(1)))),
    Kernel::rows(
        "parse_interval",
        1..=1,
        Body::Interval(|row| match read_interval(row.text(0)) {
            Some(parts) => Ok(Some(parts)),
            None => {
                let short = shortened(row.text(0));
                Err(format!("the text '{short}' cannot be read as INTERVAL; write e.g. '1-2 3 4:5:6'").into())
            }
        }),
    ),
    Kernel::rows(
        "interval_over",
        2..=2,
        Body::Interval(|row| {
            if row.int(1) == 0 {
                return Err(DIVISION_BY_ZERO.into());
            }
            let (months, days, nanos) = row.interval(0);
            let (months, days, nanos) = divided((months.into(), days.into(), nanos.into()), row.int(1).into());
            let part = |part: i128| i64::try_from(part).map_err(|_| TOO_LARGE);
            Ok(Some((part(months)?, part(days)?, part(nanos)?)))
        }),
    ),
    Kernel::rows(
        "make_interval",
        6..=6,
        Body::Interval(|row| {
            let of = |i: usize, unit: i64| row.int(i).checked_mul(unit).ok_or(TOO_LARGE);
            let months = of(0, 12)?.checked_add(row.int(1)).ok_or(TOO_LARGE)?;
            let nanos = [of(3, 3_600)?, of(4, 60)?, row.int(5)].into_iter().try_fold(0_i64, i64::checked_add);
            let nanos = nanos.and_then(|seconds| seconds.checked_mul(NANO)).ok_or(TOO_LARGE)?;
            if months.saturating_abs() > 120_000 || row.int(2).saturating_abs() > 3_660_000 {
                return Err(TOO_LARGE.into());
            }
            Ok(Some((months, row.int(2), nanos)))
        }),
    ),
    Kernel::rows(
        "justify_hours",
        1..=1,
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            Ok(Some(justified_hours(months, days, nanos)))
        }),
    ),
    Kernel::rows(
        "justify_days",
        1..=1,
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            Ok(Some(justified_days(months, days, nanos)))
        }),
    ),
    Kernel::rows(
        "justify_interval",
        1..=1,
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            Ok(Some(justified(months, days, nanos)))
        }),
    ),
    // The form of all INTERVALs of one length.
    Kernel::rows(
        "interval_key",
        1..=1,
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            let day = 86_400 * i128::from(NANO);
            let length = (i128::from(months) * 30 + i128::from(days)) * day + i128::from(nanos);
            let part = |part: i128| i64::try_from(part).map_err(|_| TOO_LARGE);
            Ok(Some((part(length / (30 * day))?, part(length / day % 30)?, part(length % day)?)))
        }),
    ),
    Kernel::rows(
        "interval_length",
        1..=1,
        Body::Int(|row| {
            let (months, days, nanos) = row.interval(0);
            // Intervals within BigQuery's range do not reach the limit.
            let days = (months * 30 + days).saturating_mul(DAY);
            Ok(Some(days.saturating_add(nanos.div_euclid(1_000))))
        }),
    ),
    Kernel::rows("interval_text", 1..=1, Body::Text(interval_text)),
    Kernel::rows(
        "interval_part",
        2..=2,
        Body::Int(|row| {
            let (months, days, nanos) = row.interval(1);
            Ok(Some(match row.text(0) {
                "YEAR" => months / 12,
                "MONTH" => months % 12,
                "DAY" => days,
                "HOUR" => nanos / (3_600 * NANO),
                "MINUTE" => nanos / (60 * NANO) % 60,
                "SECOND" => nanos / NANO % 60,
                "MILLISECOND" => nanos / 1_000_000 % 1_000,
                "MICROSECOND" => nanos / 1_000 % 1_000_000,
                other => return Err(format!("an INTERVAL has no part {other}").into()),
            }))
        }),
    ),
];

fn scaled(unit: (i64, i64, i64), count: i64) -> RowResult<(i64, i64, i64)> {
    let times = |part: i64| part.checked_mul(count).ok_or(TOO_LARGE);
    Ok(Some((times(unit.0)?, times(unit.1)?, times(unit.2)?)))
}

/// An interval divided by a number: the remainder of the months is added to the days, that of the days to the
/// nanoseconds. The result is in whole microseconds.
pub(crate) fn divided((months, days, nanos): (i128, i128, i128), by: i128) -> (i128, i128, i128) {
    let days = days.saturating_add(30 * (months % by));
    let nanos = nanos.saturating_add(86_400 * i128::from(NANO) * (days % by));
    (months / by, days / by, nanos / by / 1_000 * 1_000)
}

fn justified_hours(months: i64, days: i64, nanos: i64) -> (i64, i64, i64) {
    let day = 86_400 * NANO;
    let (mut days, mut nanos) = (days + nanos / day, nanos % day);
    if days > 0 && nanos < 0 {
        (days, nanos) = (days - 1, nanos + day);
    } else if days < 0 && nanos > 0 {
        (days, nanos) = (days + 1, nanos - day);
    }
    (months, days, nanos)
}

fn justified_days(months: i64, days: i64, nanos: i64) -> (i64, i64, i64) {
    let (mut months, mut days) = (months + days / 30, days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    (months, days, nanos)
}

/// All parts with one sign.
fn justified(months: i64, days: i64, nanos: i64) -> (i64, i64, i64) {
    let day = 86_400 * NANO;
    let (days, nanos) = (days + nanos / day, nanos % day);
    let (mut months, mut days) = (months + days / 30, days % 30);
    // Days of no number have the sign of what is left.
    let rest = if days == 0 { nanos } else { days };
    if months > 0 && rest < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && rest > 0 {
        (months, days) = (months + 1, days - 30);
    }
    justified_hours(months, days, nanos)
}

/// `[-]years-months [-]days [-]hours:minutes:seconds[.fraction]`.
fn interval_text(row: &Row, out: &mut Out) -> RowResult<()> {
    let (months, days, nanos) = row.interval(0);
    let sign = |n: i64| if n < 0 { "-" } else { "" };
    let (m, size) = (months.unsigned_abs(), nanos.unsigned_abs());
    write!(out, "{}{}-{} {days} ", sign(months), m / 12, m % 12)?;
    let seconds = size / NANO.unsigned_abs();
    write!(out, "{}{}:{}:{}", sign(nanos), seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    let fraction = format!("{:09}", size % NANO.unsigned_abs());
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let digits = fraction.len().div_ceil(3) * 3;
        write!(out, ".{fraction:0<digits$}")?;
    }
    Ok(Some(()))
}

/// Intervals as results show them.
pub fn interval_texts(array: &ArrayRef) -> EngineResult<StringViewArray> {
    let arguments = [ColumnarValue::Array(Arc::clone(array))];
    let (texts, _) = compute(Body::Text(interval_text), false, true, &arguments, array.len())?;
    Ok(texts.as_string_view().clone())
}

/// An INTERVAL as CAST reads it: `'1-2 3 4:5:6.5'` or groups of it that lie beside each other and cannot be mistaken, and
/// the durations of ISO 8601.
fn read_interval(text: &str) -> Option<(i64, i64, i64)> {
    if let Some(duration) = text.strip_prefix('P') {
        return duration_of(duration);
    }
    let colons = text.matches(':').count();
    let words: Vec<&str> = text.split(' ').collect();
    let is_months = words.first()?.trim_start_matches(['-', '+']).contains('-');
    let (from, to) = match (is_months, words.len(), colons) {
        (true, 1, 0) => ("YEAR", "MONTH"),
        (true, 2, 0) => ("YEAR", "DAY"),
        (true, 3, 0) => ("YEAR", "HOUR"),
        (true, 3, 1) => ("YEAR", "MINUTE"),
        (true, 3, 2) => ("YEAR", "SECOND"),
        (false, 2, 1) => ("DAY", "MINUTE"),
        (false, 2, 2) => ("DAY", "SECOND"),
        (false, 1, 2) => ("HOUR", "SECOND"),
        _ => return None,
    };
    interval_range(text, from, to)
}

/// A duration of ISO 8601 without its `P`: `1Y2M3DT4H5M6.5S`. Each number has a sign of its own.
fn duration_of(text: &str) -> Option<(i64, i64, i64)> {
    let (mut parts, mut rest, mut of_day) = ((0_i64, 0_i64, 0_i64), text, false);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T').filter(|_| !of_day) {
            (rest, of_day) = (time, true);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = (rest.get(..end)?, rest.get(end..end + 1)?);
        rest = rest.get(end + 1..)?;
        let (sign, size) = match number.strip_prefix('-') {
            Some(size) => (-1, size),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = size.split_once('.').unwrap_or((size, ""));
        let is_second = unit == "S" && of_day;
        if !digits(whole) || size.contains('.') && !(is_second && digits(fraction) && fraction.len() <= 9) {
            return None;
        }
        let whole = sign * whole.parse::<i64>().ok()?;
        let (part, unit) = match (unit, of_day) {
            ("Y", false) => (&mut parts.0, 12),
            ("M", false) => (&mut parts.0, 1),
            ("W", false) => (&mut parts.1, 7),
            ("D", false) => (&mut parts.1, 1),
            ("H", true) => (&mut parts.2, 3_600 * NANO),
            ("M", true) => (&mut parts.2, 60 * NANO),
            ("S", true) => (&mut parts.2, NANO),
            _ => return None,
        };
        *part = part.checked_add(whole.checked_mul(unit)?)?;
        if is_second {
            parts.2 = parts.2.checked_add(sign * format!("{fraction:0<9}").parse::<i64>().ok()?)?;
        }
    }
    Some(parts)
}

/// The text of an INTERVAL from one part to another: `'1-2' YEAR TO MONTH`, `'1 2:3:4.5' DAY TO
/// SECOND`. Years and months, days, and the time of day each have a sign of their own.
pub fn interval_range(text: &str, from: &str, to: &str) -> Option<(i64, i64, i64)> {
    const PARTS: [&str; 6] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"];
    /// Months, days or nanoseconds of each.
    const UNITS: [i64; 6] = [12, 1, 1, 3_600_000_000_000, 60_000_000_000, 1_000_000_000];
    let place = |name: &str| PARTS.iter().position(|part| part.eq_ignore_ascii_case(name));
    let (from, to) = (place(from)?, place(to)?);
    let mut words = text.split_whitespace();
    let mut group = |first: usize, last: usize, between: char| -> Option<i64> {
        let (first, last) = (from.max(first), to.min(last));
        if first > last {
            return Some(0);
        }
        let word = words.next()?;
        let (sign, word) = match word.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, word.strip_prefix('+').unwrap_or(word)),
        };
        let mut numbers = word.split(between);
        let mut sum = 0_i64;
        for unit in UNITS.get(first..=last)? {
            let number = numbers.next()?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let seconds = *unit == 1_000_000_000;
            if !digits(whole) || number.contains('.') && !(seconds && digits(fraction) && fraction.len() <= 9) {
                return None;
            }
            let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
            sum = sum.checked_add(whole.parse::<i64>().ok()?.checked_mul(*unit)?)?.checked_add(nanos)?;
        }
        numbers.next().is_none().then_some(sign * sum)
    };
    let parts = (group(0, 1, '-')?, group(2, 2, ' ')?, group(3, 5, ':')?);
    words.next().is_none().then_some(parts)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
