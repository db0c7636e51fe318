//! Time zones: names of the tz database and fixed offsets.

use std::str::FromStr;

use chrono::offset::{LocalResult, Offset};
use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeDelta, TimeZone};
use chrono_tz::Tz;
use tidegate_model::nearest;

use crate::rows::{Row, RowError};

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Zone {
    /// A fixed offset from UTC.
    Fixed(FixedOffset),
    /// A zone of the tz database.
    Named(Tz),
}

const SECOND: i64 = 1_000_000;

impl Zone {
    /// A zone by its name or offset.
    ///
    /// # Errors
    /// A message for the caller, with the nearest name.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let name = if matches!(text, "Z" | "z") { "UTC" } else { text };
        if let Some(offset) = fixed(name) {
            return Ok(Self::Fixed(offset));
        }
        if let Ok(zone) = Tz::from_str(name) {
            return Ok(Self::Named(zone));
        }
        let known = || chrono_tz::TZ_VARIANTS.iter();
        if let Some(zone) = known().find(|zone| zone.name().eq_ignore_ascii_case(name)) {
            return Ok(Self::Named(*zone));
        }
        let short: String = text.chars().take(60).collect();
        // A city without its continent.
        let city = |zone: &&Tz| {
            zone.name().rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&short.replace(' ', "_")))
        };
        let near =
            known().find(city).map(|zone| zone.name()).or_else(|| nearest(&short, known().map(|zone| zone.name())));
        Err(match near {
            Some(near) => format!("there is no time zone '{short}'; did you mean '{near}'?"),
            None => format!("there is no time zone '{short}'; write e.g. 'Europe/Berlin' or '+02:00'"),
        })
    }

    /// The zone that an argument names.
    pub(super) fn of(row: &Row, i: usize) -> Result<Self, RowError> {
        Ok(*row.remember(i, |text| Self::read(text).map_err(RowError::from))?)
    }

    /// Whether its clocks show UTC.
    pub fn is_utc(self) -> bool {
        match self {
            Self::Fixed(offset) => offset.local_minus_utc() == 0,
            Self::Named(zone) => {
                matches!(zone.name(), "UTC" | "Etc/UTC" | "GMT" | "Etc/GMT" | "Etc/UCT" | "UCT" | "Zulu" | "Etc/Zulu")
            }
        }
    }

    /// Microseconds east of UTC at an instant.
    pub(super) fn offset(self, micros: i64) -> Option<i64> {
        let seconds = match self {
            Self::Fixed(offset) => offset.local_minus_utc(),
            Self::Named(zone) => {
                let utc = DateTime::from_timestamp_micros(micros)?.naive_utc();
                zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
            }
        };
        Some(i64::from(seconds) * SECOND)
    }

    /// The local time at an instant.
    pub(super) fn local(self, micros: i64) -> Option<i64> {
        micros.checked_add(self.offset(micros)?)
    }

    /// The instant of a local time: the first one of two; for a time that the clocks skip, with the offset before the
    /// gap.
    pub(super) fn instant(self, local: i64) -> Option<i64> {
        let zone = match self {
            Self::Fixed(_) => return local.checked_sub(self.offset(0)?),
            Self::Named(zone) => zone,
        };
        let time = DateTime::from_timestamp_micros(local)?.naive_utc();
        let offset = match zone.offset_from_local_datetime(&time) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset.fix(),
            LocalResult::None => before(zone, time)?,
        };
        local.checked_sub(i64::from(offset.local_minus_utc()) * SECOND)
    }
}

/// The offset before a gap that a time lies in.
fn before(zone: Tz, time: NaiveDateTime) -> Option<FixedOffset> {
    let day_before = time.checked_sub_signed(TimeDelta::days(1))?;
    Some(zone.offset_from_utc_datetime(&day_before).fix())
}

/// `+02:00`, `-8`, `+0530`, `UTC+2`.
fn fixed(text: &str) -> Option<FixedOffset> {
    let text = text.strip_prefix("UTC").unwrap_or(text);
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "0"),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b':') {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if hours > 14 || minutes > 59 {
        return None;
    }
    FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60))
}

/// A time with a short offset, or a date with an offset: `2026-01-31-8:00`.
fn with_offset(text: &str) -> Option<i64> {
    const DATE: usize = "2026-01-31".len();
    let at = text.rfind(['+', '-']).filter(|at| *at >= DATE)?;
    let (time, offset) = text.split_at_checked(at)?;
    if time.get(DATE..)?.contains(['Z', 'z', '+', '-']) {
        return None;
    }
    Zone::Fixed(fixed(offset)?).instant(tidegate_model::parse_timestamp(time)?)
}

/// A time with the name of a zone: `2026-01-31 12:00:00 Europe/Berlin`.
pub(crate) fn with_name(text: &str) -> Option<i64> {
    if let Some(micros) = with_offset(text.trim()) {
        return Some(micros);
    }
    let (time, name) = text.trim().rsplit_once(' ')?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let zone = Zone::read(name).ok()?;
    zone.instant(tidegate_model::parse_timestamp(time)?)
}

/// A text as an instant; `zone` is that of texts without a zone.
pub(super) fn instant_of(text: &str, zone: Zone) -> Option<i64> {
    let text = text.trim();
    let behind = text.get(10..).unwrap_or_default();
    let has_zone = behind.contains(['Z', 'z', '+', '-']) || behind.ends_with("UTC");
    match tidegate_model::parse_timestamp(text) {
        Some(micros) if has_zone => Some(micros),
        Some(local) => zone.instant(local),
        None => with_name(text),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_and_offsets() {
        for (text, minutes) in
            [("+02:00", 120), ("-8", -480), ("+0530", 330), ("UTC", 0), ("Z", 0), ("UTC-3", -180), ("asia/tokyo", 540)]
        {
            assert_eq!(Zone::read(text).unwrap().offset(0), Some(minutes * 60 * SECOND), "{text}");
        }
        for (text, needle) in
            [("Europe/Berln", "'Europe/Berlin'"), ("berlin", "'Europe/Berlin'"), ("+99", "no time zone")]
        {
            let message = Zone::read(text).unwrap_err();
            assert!(message.contains(needle), "{message}");
        }
    }

    #[test]
    fn local_times_are_those_of_chrono_also_around_changes_of_the_clocks() {
        for name in ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe"]
        {
            let zone: Tz = name.parse().unwrap();
            // Every three hours and a bit, from 2015 to 2020.
            let mut micros = 1_420_070_400 * SECOND;
            while micros < 1_577_836_800 * SECOND {
                let shown = DateTime::from_timestamp_micros(micros).unwrap().with_timezone(&zone).naive_local();
                let local = Zone::Named(zone).local(micros).unwrap();
                assert_eq!(local, shown.and_utc().timestamp_micros(), "{name} {micros}");
                let back = Zone::Named(zone).instant(local).unwrap();
                assert!(back == micros || Zone::Named(zone).local(back) == Some(local), "{name} {micros}");
                micros += 11_000 * SECOND;
            }
        }
        // 02:30 was skipped, and 02:30 was shown twice.
        let berlin = Zone::read("Europe/Berlin").unwrap();
        assert_eq!(berlin.instant(1_743_301_800 * SECOND), Some(1_743_298_200 * SECOND));
        assert_eq!(berlin.instant(1_761_445_800 * SECOND), Some(1_761_438_600 * SECOND));
    }
}
