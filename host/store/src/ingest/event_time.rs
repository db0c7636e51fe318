//! The time of an event as microseconds since 1970, UTC, from the many forms that senders use.
//!
//! Shippers send ISO text with and without time zone, with a blank for the `T`, with a comma before the fraction, dates
//! alone, and numbers in four units, as number or as text, with and without fraction. The unit of a number follows from
//! its magnitude: the ranges below assign every instant from 1973 to 5138 to the right unit. A negative number is not a
//! time: no sender means one. Times before 1970 are read from text.

use std::borrow::Cow;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use serde_json::{Number, Value};

use crate::ingest::tape::{Item, View};

/// 1e11 seconds is the year 5138; 1e11 milliseconds is 1973. The same gap repeats for each unit.
const SECONDS_BELOW: u64 = 100_000_000_000;

const MILLIS_BELOW: u64 = 100_000_000_000_000;

const MICROS_BELOW: u64 = 100_000_000_000_000_000;

/// Numbers from here on are not a time in any unit: nanoseconds in 64 bits end there.
const NUMBERS_BELOW: f64 = 9.2e18;

/// The time in an event's `timestamp` in microseconds; `None` if it cannot be read. Such an event gets the time of its
/// arrival.
pub fn micros(value: &Value) -> Option<i64> {
    let moment = match value {
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => Moment::Whole(whole),
            (None, float) => Moment::Float(float?),
        },
        Value::String(text) => Moment::Text(text),
        _ => Moment::Other,
    };
    of_moment(moment).map(|time| time.micros)
}

/// A value that may say a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment<'t> {
    Whole(u64),
    Float(f64),
    Text(&'t str),
    Other,
}

impl<'t> Moment<'t> {
    pub(crate) fn of_item(item: Item<'t>) -> Moment<'t> {
        match item.view() {
            View::Int(int) => u64::try_from(int).map_or(Moment::Other, Moment::Whole),
            View::Huge(int) => Moment::Whole(int),
            View::Float(float) => Moment::Float(float),
            View::Text(text) => Moment::Text(text),
            _ => Moment::Other,
        }
    }
}

/// The time of an event as it is stored, and how many nanoseconds later it was sent to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTime {
    pub(crate) micros: i64,
    pub(crate) nanos: u16,
}

/// The time that a value says.
pub(crate) fn of_moment(moment: Moment<'_>) -> Option<EventTime> {
    let micros = match moment {
        Moment::Whole(whole) => in_unit(whole, 0),
        Moment::Float(float) => from_float(float),
        Moment::Text(text) => from_text(text.trim()),
        Moment::Other => None,
    };
    micros.map(|micros| EventTime { micros, nanos: nanos(moment) })
}

/// The nanoseconds beyond the microseconds of a time. A float has no digits for them.
fn nanos(moment: Moment<'_>) -> u16 {
    let of_whole = |whole: u64| if whole >= MICROS_BELOW { (whole % 1_000) as u16 } else { 0 };
    match moment {
        Moment::Whole(whole) => of_whole(whole),
        Moment::Text(text) => {
            let Some((before, fraction)) = text.split_once(['.', ',']) else {
                return text.trim().parse().map_or(0, of_whole);
            };
            // Of a number, the fraction is one of its unit; that of seconds is as long as a text's.
            let unit: Option<u64> = before.trim().parse().ok();
            let skipped = match unit {
                None | Some(..SECONDS_BELOW) => 6,
                Some(SECONDS_BELOW..MILLIS_BELOW) => 3,
                Some(_) => 0,
            };
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).chain(std::iter::repeat(b'0'));
            digits.skip(skipped).take(3).fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        }
        Moment::Float(_) | Moment::Other => 0,
    }
}

/// Fields that some shippers use for the time of an event, in the order in which they are tried if there is no
/// `timestamp`.
/// The first is used for nothing else.
const OTHERS: [&str; 3] = ["@timestamp", "time", "date"];

/// The time of an event without `timestamp` from the other fields, and whether `@timestamp` is there but cannot be
/// read.
pub(crate) fn of_others<'e>(fields: impl Iterator<Item = (&'e str, Item<'e>)>) -> (Option<EventTime>, bool) {
    let mut values = [None; OTHERS.len()];
    for (key, value) in fields {
        if let Some((_, place)) = OTHERS.iter().zip(&mut values).find(|(other, _)| **other == key) {
            *place = Some(value);
        }
    }
    let found = values.iter().flatten().find_map(|value| of_certain(Moment::of_item(*value)));
    let [at_timestamp, ..] = values;
    (found, found.is_none() && at_timestamp.is_some())
}

/// 2001-09-09 in seconds. Smaller numbers in a field `date` are rather dates, such as 20251120, and in a field `time`
/// rather durations.
const MOMENTS_FROM: f64 = 1e9;

/// The time in a field that may also have another meaning. A date alone and small numbers are not times.
fn of_certain(moment: Moment<'_>) -> Option<EventTime> {
    let is_moment = match moment {
        Moment::Whole(whole) => whole as f64 >= MOMENTS_FROM,
        Moment::Float(float) => float >= MOMENTS_FROM,
        Moment::Text(text) if text.contains(':') => true,
        Moment::Text(text) => text.trim().parse().is_ok_and(|number: f64| number >= MOMENTS_FROM),
        Moment::Other => false,
    };
    if is_moment { of_moment(moment) } else { None }
}

