//! FORMAT_TIMESTAMP and PARSE_TIMESTAMP: BigQuery's format elements, by means of chrono's.

use std::fmt::Write;

use chrono::format::{Item, Parsed, StrftimeItems, parse_and_remainder};
use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime, Timelike};

use super::parsed_date::date_of;
use super::zone::Zone;
use crate::rows::{MOMENTS, Out, Row, RowError, RowResult, TOO_FAR};

/// The longest format.
const MAX_FORMAT: usize = 4 << 10;

/// A piece of a format.
#[derive(Debug)]
enum Piece {
    Plain(Vec<Item<'static>>),
    /// Seconds with so many decimal digits, or as many as the time has.
    Seconds(Option<usize>),
    Quarter,
    IsoDayOfYear,
    Offset {
        colon: bool,
    },
    ZoneName,
    Epoch,
}

#[derive(Debug)]
pub(super) struct Format(Vec<Piece>);

fn unknown(format: &str) -> RowError {
    let short: String = format.chars().take(60).collect();
    RowError::from(format!("the format '{short}' has an element that is not known, or ends in the middle of one"))
}

fn bounded(format: &str) -> Result<(), RowError> {
    if format.len() > MAX_FORMAT {
        return Err(RowError::Limit(format!("a format has at most {MAX_FORMAT} bytes, not {}", format.len())));
    }
    Ok(())
}

fn items(text: &str) -> Option<Vec<Item<'static>>> {
    StrftimeItems::new(text).parse_to_owned().ok()
}

const PLAIN: &str = "AaBbCcDdeFGgHhIjklMmnPpRrSTtUuVWwXxYy%";

impl Format {
    fn read(format: &str) -> Result<Self, RowError> {
        bounded(format)?;
        Self::pieces(format).ok_or_else(|| unknown(format))
    }

    fn pieces(format: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                plain.push(c);
                continue;
            }
            let piece = match rest.next()? {
                'E' => match rest.next()? {
                    '*' if rest.next()? == 'S' => Piece::Seconds(None),
                    'z' => Piece::Offset { colon: true },
                    '4' if rest.clone().next() == Some('Y') => {
                        rest.next();
                        plain.push_str("%Y");
                        continue;
                    }
                    digit @ '0'..='9' if rest.next()? == 'S' => Piece::Seconds(digit.to_digit(10).map(|n| n as usize)),
                    _ => return None,
                },
                'z' => Piece::Offset { colon: false },
                'Z' => Piece::ZoneName,
                'Q' => Piece::Quarter,
                'J' => Piece::IsoDayOfYear,
                's' => Piece::Epoch,
                known if PLAIN.contains(known) => {
                    plain.extend(['%', known]);
                    continue;
                }
                _ => return None,
            };
            pieces.push(Piece::Plain(items(&std::mem::take(&mut plain))?));
            pieces.push(piece);
        }
        pieces.push(Piece::Plain(items(&plain)?));
        Some(Self(pieces))
    }
}

/// What the clocks of a zone show at an instant, and the offset of the zone then. A zone may move the first and the last
/// hours that there are out of the years 1 to 9999.
fn shown(micros: i64, zone: Zone) -> RowResult<(NaiveDateTime, i64)> {
    let Some(offset) = zone.offset(micros) else { return Ok(None) };
    let local = micros.checked_add(offset).filter(|local| MOMENTS.contains(local)).ok_or(TOO_FAR)?;
    Ok(DateTime::from_timestamp_micros(local).map(|local| (local.naive_utc(), offset)))
}

