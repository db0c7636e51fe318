//! Times as text by the elements of CAST: `CAST(time AS STRING FORMAT 'YYYY-MM-DD HH24:MI')`.

use std::fmt::Write;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};

use super::zone::Zone;
use crate::rows::{MOMENTS, Out, Row, RowError, RowResult, TOO_FAR};

/// What a kind of time has, as bits.
const DATE: i64 = 1;
const CLOCK: i64 = 2;
const ZONE: i64 = 4;

/// The longest format.
const MAX_FORMAT: usize = 4 << 10;

/// An element of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    /// The last digits of the year, so many.
    Year(usize),
    /// Two digits of a year near the current one.
    NearYear,
    Month,
    MonthName {
        long: bool,
    },
    Day,
    DayOfYear,
    DayOfWeek,
    DayName {
        long: bool,
    },
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    Fraction(usize),
    Meridian {
        dots: bool,
    },
    ZoneHour,
    ZoneMinute,
}

/// A piece of a format.
#[derive(Debug)]
pub(super) enum Piece {
    Element(Element, String),
    Text(String),
    Blanks(String),
}

/// The elements by their names; a name that begins another one stands behind it.
const NAMES: &[(&str, Element)] = &[
    ("SSSSS", Element::SecondOfDay),
    ("YYYY", Element::Year(4)),
    ("RRRR", Element::Year(4)),
    ("YYY", Element::Year(3)),
    ("YY", Element::Year(2)),
    ("RR", Element::NearYear),
    ("Y", Element::Year(1)),
    ("MONTH", Element::MonthName { long: true }),
    ("MON", Element::MonthName { long: false }),
    ("MM", Element::Month),
    ("MI", Element::Minute),
    ("DDD", Element::DayOfYear),
    ("DD", Element::Day),
    ("DAY", Element::DayName { long: true }),
    ("DY", Element::DayName { long: false }),
    ("D", Element::DayOfWeek),
    ("HH24", Element::Hour24),
    ("HH12", Element::Hour12),
    ("HH", Element::Hour12),
    ("SS", Element::Second),
    ("A.M.", Element::Meridian { dots: true }),
    ("P.M.", Element::Meridian { dots: true }),
    ("AM", Element::Meridian { dots: false }),
    ("PM", Element::Meridian { dots: false }),
    ("TZH", Element::ZoneHour),
    ("TZM", Element::ZoneMinute),
];

impl Element {
    /// What a time must have for it.
    pub(super) fn needs(self) -> i64 {
        match self {
            Self::ZoneHour | Self::ZoneMinute => ZONE,
            Self::Year(_)
            | Self::NearYear
            | Self::Month
            | Self::MonthName { .. }
            | Self::Day
            | Self::DayOfYear
            | Self::DayOfWeek
            | Self::DayName { .. } => DATE,
            _ => CLOCK,
        }
    }
}

/// A format in pieces.
pub(super) fn pieces(format: &str) -> Result<Vec<Piece>, RowError> {
    if format.len() > MAX_FORMAT {
        return Err(RowError::Limit(format!("a format has at most {MAX_FORMAT} bytes, not {}", format.len())));
    }
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        if rest.get(..5).is_some_and(|text| text.eq_ignore_ascii_case("Y,YYY")) {
            return Err("the element Y,YYY is not supported; write YYYY".into());
        }
        let of_start = |size: usize| rest.get(..size);
        let named = NAMES.iter().find_map(|(name, element)| {
            let written = of_start(name.len())?;
            written.eq_ignore_ascii_case(name).then_some((written.len(), *element))
        });
        let fraction = of_start(3).filter(|text| text.get(..2).is_some_and(|ff| ff.eq_ignore_ascii_case("FF")));
        let digits = fraction.and_then(|text| text.chars().last()?.to_digit(10)).filter(|digits| *digits > 0);
        let size = if let Some(digits) = digits {
            pieces.push(Piece::Element(Element::Fraction(digits as usize), String::new()));
            3
        } else if let Some((size, element)) = named {
            pieces.push(Piece::Element(element, of_start(size).unwrap_or_default().to_owned()));
            size
        } else if c.is_whitespace() {
            let blanks: String = rest.chars().take_while(|c| c.is_whitespace()).collect();
            let size = blanks.len();
            pieces.push(Piece::Blanks(blanks));
            size
        } else if c == '"' {
            let (text, size) = quoted(rest).ok_or("a quote in a format has no end")?;
            pieces.push(Piece::Text(text));
            size
        } else if "-./,';:".contains(c) {
            pieces.push(Piece::Text(c.to_string()));
            1
        } else {
            let short: String = rest.chars().take(20).collect();
            return Err(format!("the format has no element at '{short}'; write other text in double quotes").into());
        };
        rest = rest.get(size..).unwrap_or_default();
    }
    Ok(pieces)
}

