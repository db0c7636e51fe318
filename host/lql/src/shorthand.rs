//! Times relative to the present: `now`, `today`, `yesterday`, `this@hour`, `last@15minutes`.

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use crate::cursor::Cursor;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// In the order in which they are tried: a longer name before its prefix.
const UNITS: [(&str, Unit); 21] = [
    ("seconds", Unit::Second),
    ("second", Unit::Second),
    ("minutes", Unit::Minute),
    ("minute", Unit::Minute),
    ("hours", Unit::Hour),
    ("hour", Unit::Hour),
    ("days", Unit::Day),
    ("day", Unit::Day),
    ("weeks", Unit::Week),
    ("week", Unit::Week),
    ("months", Unit::Month),
    ("month", Unit::Month),
    ("years", Unit::Year),
    ("year", Unit::Year),
    ("mm", Unit::Month),
    ("s", Unit::Second),
    ("m", Unit::Minute),
    ("h", Unit::Hour),
    ("d", Unit::Day),
    ("w", Unit::Week),
    ("y", Unit::Year),
];

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }
}

/// A relative time as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shorthand(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Now,
    Today,
    Yesterday,
    This(Unit),
    Last(u32, Unit),
}

/// The times that a relative time stands for, in UTC, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    At(NaiveDateTime),
    Between(NaiveDateTime, NaiveDateTime),
}

impl Shorthand {
    pub(crate) fn read(c: &mut Cursor<'_>) -> Option<Self> {
        c.attempt(|c| {
            let words = [("now", Kind::Now), ("today", Kind::Today), ("yesterday", Kind::Yesterday)];
            if let Some(kind) = c.eat_one(&words) {
                return Some(Self(kind));
            }
            if c.eat("this@") {
                let unit = c.eat_one(&UNITS).filter(|unit| *unit != Unit::Second)?;
                return Some(Self(Kind::This(unit)));
            }
            if !c.eat("last@") {
                return None;
            }
            let amount = match c.digits_between(1, 4) {
                Some(digits) => digits.parse().ok()?,
                None => 1,
            };
            Some(Self(Kind::Last(amount, c.eat_one(&UNITS)?)))
        })
    }

    /// The canonical form, for instance `last@2week`.
    pub(crate) fn text(self) -> String {
        match self.0 {
            Kind::Now => "now".to_owned(),
            Kind::Today => "today".to_owned(),
            Kind::Yesterday => "yesterday".to_owned(),
            Kind::This(unit) => format!("this@{}", unit.name()),
            Kind::Last(amount, unit) => format!("last@{amount}{}", unit.name()),
        }
    }

    /// The times that it stands for. A time before the year 1 is replaced by the beginning of the year 1.
    pub(crate) fn span(self, now: NaiveDateTime) -> Span {
        let now = now.with_nanosecond(0).unwrap_or(now);
        let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
        let whole_day = |date: NaiveDate| {
            let start = midnight(date);
            let end = start.checked_add_signed(TimeDelta::seconds(86_399)).unwrap_or(start);
            Span::Between(start, end)
        };
        match self.0 {
            Kind::Now => Span::At(now),
            Kind::Today => whole_day(now.date()),
            Kind::Yesterday => whole_day(now.date().pred_opt().unwrap_or(now.date())),
            Kind::This(unit) => Span::Between(floor(now, unit), now),
            Kind::Last(amount, unit) => {
                let start = back(now, amount, unit).filter(|start| start.year() >= 1);
                let first = NaiveDate::from_ymd_opt(1, 1, 1).map_or(now, midnight);
                Span::Between(start.unwrap_or(first), now)
            }
        }
    }
}

/// The start of the unit that `now` lies in; a week starts on Monday.
fn floor(now: NaiveDateTime, unit: Unit) -> NaiveDateTime {
    let date = now.date();
    let day = match unit {
        Unit::Second => return now,
        Unit::Minute => return now.with_second(0).unwrap_or(now),
        Unit::Hour => {
            return now.with_second(0).and_then(|t| t.with_minute(0)).unwrap_or(now);
        }
        Unit::Day => Some(date),
        Unit::Week => {
            let since_monday = u64::from(date.weekday().num_days_from_monday());
            date.checked_sub_days(Days::new(since_monday))
        }
        Unit::Month => date.with_day(1),
        Unit::Year => NaiveDate::from_ymd_opt(date.year(), 1, 1),
    };
    day.unwrap_or(date).and_time(NaiveTime::MIN)
}