/// `format_time(format, micros, zone)`.
pub(super) fn format(row: &Row, out: &mut Out) -> RowResult<()> {
    let format = row.remember(0, Format::read)?;
    let micros = row.int(1);
    let zone = Zone::of(row, 2)?;
    let Some((local, offset)) = shown(micros, zone)? else { return Ok(None) };
    let minutes = offset / 60_000_000;
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    for piece in &format.0 {
        match piece {
            Piece::Plain(items) => write!(out, "{}", local.format_with_items(items.iter()))?,
            Piece::Seconds(digits) => {
                write!(out, "{:02}", local.second())?;
                let fraction = format!("{:09}", local.nanosecond() % 1_000_000_000);
                let fraction = match digits {
                    Some(digits) => fraction.get(..*digits).unwrap_or_default(),
                    None => fraction.trim_end_matches('0'),
                };
                if !fraction.is_empty() {
                    write!(out, ".{fraction}")?;
                }
            }
            Piece::Quarter => write!(out, "{}", local.month0() / 3 + 1)?,
            Piece::IsoDayOfYear => {
                let day = local.iso_week().week0() * 7 + local.weekday().number_from_monday();
                write!(out, "{day:03}")?;
            }
            Piece::Offset { colon: true } => write!(out, "{sign}{hours:02}:{rest:02}")?,
            Piece::Offset { colon: false } => write!(out, "{sign}{hours:02}{rest:02}")?,
            Piece::ZoneName => match (hours, rest) {
                (0, 0) => out.text("UTC")?,
                (_, 0) => write!(out, "UTC{sign}{hours}")?,
                _ => write!(out, "UTC{sign}{hours}:{rest:02}")?,
            },
            Piece::Epoch => write!(out, "{}", micros.div_euclid(1_000_000))?,
        }
    }
    Ok(Some(()))
}

/// `zoned_text(micros, zone)`: the text of a TIMESTAMP in the local time of a zone.
pub(super) fn zoned(row: &Row, out: &mut Out) -> RowResult<()> {
    let (micros, zone) = (row.int(0), Zone::of(row, 1)?);
    let Some((local, offset)) = shown(micros, zone)? else { return Ok(None) };
    write!(out, "{}", local.format("%Y-%m-%d %H:%M:%S"))?;
    match local.and_utc().timestamp_subsec_micros() {
        0 => {}
        fraction if fraction % 1_000 == 0 => write!(out, ".{:03}", fraction / 1_000)?,
        fraction => write!(out, ".{fraction:06}")?,
    }
    let minutes = offset / 60_000_000;
    write!(out, "{}{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60)?;
    if minutes % 60 != 0 {
        write!(out, ":{:02}", minutes.abs() % 60)?;
    }
    Ok(Some(()))
}

/// How a text is read: chrono's elements, with `%s` between them, and whether a zone's name stands at the end.
#[derive(Debug)]
struct Reading {
    /// The elements before the first `%s`, between two of them, and behind the last.
    parts: Vec<Vec<Item<'static>>>,
    named: bool,
}

impl Reading {
    fn read(format: &str) -> Result<Self, RowError> {
        bounded(format)?;
        let (body, named) = match format.trim_end().strip_suffix("%Z") {
            Some(body) if !body.ends_with('%') => (body.trim_end(), true),
            _ => (format, false),
        };
        let parts = translated(body).and_then(|parts| parts.iter().map(|part| items(part)).collect());
        Ok(Self { parts: parts.ok_or_else(|| unknown(format))?, named })
    }
}

/// BigQuery's elements as those of chrono, for parsing; cut at each `%s`, of which chrono's takes no negative numbers.
fn translated(format: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut out = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            'E' => match rest.next()? {
                '*' if rest.next()? == 'S' => out.push_str("%S%.f"),
                'z' => out.push_str("%#z"),
                '4' if rest.clone().next() == Some('Y') => {
                    rest.next();
                    out.push_str("%Y");
                }
                '0'..='9' if rest.next()? == 'S' => out.push_str("%S%.f"),
                _ => return None,
            },
            'z' => out.push_str("%#z"),
            // Names are read in full and cut off.
            'b' | 'h' => out.push_str("%B"),
            'a' => out.push_str("%A"),
            's' => parts.push(std::mem::take(&mut out)),
            known if PLAIN.contains(known) => out.extend(['%', known]),
            _ => return None,
        }
    }
    parts.push(out);
    Some(parts)
}

/// The number at the beginning of a text, perhaps behind blanks, and what is left of the text.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text.get(sign..)?.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(sign + digits)?;
    Some((number.parse().ok()?, rest))
}