/// A text in double quotes, in which a backslash stands before a quote and another backslash, and its length in the format.
fn quoted(format: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut rest = format.char_indices().skip(1);
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Some((text, at + 1)),
            '\\' => text.push(rest.next()?.1),
            c => text.push(c),
        }
    }
    None
}

/// A name as its element is written: in capitals, with one, or small.
fn cased(name: &str, written: &str) -> String {
    let mut letters = written.chars().filter(char::is_ascii_alphabetic);
    let (first, second) =
        (letters.next().is_some_and(char::is_uppercase), letters.next().is_some_and(char::is_uppercase));
    match (first, second) {
        (true, true) => name.to_uppercase(),
        (true, false) => name.to_owned(),
        (false, _) => name.to_lowercase(),
    }
}

/// `time_in_elements(format, micros, zone, kind)`.
pub(super) fn format(row: &Row, out: &mut Out) -> RowResult<()> {
    let pieces = row.remember(0, pieces)?;
    let (micros, kind) = (row.int(1), row.int(3));
    let Some(offset) = Zone::of(row, 2)?.offset(micros) else { return Ok(None) };
    let local = micros.checked_add(offset).filter(|local| MOMENTS.contains(local)).ok_or(TOO_FAR)?;
    let Some(local) = DateTime::from_timestamp_micros(local) else { return Ok(None) };
    for piece in pieces.iter() {
        match piece {
            Piece::Text(text) | Piece::Blanks(text) => out.text(text)?,
            Piece::Element(element, written) => {
                if element.needs() & kind == 0 {
                    return Err(format!("a time of this type has no {written}").into());
                }
                write_element(*element, written, local.naive_utc(), offset / 60_000_000, out)?;
            }
        }
    }
    Ok(Some(()))
}

fn write_element(
    element: Element,
    written: &str,
    local: NaiveDateTime,
    zone_minutes: i64,
    out: &mut Out,
) -> Result<(), RowError> {
    let year = local.year();
    match element {
        Element::Year(4) => write!(out, "{year:04}")?,
        Element::Year(digits) => {
            let cut = year.rem_euclid(10_i32.pow(u32::try_from(digits).unwrap_or(1)));
            write!(out, "{cut:0digits$}")?;
        }
        Element::NearYear => write!(out, "{:02}", year.rem_euclid(100))?,
        Element::Month => write!(out, "{:02}", local.month())?,
        Element::MonthName { long } => {
            let name = local.format(if long { "%B" } else { "%b" }).to_string();
            out.text(&cased(&name, written))?;
        }
        Element::Day => write!(out, "{:02}", local.day())?,
        Element::DayOfYear => write!(out, "{:03}", local.ordinal())?,
        Element::DayOfWeek => write!(out, "{}", local.weekday().number_from_sunday())?,
        Element::DayName { long } => {
            let name = local.format(if long { "%A" } else { "%a" }).to_string();
            out.text(&cased(&name, written))?;
        }
        Element::Hour24 => write!(out, "{:02}", local.hour())?,
        Element::Hour12 => write!(out, "{:02}", local.hour12().1)?,
        Element::Minute => write!(out, "{:02}", local.minute())?,
        Element::Second => write!(out, "{:02}", local.second())?,
        Element::SecondOfDay => write!(out, "{:05}", local.num_seconds_from_midnight())?,
        Element::Fraction(digits) => {
            let fraction = format!("{:09}", local.nanosecond() % 1_000_000_000);
            out.text(fraction.get(..digits).unwrap_or_default())?;
        }
        Element::Meridian { dots } => {
            let name = match (local.hour() < 12, dots) {
                (true, true) => "A.M.",
                (true, false) => "AM",
                (false, true) => "P.M.",
                (false, false) => "PM",
            };
            let small = written.starts_with(char::is_lowercase);
            out.text(&if small { name.to_lowercase() } else { name.to_owned() })?;
        }
        Element::ZoneHour => {
            let sign = if zone_minutes < 0 { '-' } else { '+' };
            write!(out, "{sign}{:02}", zone_minutes.abs() / 60)?;
        }
        Element::ZoneMinute => write!(out, "{:02}", zone_minutes.abs() % 60)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_cut_into_elements_or_refused() {
        for (format, count) in
            [("YYYY-MM", Some(3)), ("HH24:MI:SS.FF3", Some(7)), ("\"a\\\"b\"YY", Some(2)), ("", Some(0))]
        {
            assert_eq!(pieces(format).ok().map(|pieces| pieces.len()), count, "{format}");
        }
        for format in ["x", "Y,YYY", "YYYYx", "\"open", "FF0"] {
            assert!(pieces(format).is_err(), "{format}");
        }
        assert!(pieces(&"Y".repeat(5_000)).is_err());
    }

    #[test]
    fn names_are_written_as_their_elements() {
        let names = ["MONTH", "Month", "month", "MoN"].map(|written| cased("January", written));
        assert_eq!(names, ["JANUARY", "January", "january", "January"]);
    }
}
