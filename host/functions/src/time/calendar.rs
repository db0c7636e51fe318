//! The calendar: parts of time as numbers since the epoch, and back. All in local microseconds.

use chrono::{DateTime, Datelike, NaiveDate, Weekday};

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const DAY: i64 = 86_400 * SECOND;

/// A part of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    /// So many microseconds, a day at most.
    Micros(i64),
    /// A week that begins so many days after Sunday.
    Week(i64),
    /// A month.
    Month,
    /// Three months.
    Quarter,
    /// A year.
    Year,
    /// A year of ISO weeks.
    IsoYear,
}

impl Part {
    /// A part by its name in capitals.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name {
            "MICROSECOND" => Self::Micros(1),
            "MILLISECOND" => Self::Micros(1_000),
            "SECOND" => Self::Micros(SECOND),
            "MINUTE" => Self::Micros(60 * SECOND),
            "HOUR" => Self::Micros(3_600 * SECOND),
            "DAY" => Self::Micros(DAY),
            "WEEK" | "WEEK(SUNDAY)" => Self::Week(0),
            "ISOWEEK" | "WEEK(MONDAY)" => Self::Week(1),
            "WEEK(TUESDAY)" => Self::Week(2),
            "WEEK(WEDNESDAY)" => Self::Week(3),
            "WEEK(THURSDAY)" => Self::Week(4),
            "WEEK(FRIDAY)" => Self::Week(5),
            "WEEK(SATURDAY)" => Self::Week(6),
            "MONTH" => Self::Month,
            "QUARTER" => Self::Quarter,
            "YEAR" => Self::Year,
            "ISOYEAR" => Self::IsoYear,
            _ => return None,
        })
    }

    /// The number of the part that a time lies in; equal numbers are the same part.
    pub(super) fn index(self, micros: i64) -> Option<i64> {
        if let Self::Micros(unit) = self {
            return Some(micros.div_euclid(unit));
        }
        // The epoch was a Thursday.
        if let Self::Week(begin) = self {
            return Some((micros.div_euclid(DAY) + 4 - begin).div_euclid(7));
        }
        let date = DateTime::from_timestamp_micros(micros)?.date_naive();
        let months = i64::from(date.year()) * 12 + i64::from(date.month0());
        Some(match self {
            Self::Month => months,
            Self::Quarter => months.div_euclid(3),
            Self::IsoYear => i64::from(date.iso_week().year()),
            _ => i64::from(date.year()),
        })
    }

    /// The first microsecond of the part with a number.
    pub(super) fn start(self, index: i64) -> Option<i64> {
        let months = match self {
            Self::Micros(unit) => return index.checked_mul(unit),
            Self::Week(begin) => return (index * 7 - 4 + begin).checked_mul(DAY),
            Self::IsoYear => {
                return day(NaiveDate::from_isoywd_opt(i32::try_from(index).ok()?, 1, Weekday::Mon)?).checked_mul(DAY);
            }
            Self::Month => index,
            Self::Quarter => index * 3,
            Self::Year => index * 12,
        };
        let (year, month) =
            (i32::try_from(months.div_euclid(12)).ok()?, u32::try_from(months.rem_euclid(12)).ok()? + 1);
        day(NaiveDate::from_ymd_opt(year, month, 1)?).checked_mul(DAY)
    }

    /// The first microsecond of the part that a time lies in.
    pub(super) fn floor(self, micros: i64) -> Option<i64> {
        self.start(self.index(micros)?)
    }
}

/// Days since the epoch.
pub(super) fn day(date: NaiveDate) -> i64 {
    i64::from(date.to_epoch_days())
}

/// A time moved by months. Where the month is shorter, the day is its last.
pub(crate) fn add_months(micros: i64, months: i64) -> Option<i64> {
    use chrono::Months;
    let time = DateTime::from_timestamp_micros(micros)?;
    let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    let moved = if months < 0 { time.checked_sub_months(count)? } else { time.checked_add_months(count)? };
    Some(moved.timestamp_micros())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_part_holds_its_time_and_its_neighbour_does_not() {
        for name in ["HOUR", "DAY", "WEEK", "WEEK(MONDAY)", "WEEK(SATURDAY)", "MONTH", "QUARTER", "YEAR", "ISOYEAR"] {
            let part = Part::read(name).unwrap();
            let mut micros = -40_000 * DAY - 1;
            while micros < 40_000 * DAY {
                let index = part.index(micros).unwrap();
                let (start, next) = (part.start(index).unwrap(), part.start(index + 1).unwrap());
                assert!(start <= micros && micros < next, "{name} {micros}");
                assert_eq!(part.index(start), Some(index), "{name} {micros}");
                assert_eq!(part.index(next - 1), Some(index), "{name} {micros}");
                micros += 13 * DAY + 12_345_678_901;
            }
        }
        // A Sunday, a Monday, the first day of an ISO year.
        assert_eq!(Part::Week(0).floor(3 * DAY + 5), Some(3 * DAY));
        assert_eq!(Part::Week(1).floor(4 * DAY), Some(4 * DAY));
        assert_eq!(Part::IsoYear.floor(0), Some(-3 * DAY));
    }
}