/// `amount` units before now. Now is truncated to the unit, for units longer than a day to the day.
fn back(now: NaiveDateTime, amount: u32, unit: Unit) -> Option<NaiveDateTime> {
    let n = i64::from(amount);
    match unit {
        Unit::Second => now.checked_sub_signed(TimeDelta::seconds(n)),
        Unit::Minute => floor(now, unit).checked_sub_signed(TimeDelta::minutes(n)),
        Unit::Hour => floor(now, unit).checked_sub_signed(TimeDelta::hours(n)),
        Unit::Day => floor(now, Unit::Day).checked_sub_days(Days::new(u64::from(amount))),
        Unit::Week => floor(now, Unit::Day).checked_sub_days(Days::new(u64::from(amount) * 7)),
        Unit::Month => floor(now, Unit::Day).checked_sub_months(Months::new(amount)),
        Unit::Year => floor(now, Unit::Day).checked_sub_months(Months::new(amount * 12)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Shorthand, String)> {
        let mut cursor = Cursor::new(text, 0);
        Shorthand::read(&mut cursor).map(|s| (s, cursor.rest().to_owned()))
    }

    #[test]
    fn spans() {
        // A Wednesday.
        let now = NaiveDate::from_ymd_opt(2024, 7, 31).and_then(|d| d.and_hms_micro_opt(13, 47, 12, 345_678)).unwrap();
        let cases = [
            ("today", "2024-07-31 00:00:00", "2024-07-31 23:59:59"),
            ("yesterday", "2024-07-30 00:00:00", "2024-07-30 23:59:59"),
            ("this@m", "2024-07-31 13:47:00", "2024-07-31 13:47:12"),
            ("this@hours", "2024-07-31 13:00:00", "2024-07-31 13:47:12"),
            ("this@week", "2024-07-29 00:00:00", "2024-07-31 13:47:12"),
            ("this@mm", "2024-07-01 00:00:00", "2024-07-31 13:47:12"),
            ("this@y", "2024-01-01 00:00:00", "2024-07-31 13:47:12"),
            ("last@30s", "2024-07-31 13:46:42", "2024-07-31 13:47:12"),
            ("last@h", "2024-07-31 12:00:00", "2024-07-31 13:47:12"),
            ("last@2d", "2024-07-29 00:00:00", "2024-07-31 13:47:12"),
            ("last@1w", "2024-07-24 00:00:00", "2024-07-31 13:47:12"),
            ("last@1month", "2024-06-30 00:00:00", "2024-07-31 13:47:12"),
            ("last@1y", "2023-07-31 00:00:00", "2024-07-31 13:47:12"),
            ("last@9999y", "0001-01-01 00:00:00", "2024-07-31 13:47:12"),
        ];
        for (text, start, end) in cases {
            let (shorthand, rest) = read(text).unwrap();
            assert_eq!(rest, "", "{text}");
            let Span::Between(from, to) = shorthand.span(now) else {
                panic!("{text} is a range");
            };
            assert_eq!((from.to_string().as_str(), to.to_string().as_str()), (start, end), "{text}");
        }
        let (shorthand, _) = read("now").unwrap();
        assert_eq!(shorthand.span(now), Span::At(now.with_nanosecond(0).unwrap()));
    }

    #[test]
    fn spellings() {
        for (text, wanted, left) in [
            ("last@7days", "last@7day", ""),
            ("last@3mins", "last@3minute", "ins"),
            ("last@4mm", "last@4month", ""),
            ("this@w", "this@week", ""),
            ("last@day", "last@1day", ""),
        ] {
            let (shorthand, rest) = read(text).unwrap();
            assert_eq!((shorthand.text().as_str(), rest.as_str()), (wanted, left), "{text}");
        }
        for text in ["this@second", "last@12345h", "last@9", "last@", "soon", "this@3h"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