fn from_float(float: f64) -> Option<i64> {
    if !(0.0..NUMBERS_BELOW).contains(&float) {
        return None;
    }
    if float.fract() == 0.0 {
        return in_unit(float as u64, 0);
    }
    // The shortest text of the float has the digits that were sent; the float itself is often a little less.
    from_decimal(&Number::from_f64(float)?.to_string())
}

/// Digits, with or without a fraction.
fn from_decimal(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    // Six digits of a second are microseconds. The rest is cut off, so that a time is never later than it was.
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let millionths = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    in_unit(whole.parse().ok()?, millionths)
}

/// A number and its fraction, in millionths, as microseconds.
fn in_unit(whole: u64, millionths: u64) -> Option<i64> {
    let micros = match whole {
        ..SECONDS_BELOW => whole * 1_000_000 + millionths,
        SECONDS_BELOW..MILLIS_BELOW => whole * 1_000 + millionths / 1_000,
        MILLIS_BELOW..MICROS_BELOW => whole,
        _ => i64::try_from(whole).ok()?.unsigned_abs() / 1_000,
    };
    i64::try_from(micros).ok()
}

fn from_text(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return from_decimal(text);
    }
    let text = &*with_point(text);
    if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
        return Some(zoned.timestamp_micros());
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(plain) = NaiveDateTime::parse_from_str(text, format) {
            return Some(plain.and_utc().timestamp_micros());
        }
    }
    // Offsets that RFC 3339 does not allow: without colon, hours only, after a blank, a zone name.
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

/// ISO 8601 allows a comma before the fraction of a second, and Python writes one.
fn with_point(text: &str) -> Cow<'_, str> {
    match text.split_once(',') {
        Some((time, fraction)) if time.contains(':') && fraction.starts_with(|first: char| first.is_ascii_digit()) => {
            Cow::Owned(format!("{time}.{fraction}"))
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
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
            ("2025-11-20 10:15:02,123", WHOLE + 123_000),
            ("2025-11-20 10:15:02,123456", AT),
            ("2025-11-20T10:15:02,123456Z", AT),
            ("2025-11-20T12:15:02,123456+02:00", AT),
            ("1763633702.123456", AT),
            ("1763633702.1234569", AT),
            ("1763633702.5", WHOLE + 500_000),
            ("1763633702123.5", WHOLE + 123_500),
            ("1763633702123456.9", AT),
            ("1969-12-31T23:59:59.999999999Z", -1),
            ("1915-01-01", -1_735_689_600_000_000),
        ] {
            assert_eq!(micros(&json!(text)), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_finer_than_a_microsecond_is_told() {
        for (sent, expected) in [
            (json!("2025-11-20T10:15:02.123456789Z"), 789),
            (json!("2025-11-20 12:15:02,1234567+02:00"), 700),
            (json!("2025-11-20T10:15:02.123456Z"), 0),
            (json!("2025-11-20T10:15:02Z"), 0),
            (json!("1763633702123456789"), 789),
            (json!(1_763_633_702_123_456_789_i64), 789),
            (json!("1763633702.123456001"), 1),
            (json!("1763633702123.4567"), 700),
            (json!("1763633702123456.05"), 50),
            (json!(1_763_633_702_123_456_i64), 0),
            (json!("2025-11-20"), 0),
        ] {
            let moment = match &sent {
                Value::String(text) => Moment::Text(text),
                number => Moment::Whole(number.as_u64().unwrap()),
            };
            assert_eq!(of_moment(moment).unwrap().nanos, expected, "{sent}");
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
        assert_eq!(micros(&json!(1_763_633_702_123.5)), Some(WHOLE + 123_500));
        assert_eq!(micros(&json!(1_795_341_600_123.5)), Some(1_795_341_600_123_500));
        assert_eq!(micros(&json!(1_763_633_702_123_456.5)), Some(AT));
        assert_eq!(micros(&json!(0)), Some(0));
    }

    /// Every fraction of a second that a float can say comes out as it was written.
    #[test]
    fn the_digits_of_a_float_are_kept() {
        for millionths in (0..1_000_000).step_by(997) {
            let text = format!("1763633702.{millionths:06}");
            let sent: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(micros(&sent), Some(WHOLE + millionths), "{text}");
            assert_eq!(micros(&json!(text)), Some(WHOLE + millionths), "{text}");
        }
    }

    #[test]
    fn a_number_below_zero_is_no_time() {
        for value in [
            json!(-1),
            json!(-1_763_633_702_123_i64),
            json!(-0.5),
            json!("-1763633702"),
            json!("-1763633702.5"),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1e300),
        ] {
            assert_eq!(micros(&value), None, "{value}");
        }
    }

    #[test]
    fn unreadable() {
        for value in [
            json!("yesterday"),
            json!("."),
            json!("1.2.3"),
            json!("1,795,341,600"),
            json!(""),
            json!(true),
            json!({"a": 1}),
            json!("2025-13-45"),
            json!(null),
        ] {
            assert_eq!(micros(&value), None, "{value}");
        }
    }
}
