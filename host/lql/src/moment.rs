//! Dates and times of LQL: ISO, unix, and the brace form, in which each component may be `{low..high}` and which stands
//! for its two end points. A text of the right form that does not exist in the calendar is an error at once, because no
//! other reading of it would make sense.

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeDelta, Timelike};

use crate::cursor::Cursor;
use crate::error::{ErrorKind, Fault};

/// Whether a time is absolute, or local in the viewer's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Written with an offset, as a unix time, or as a shorthand.
    Absolute,
    /// Written without an offset: local time of the viewer, or UTC if there is no viewer.
    Local,
}

impl Origin {
    /// `absolute` or `local`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Local => "local",
        }
    }
}

/// A point in time, with the number of digits of the second that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Moment {
    utc: NaiveDateTime,
    digits: u8,
}

impl Moment {
    pub(crate) fn new(utc: NaiveDateTime, digits: u8) -> Self {
        Self { utc, digits }
    }

    /// The time in UTC, to the microsecond.
    #[must_use]
    pub fn utc(&self) -> NaiveDateTime {
        self.utc
    }

    /// The time with all its digits, for instance `2024-05-01T08:00:00.250000`.
    #[must_use]
    pub fn exact(&self) -> String {
        let digits = if self.utc.and_utc().timestamp_subsec_micros() == 0 { 0 } else { 6 };
        Self { digits, ..*self }.to_string()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, time) = (self.utc.date(), self.utc.time());
        write!(f, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day())?;
        write!(f, "T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())?;
        if self.digits == 0 {
            return Ok(());
        }
        let micros = format!("{:06}", time.nanosecond() / 1000);
        write!(f, ".{}", micros.get(..usize::from(self.digits.min(6))).unwrap_or_default())
    }
}

/// What a literal stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instant {
    Date(NaiveDate),
    At(Moment, Origin),
}

impl Instant {
    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::Date(_) => Origin::Local,
            Self::At(_, origin) => origin,
        }
    }
}

/// The components of a literal as written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    date: [u32; 3],
    time: Option<Clock<'a>>,
}

#[derive(Debug, Clone, Copy)]
struct Clock<'a> {
    time: [u32; 3],
    fraction: Option<&'a str>,
    zone: Option<Zone>,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    west: bool,
    hours: u32,
    minutes: u32,
}

/// Parses an ISO date or date and time.
pub(crate) fn iso<'a>(c: &mut Cursor<'a>) -> Option<Parts<'a>> {
    scan(c, false).map(|(low, _)| low)
}

/// Parses the same with `{low..high}` allowed for each component. Returns the low and the high end.
pub(crate) fn braced<'a>(c: &mut Cursor<'a>) -> Option<(Parts<'a>, Parts<'a>)> {
    scan(c, true)
}

/// Parses a unix time: 10 digits are seconds, 13 milliseconds, 16 microseconds.
pub(crate) fn unix(c: &mut Cursor<'_>) -> Option<Instant> {
    let count = c.rest().bytes().take(17).take_while(u8::is_ascii_digit).count();
    let (per_second, digits) = match count {
        10 => (1_000_000, 0),
        13 => (1_000, 3),
        16 => (1, 3),
        _ => return None,
    };
    c.attempt(|c| {
        let number: i64 = c.digits(count)?.parse().ok()?;
        let utc = DateTime::from_timestamp_micros(number.checked_mul(per_second)?)?.naive_utc();
        Some(Instant::At(Moment::new(utc, digits), Origin::Absolute))
    })
}

fn scan<'a>(c: &mut Cursor<'a>, braces: bool) -> Option<(Parts<'a>, Parts<'a>)> {
    c.attempt(|c| {
        let year = number(c, 4, braces)?;
        let month = c.eat("-").then(|| number(c, 2, braces))??;
        let day = c.eat("-").then(|| number(c, 2, braces))??;
        let time = c.attempt(|c| clock(c, braces));
        let (low, high) = ends([year, month, day]);
        Some((Parts { date: low, time: time.map(|t| t.0) }, Parts { date: high, time: time.map(|t| t.1) }))
    })
}

fn clock<'a>(c: &mut Cursor<'a>, braces: bool) -> Option<(Clock<'a>, Clock<'a>)> {
    let hour = c.eat("T").then(|| number(c, 2, braces))??;
    let minute = c.eat(":").then(|| number(c, 2, braces))??;
    let second = c.eat(":").then(|| number(c, 2, braces))??;
    let fraction = c.attempt(|c| c.eat(".").then(|| pair(c, 1, 6, braces))?);
    let zone = c.attempt(zone);
    let (low, high) = ends([hour, minute, second]);
    Some((
        Clock { time: low, fraction: fraction.map(|f| f.0), zone },
        Clock { time: high, fraction: fraction.map(|f| f.1), zone },
    ))
}

fn zone(c: &mut Cursor<'_>) -> Option<Zone> {
    if c.eat("Z") {
        return Some(Zone { west: false, hours: 0, minutes: 0 });
    }
    let west = c.eat_any(&["+", "-"])? == "-";
    let hours = c.digits(2)?.parse().ok()?;
    let minutes = c.eat(":").then(|| c.digits(2))??.parse().ok()?;
    Some(Zone { west, hours, minutes })
}

fn number(c: &mut Cursor<'_>, digits: usize, braces: bool) -> Option<(u32, u32)> {
    let (low, high) = pair(c, digits, digits, braces)?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

/// One group of digits, which is both ends, or two groups in braces.
fn pair<'a>(c: &mut Cursor<'a>, least: usize, most: usize, braces: bool) -> Option<(&'a str, &'a str)> {
    if let Some(digits) = c.digits_between(least, most) {
        return Some((digits, digits));
    }
    if !braces || !c.eat("{") {
        return None;
    }
    let low = c.digits_between(least, most)?;
    let high = c.eat("..").then(|| c.digits_between(least, most))??;
    c.eat("}").then_some((low, high))
}

