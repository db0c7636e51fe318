//! Texts read as times by the elements of CAST: `CAST(text AS DATE FORMAT 'YYYY-MM-DD')`.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime};

use super::elements::{Element, Piece, pieces};
use super::zone::Zone;
use crate::rows::{Row, RowError, RowResult};

/// A format whose elements go together.
struct Model(Vec<Piece>);

impl Model {
    fn read(format: &str) -> Result<Self, RowError> {
        let pieces = pieces(format)?;
        let mut found: Vec<(Element, &str)> = Vec::new();
        for piece in &pieces {
            let Piece::Element(element, written) = piece else { continue };
            let same = |before: Element| match (element, before) {
                (Element::Year(_) | Element::NearYear, Element::Year(_) | Element::NearYear)
                | (Element::Month | Element::MonthName { .. }, Element::Month | Element::MonthName { .. })
                | (Element::Hour12 | Element::Hour24, Element::Hour12 | Element::Hour24)
                | (Element::Meridian { .. }, Element::Meridian { .. })
                | (Element::Fraction(_), Element::Fraction(_)) => true,
                (one, other) => *one == other,
            };
            if found.iter().any(|(before, _)| same(*before)) {
                return Err(format!("the format has a part twice that {written} reads").into());
            }
            if matches!(
                element,
                Element::DayOfYear | Element::DayOfWeek | Element::DayName { .. } | Element::Meridian { dots: false }
            ) {
                return Err(format!("no text is read by {written}; A.M. and P.M. stand for AM, DD for days").into());
            }
            found.push((*element, written));
        }
        let has = |wanted: fn(&Element) -> bool| found.iter().any(|(element, _)| wanted(element));
        if has(|element| *element == Element::Hour12) != has(|element| matches!(element, Element::Meridian { .. })) {
            return Err("HH12 and HH go with A.M. or P.M.; HH24 goes alone".into());
        }
        let of_clock = |element: &Element| {
            matches!(element, Element::Hour12 | Element::Hour24 | Element::Minute | Element::Second)
        };
        if has(|element| *element == Element::SecondOfDay) && has(of_clock) {
            return Err("SSSSS goes without hours, minutes and seconds".into());
        }
        Ok(Self(pieces))
    }
}

/// The parts that a text has.
#[derive(Debug, Default)]
struct Parts {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    hour: u32,
    /// Whether the hour is of the second half of the day; `None` if it is of the whole day.
    after_noon: Option<bool>,
    minute: u32,
    second: u32,
    second_of_day: Option<u32>,
    nanos: u32,
    zone_hour: Option<(i64, i64)>,
    zone_minute: i64,
}

/// `time_of_elements(format, text, zone, kind, now)`. Missing parts are those of the current month, its first day and
/// midnight.
pub(super) fn read(row: &Row) -> RowResult<i64> {
    let model = row.remember(0, Model::read)?;
    let (zone, kind) = (Zone::of(row, 2)?, row.int(3));
    for piece in &model.0 {
        if let Piece::Element(element, written) = piece
            && element.needs() & kind == 0
        {
            return Err(format!("a time of this type has no {written}").into());
        }
    }
    let now = zone.local(row.int(4)).and_then(DateTime::from_timestamp_micros);
    let Some(now) = now.map(|now| now.date_naive()) else { return Ok(None) };
    let micros = parts_of(&model.0, row.text(1), now).and_then(|parts| moment(&parts, now, zone));
    micros.map(Some).ok_or_else(|| {
        let short = |i: usize| row.text(i).chars().take(60).collect::<String>();
        format!("the text '{}' does not match the format '{}'", short(1), short(0)).into()
    })
}

/// The number at the beginning of a text, of so many digits.
fn number(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let digits = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if digits < least {
        return None;
    }
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, rest))
}

/// Which of some names a text begins with.
fn name(text: &str, names: impl Iterator<Item = String>) -> Option<(u32, &str)> {
    (0_u32..).zip(names).find_map(|(i, name)| {
        let begin = text.get(..name.len())?;
        begin.eq_ignore_ascii_case(&name).then(|| text.get(name.len()..)).flatten().map(|rest| (i, rest))
    })
}

