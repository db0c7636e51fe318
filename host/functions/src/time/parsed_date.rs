//! The date that the elements of a format name, as BigQuery reads them.
//!
//! Chrono has other rules: it begins the 1900s with the year 70, needs all elements of a form, and refuses a day of the
//! week that does not fit the date, which BigQuery ignores.

use chrono::format::Parsed;
use chrono::{Datelike, NaiveDate, TimeDelta, Weekday};

/// The date. Missing parts are those of 1970-01-01; an element of ISO weeks counts only where there is no other.
pub(super) fn date_of(parsed: &Parsed) -> Option<NaiveDate> {
    let year = year_of(parsed);
    let shown = year.unwrap_or(1970);
    if parsed.month().is_some() || parsed.day().is_some() {
        return NaiveDate::from_ymd_opt(shown, parsed.month().unwrap_or(1), parsed.day().unwrap_or(1));
    }
    if let Some(day) = parsed.ordinal() {
        return NaiveDate::from_yo_opt(shown, day);
    }
    if let Some(week) = parsed.week_from_sun() {
        return day_of_week(shown, week, Weekday::Sun, parsed.weekday());
    }
    if let Some(week) = parsed.week_from_mon() {
        return day_of_week(shown, week, Weekday::Mon, parsed.weekday());
    }
    let iso_year = parsed.isoyear().or_else(|| parsed.isoyear_mod_100().map(with_century));
    match (year, iso_year, parsed.isoweek()) {
        (None, Some(year), None) => NaiveDate::from_isoywd_opt(year, 1, Weekday::Mon),
        (None, Some(year), Some(week)) => {
            NaiveDate::from_isoywd_opt(year, week, parsed.weekday().unwrap_or(Weekday::Mon))
        }
        _ => NaiveDate::from_ymd_opt(shown, 1, 1),
    }
}

fn year_of(parsed: &Parsed) -> Option<i32> {
    if let Some(year) = parsed.year() {
        return Some(year);
    }
    match (parsed.year_div_100(), parsed.year_mod_100()) {
        (Some(century), year) => century.checked_mul(100)?.checked_add(year.unwrap_or(0)),
        (None, year) => year.map(with_century),
    }
}

/// A year of two digits: 69 to 99 are of the 1900s, as in POSIX.
fn with_century(year: i32) -> i32 {
    if year < 69 { year + 2000 } else { year + 1900 }
}

/// A day of week `week` of a year, of weeks that begin with `begin`; without a day, the first of the week. Week 0 is what
/// lies before the first such day of the year.
fn day_of_week(year: i32, week: u32, begin: Weekday, day: Option<Weekday>) -> Option<NaiveDate> {
    let january = NaiveDate::from_ymd_opt(year, 1, 1)?;
    let before = begin.days_since(january.weekday());
    if week == 0 && before == 0 {
        return None;
    }
    let start = i64::from(before) + 7 * (i64::from(week) - 1);
    let start = january.checked_add_signed(TimeDelta::days(start))?;
    if start.year() > year {
        return None;
    }
    start.checked_add_signed(TimeDelta::days(day.map_or(0, |day| day.days_since(begin)).into()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use chrono::format::{StrftimeItems, parse};

    use super::*;

    #[test]
    fn dates_are_read_as_bigquery_reads_them() {
        for (format, text, expected) in [
            ("%m/%d/%y", "12/31/69", Some("1969-12-31")),
            ("%m/%d/%y", "12/31/68", Some("2068-12-31")),
            ("%D", "01/02/99", Some("1999-01-02")),
            ("%y", "00", Some("2000-01-01")),
            ("%C%y", "1969", Some("1969-01-01")),
            ("%C%y", "1805", Some("1805-01-01")),
            ("%C", "19", Some("1900-01-01")),
            ("%j", "100", Some("1970-04-10")),
            ("%Y-%j", "2024-366", Some("2024-12-31")),
            ("%Y-%j", "2025-366", None),
            ("%y%j", "69001", Some("1969-01-01")),
            ("%Y-%m-%d", "2025-02-30", None),
            ("%A %Y-%m-%d", "Monday 2025-11-20", Some("2025-11-20")),
            ("%A %j", "Monday 100", Some("1970-04-10")),
            ("%A", "Monday", Some("1970-01-01")),
            ("%Y %U", "2025 10", Some("2025-03-09")),
            ("%Y %U %w", "2025 10 3", Some("2025-03-12")),
            ("%Y %W %a", "2025 0 Wed", Some("2025-01-01")),
            ("%Y %U", "2023 0", None),
            ("%Y %U", "2025 53", None),
            ("%G-W%V-%u", "2026-W01-1", Some("2025-12-29")),
            ("%G-W%V", "2025-W10", Some("2025-03-03")),
            ("%G", "2026", Some("2025-12-29")),
            ("%g", "69", Some("1968-12-30")),
            ("%G-W%V", "2025-W53", None),
            ("%Y %V", "2025 10", Some("2025-01-01")),
        ] {
            let mut parsed = Parsed::new();
            parse(&mut parsed, text, StrftimeItems::new(format)).unwrap();
            assert_eq!(date_of(&parsed).map(|date| date.to_string()).as_deref(), expected, "{format} of {text}");
        }
    }
}