fn ends([a, b, c]: [(u32, u32); 3]) -> ([u32; 3], [u32; 3]) {
    ([a.0, b.0, c.0], [a.1, b.1, c.1])
}

/// The time of the components. With `full`, a fraction counts as six digits.
pub(crate) fn instant(parts: Parts<'_>, full: bool, offset: usize) -> Result<Instant, Fault> {
    let [year, month, day] = parts.date;
    let written = format!("{year:04}-{month:02}-{day:02}");
    let date =
        i32::try_from(year).ok().filter(|year| *year > 0).and_then(|year| NaiveDate::from_ymd_opt(year, month, day));
    let Some(clock) = parts.time else {
        return date.map(Instant::Date).ok_or_else(|| {
            let message = format!("there is no day {written}; a date is YYYY-MM-DD");
            Fault::new(ErrorKind::InvalidDate, message, offset)
        });
    };
    let wrong = |what: String| {
        let message = format!("{what}; a time is YYYY-MM-DDTHH:MM:SS, with .123456 and Z or +02:00 after it");
        Fault::new(ErrorKind::InvalidDatetime, message, offset)
    };
    let [hour, minute, second] = clock.time;
    let date = date.ok_or_else(|| wrong(format!("there is no day {written}")))?;
    let digits = clock.fraction.map_or("", |f| f);
    let micros =
        digits.parse::<u32>().unwrap_or(0) * 10_u32.pow(6_u32.saturating_sub(u32::try_from(digits.len()).unwrap_or(6)));
    let local = date
        .and_hms_micro_opt(hour, minute, second, micros)
        .ok_or_else(|| wrong(format!("there is no time {hour:02}:{minute:02}:{second:02}")))?;
    let precision = match digits.len() {
        0 => 0,
        _ if full => 6,
        n => u8::try_from(n).unwrap_or(6),
    };
    let Some(zone) = clock.zone else {
        return Ok(Instant::At(Moment::new(local, precision), Origin::Local));
    };
    if zone.hours > 23 || zone.minutes > 59 {
        return Err(wrong(format!("there is no offset {:02}:{:02}", zone.hours, zone.minutes)));
    }
    let minutes = i64::from(zone.hours * 60 + zone.minutes);
    let east = TimeDelta::minutes(if zone.west { -minutes } else { minutes });
    let utc = local
        .checked_sub_signed(east)
        .filter(|utc| (1..=9999).contains(&utc.year()))
        .ok_or_else(|| wrong("the years run from 0001 to 9999".to_owned()))?;
    Ok(Instant::At(Moment::new(utc, precision), Origin::Absolute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Instant, Fault> {
        instant(iso(&mut Cursor::new(text, 0)).unwrap(), false, 0)
    }

    fn shown(text: &str) -> String {
        match read(text).unwrap() {
            Instant::Date(date) => date.to_string(),
            Instant::At(moment, origin) => format!("{moment} {}", origin.name()),
        }
    }

    #[test]
    fn iso_literals() {
        for (text, wanted) in [
            ("2031-02-03", "2031-02-03"),
            ("2031-02-03T04:05:06", "2031-02-03T04:05:06 local"),
            ("2031-02-03T04:05:06.7", "2031-02-03T04:05:06.7 local"),
            ("2031-02-03T04:05:06.070Z", "2031-02-03T04:05:06.070 absolute"),
            ("2031-02-03T00:05:06+01:30", "2031-02-02T22:35:06 absolute"),
            ("2031-02-03T23:05:06-01:00", "2031-02-04T00:05:06 absolute"),
            ("2031-02-03T23:05", "2031-02-03"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn impossible_literals() {
        for (text, kind) in [
            ("2031-02-29", ErrorKind::InvalidDate),
            ("0000-01-01", ErrorKind::InvalidDate),
            ("2031-13-01T00:00:00", ErrorKind::InvalidDatetime),
            ("2031-01-01T24:00:00", ErrorKind::InvalidDatetime),
            ("2031-01-01T23:00:60", ErrorKind::InvalidDatetime),
            ("2031-01-01T23:00:00+24:00", ErrorKind::InvalidDatetime),
            ("0001-01-01T00:00:00+01:00", ErrorKind::InvalidDatetime),
        ] {
            assert_eq!(read(text).unwrap_err().kind, kind, "{text}");
        }
    }

    #[test]
    fn unix_times_have_ten_thirteen_or_sixteen_digits() {
        let at = |text: &str| unix(&mut Cursor::new(text, 0));
        for (text, wanted) in [
            ("1000000000", "2001-09-09T01:46:40"),
            ("1000000000123", "2001-09-09T01:46:40.123"),
            ("1000000000123456", "2001-09-09T01:46:40.123"),
        ] {
            let Some(Instant::At(moment, Origin::Absolute)) = at(text) else {
                panic!("{text} is a unix time");
            };
            assert_eq!(moment.to_string(), wanted);
        }
        for text in ["100000000", "10000000000", "10000000000000000", "x", ""] {
            assert!(at(text).is_none(), "{text}");
        }
    }

    #[test]
    fn no_digit_is_lost_in_the_exact_form() {
        let Some(Instant::At(moment, _)) = unix(&mut Cursor::new("1000000000123456", 0)) else {
            panic!("a unix time");
        };
        assert_eq!(moment.exact(), "2001-09-09T01:46:40.123456");
    }
}