fn parts_of(pieces: &[Piece], text: &str, now: NaiveDate) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut rest = text.trim();
    for (i, piece) in pieces.iter().enumerate() {
        let element = match piece {
            Piece::Text(text) => {
                rest = rest.strip_prefix(text.as_str())?;
                continue;
            }
            // Blanks at the ends of a text are left out.
            Piece::Blanks(_) => {
                let behind = rest.trim_start();
                if behind.len() == rest.len() && !rest.is_empty() && i > 0 {
                    return None;
                }
                rest = behind;
                continue;
            }
            Piece::Element(element, _) => *element,
        };
        let delimited = !matches!(pieces.get(i + 1), Some(Piece::Element(..)));
        let mut two = |most: usize| -> Option<u32> {
            let (value, behind) = number(rest, 1, most)?;
            rest = behind;
            Some(value)
        };
        match element {
            Element::Year(4) => {
                let (year, behind) = if delimited { number(rest, 1, 5)? } else { number(rest, 4, 4)? };
                (parts.year, rest) = (Some(i32::try_from(year).ok()?), behind);
            }
            Element::Year(digits) => {
                let (year, behind) = number(rest, digits, digits)?;
                let size = 10_i32.pow(u32::try_from(digits).ok()?);
                (parts.year, rest) = (Some(now.year() - now.year() % size + i32::try_from(year).ok()?), behind);
            }
            Element::NearYear => {
                let (year, behind) = number(rest, 2, 2)?;
                let century = now.year() - now.year() % 100;
                let shift = match (year < 50, now.year() % 100 < 50) {
                    (true, false) => 100,
                    (false, true) => -100,
                    _ => 0,
                };
                (parts.year, rest) = (Some(century + shift + i32::try_from(year).ok()?), behind);
            }
            Element::Month => parts.month = Some(two(2)?),
            Element::MonthName { long } => {
                let names = (1..=12).filter_map(|month| NaiveDate::from_ymd_opt(2000, month, 1));
                let names = names.map(|date| date.format(if long { "%B" } else { "%b" }).to_string());
                let (month, behind) = name(rest, names)?;
                (parts.month, rest) = (Some(month + 1), behind);
            }
            Element::Day => parts.day = Some(two(2)?),
            Element::Hour24 | Element::Hour12 => {
                let hour = two(2)?;
                let most = if element == Element::Hour12 { 1..=12 } else { 0..=23 };
                parts.hour = Some(hour).filter(|hour| most.contains(hour))?;
            }
            Element::Minute => parts.minute = two(2)?,
            Element::Second => parts.second = two(2)?,
            Element::SecondOfDay => parts.second_of_day = Some(two(5)?),
            Element::Fraction(digits) => {
                let (fraction, behind) = number(rest, 1, digits)?;
                let count = rest.len() - behind.len();
                parts.nanos = fraction * 10_u32.pow(u32::try_from(9 - count).ok()?);
                rest = behind;
            }
            Element::Meridian { .. } => {
                let (half, behind) = name(rest, ["A.M.", "P.M."].map(str::to_owned).into_iter())?;
                (parts.after_noon, rest) = (Some(half == 1), behind);
            }
            Element::ZoneHour => {
                let (sign, behind) = match rest.chars().next()? {
                    '-' => (-1, rest.get(1..)?),
                    '+' | ' ' => (1, rest.get(1..)?),
                    _ => return None,
                };
                let (hour, behind) = number(behind, 1, 2)?;
                (parts.zone_hour, rest) = (Some((sign, hour.into())), behind);
            }
            Element::ZoneMinute => parts.zone_minute = two(2)?.into(),
            Element::DayOfYear | Element::DayOfWeek | Element::DayName { .. } => return None,
        }
    }
    rest.trim().is_empty().then_some(parts)
}

fn moment(parts: &Parts, now: NaiveDate, zone: Zone) -> Option<i64> {
    let year = parts.year.unwrap_or(now.year());
    let date = NaiveDate::from_ymd_opt(year, parts.month.unwrap_or(now.month()), parts.day.unwrap_or(1))?;
    let hour = match parts.after_noon {
        None => parts.hour,
        Some(after_noon) => parts.hour % 12 + if after_noon { 12 } else { 0 },
    };
    let time = match parts.second_of_day {
        Some(second) => NaiveTime::from_num_seconds_from_midnight_opt(second, parts.nanos)?,
        None => NaiveTime::from_hms_nano_opt(hour, parts.minute, parts.second, parts.nanos)?,
    };
    let local = date.and_time(time).and_utc().timestamp_micros();
    match parts.zone_hour {
        Some((sign, hour)) if parts.zone_minute < 60 && hour * 60 + parts.zone_minute <= 14 * 60 => {
            local.checked_sub(sign * (hour * 60 + parts.zone_minute) * 60_000_000)
        }
        Some(_) => None,
        None => zone.instant(local),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_their_format() {
        let now = NaiveDate::from_ymd_opt(2025, 11, 20).unwrap();
        let utc = Zone::read("UTC").unwrap();
        for (format, text, expected) in [
            ("YYYY-MM-DD", "1970-01-02", Some(86_400)),
            ("YYYYMMDD", "19700103", Some(172_800)),
            ("YY-MM-DD", "25-1-2", Some(1_735_776_000)),
            ("RR-MM-DD", "70-01-02", Some(86_400)),
            ("MON DD YYYY", "jan 02 1970", Some(86_400)),
            ("DD YYYY MM HH12:MI A.M.", "01 1970 01 12:05 a.m.", Some(300)),
            ("DD YYYY MM HH:MI P.M.", "01 1970 01 01:05 P.M.", Some(47_100)),
            ("YYYY MM DD TZH:TZM", "1970 01 01 -01:30", Some(5_400)),
            ("YYYY-MM", "2025-13", None),
            ("YYYY", "x", None),
            ("YYYY", "2025 x", None),
        ] {
            let model = Model::read(format).unwrap();
            let read = parts_of(&model.0, text, now).and_then(|parts| moment(&parts, now, utc));
            assert_eq!(read, expected.map(|seconds: i64| seconds * 1_000_000), "{format} of {text}");
        }
        for format in ["YYYY YY", "HH", "HH24 A.M.", "SSSSS MI", "DAY", "HH AM"] {
            assert!(Model::read(format).is_err(), "{format}");
        }
    }
}
