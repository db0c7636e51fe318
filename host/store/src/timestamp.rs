//! Reading the many spellings of an event's time as microseconds since 1970, UTC.
//!
//! Shippers send ISO text with and without zone, with a blank for the `T`, dates alone, and
//! integers of four units. Integers are told apart by magnitude: the bands below put every
//! instant from 1973 to the year 5138 into the right unit, and what falls between them has one
//! reading only.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use serde_json::Value;

/// 1e11 seconds is the year 5138; 1e11 milliseconds is 1973. The same gap repeats for each unit.
const SECONDS_BELOW: u64 = 100_000_000_000;
const MILLIS_BELOW: u64 = 100_000_000_000_000;
const MICROS_BELOW: u64 = 100_000_000_000_000_000;

/// The instant of an event's `timestamp` in microseconds, or nothing when the value is not a readable
/// time: such an event is stored at the time when it came.
pub fn micros(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(int) => from_int(int),
            None => number.as_f64().and_then(from_float),
        },
        Value::String(text) => from_text(text.trim()),
        _ => None,
    }
}

/// 2001-09-09 in seconds: smaller numbers in a field called `date` are rather days, such as 20251120.
const DATES_FROM: f64 = 1e9;

/// The instant in a field `date`, as shippers write it. A `date` may also be the business of the
/// event, so a day alone and small numbers are no times.
pub(crate) fn of_date(value: &Value) -> Option<i64> {
    let is_moment = match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= DATES_FROM),
        Value::String(text) => text.contains(':'),
        _ => false,
    };
    if is_moment { micros(value) } else { None }
}

fn from_int(int: i64) -> Option<i64> {
    match int.unsigned_abs() {
        ..SECONDS_BELOW => int.checked_mul(1_000_000),
        SECONDS_BELOW..MILLIS_BELOW => int.checked_mul(1_000),
        MILLIS_BELOW..MICROS_BELOW => Some(int),
        // Cut towards the past, so that an instant never lands after itself.
        _ => Some(int.div_euclid(1_000)),
    }
}

/// Floats count when they are whole, or seconds with a fraction (as many loggers write them).
fn from_float(float: f64) -> Option<i64> {
    if !float.is_finite() {
        return None;
    }
    if float.fract() == 0.0 && float.abs() < 9.0e18 {
        return from_int(float as i64);
    }
    let micros = (float * 1e6).floor();
    (float.abs() < SECONDS_BELOW as f64).then_some(micros as i64)
}

fn from_text(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().and_then(from_int);
    }
    if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
        return Some(zoned.timestamp_micros());
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(plain) = NaiveDateTime::parse_from_str(text, format) {
            return Some(plain.and_utc().timestamp_micros());
        }
    }
    // Offsets that RFC 3339 does not know: no colon, hours only, a blank before it, a zone name.
    let utc = text.strip_suffix(" UTC").or_else(|| text.strip_suffix(" GMT"));
    if let Some(plain) = utc.or_else(|| text.strip_suffix('Z')) {
        return from_text(plain.trim_end());
    }
    for format in
        ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f %#z", "%Y-%m-%dT%H:%M%#z"]
    {
        if let Ok(zoned) = DateTime::parse_from_str(text, format) {
            return Some(zoned.timestamp_micros());
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2025-11-20T10:15:02.123456Z
    const AT: i64 = 1_763_633_702_123_456;
    const WHOLE: i64 = 1_763_633_702_000_000;

    #[test]
    fn texts() {
        for (text, expected) in [
            ("2025-11-20T10:15:02Z", WHOLE),
            ("2025-11-20T10:15:02.123456Z", AT),
            ("2025-11-20T10:15:02.123456999Z", AT),
            ("2025-11-20T12:15:02.123456+02:00", AT),
            ("2025-11-20T12:15:02.123456+0200", AT),
            ("2025-11-20 12:15:02.123456+02", AT),
            ("2025-11-20T10:15:02.123456", AT),
            ("2025-11-20 10:15:02.123456", AT),
            ("2025-11-20 10:15:02", WHOLE),
            ("2025-11-20 10:15:02 UTC", WHOLE),
            ("2025-11-20 10:15:02.123456 UTC", AT),
            ("2025-11-20", 1_763_596_800_000_000),
            ("1763633702", WHOLE),
            ("1763633702123456789", AT),
            ("1969-12-31T23:59:59.999999999Z", -1),
        ] {
            assert_eq!(micros(&json!(text)), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_by_magnitude() {
        for value in [json!(AT), json!(1_763_633_702_123_456_789_i64)] {
            assert_eq!(micros(&value), Some(AT), "{value}");
        }
        assert_eq!(micros(&json!(1_763_633_702)), Some(WHOLE));
        assert_eq!(micros(&json!(1_763_633_702_123_i64)), Some(AT - 456));
        assert_eq!(micros(&json!(1_763_633_702.0)), Some(WHOLE));
        assert_eq!(micros(&json!(1_763_633_702.5)), Some(WHOLE + 500_000));
        assert_eq!(micros(&json!(0)), Some(0));
    }

    #[test]
    fn unreadable() {
        for value in [json!("yesterday"), json!(""), json!(true), json!({"a": 1}), json!("2025-13-45"), json!(null)] {
            assert_eq!(micros(&value), None, "{value}");
        }
    }
}