/// `parse_time_as(format, text, zone)`.
pub(super) fn parse(row: &Row) -> RowResult<i64> {
    let reading = row.remember(0, Reading::read)?;
    let zone = Zone::of(row, 2)?;
    match read(&reading, row.text(1).trim(), zone) {
        Some(micros) => Ok(Some(micros)),
        None => {
            let short = |i: usize| row.text(i).chars().take(60).collect::<String>();
            Err(format!("the text '{}' does not match the format '{}'", short(1), short(0)).into())
        }
    }
}

/// Missing parts are those of 1970-01-01 00:00:00.
fn read(reading: &Reading, text: &str, zone: Zone) -> Option<i64> {
    let (text, zone) = match reading.named.then(|| text.rsplit_once(' ')).flatten() {
        Some((text, name)) => (text, Zone::read(name).ok()?),
        None if reading.named => return None,
        None => (text, zone),
    };
    let mut parsed = Parsed::new();
    let (mut rest, mut since_epoch) = (text.trim(), None);
    for (i, part) in reading.parts.iter().enumerate() {
        if i > 0 {
            let (number, behind) = seconds(rest)?;
            (rest, since_epoch) = (behind, Some(number));
        }
        rest = parse_and_remainder(&mut parsed, rest, part.iter()).ok()?;
    }
    if !rest.is_empty() {
        return None;
    }
    if let Some(seconds) = since_epoch {
        return seconds.checked_mul(1_000_000);
    }
    let date = date_of(&parsed)?;
    let time = parsed.to_naive_time().ok().or_else(|| {
        let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
        let time = NaiveTime::from_hms_opt(hour, parsed.minute().unwrap_or(0), parsed.second().unwrap_or(0))?;
        time.with_nanosecond(parsed.nanosecond().unwrap_or(0))
    })?;
    let local = date.and_time(time).and_utc().timestamp_micros();
    match parsed.offset() {
        Some(offset) if offset.abs() > 14 * 3_600 => None,
        Some(offset) => local.checked_sub(i64::from(offset) * 1_000_000),
        None => zone.instant(local),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_or_refused() {
        for (format, good) in [("%F %E3S %Q %J %Ez %Z", true), ("100%", false), ("%N", false), ("%E*X", false)] {
            assert_eq!(Format::read(format).is_ok(), good, "{format}");
        }
        assert!(Format::read(&"%Y".repeat(5_000)).is_err());
    }

    #[test]
    fn texts_are_read_with_what_they_have() {
        let utc = Zone::read("UTC").unwrap();
        for (format, text, expected) in [
            ("%Y-%m-%dT%H:%M:%E*S%Ez", "2025-11-20T12:15:02.5+02:00", Some(1_763_633_702_500_000)),
            ("%Y-%m-%d", "1970-01-02", Some(86_400_000_000)),
            ("%F %T %Z", "1970-01-01 01:00:00 Europe/Berlin", Some(0)),
            ("%y", "71", Some(31_536_000_000_000)),
            ("%s", "12", Some(12_000_000)),
            ("at %s.", "at -86400.", Some(-86_400_000_000)),
            ("%s %Y", "+5 2025", Some(5_000_000)),
            ("%b %d %Y", "September 02 1970", Some(21_081_600_000_000)),
            ("%F %z", "1970-01-01 +1400", Some(-50_400_000_000)),
            ("%F %z", "1970-01-01 +1401", None),
            ("%s", "-", None),
            ("%s", "1x", None),
            ("%s", "99999999999999999999", None),
            ("%Y-%m-%d", "soon", None),
        ] {
            assert_eq!(read(&Reading::read(format).unwrap(), text, utc), expected, "{format}");
        }
    }

    #[test]
    fn clocks_show_no_other_years() {
        let (east, west) = (Zone::read("+14").unwrap(), Zone::read("-12").unwrap());
        for (micros, zone, fits) in [
            (*MOMENTS.end(), west, true),
            (*MOMENTS.end(), east, false),
            (*MOMENTS.start(), east, true),
            (*MOMENTS.start(), west, false),
        ] {
            assert_eq!(shown(micros, zone).is_ok(), fits, "{micros} {zone:?}");
        }
    }
}
