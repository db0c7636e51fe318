//! Kernels of time, on microseconds since the epoch.

use std::fmt::Write;
use std::sync::Arc;

use chrono::{NaiveDate, NaiveTime};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::logical_expr::ColumnarValue;

use super::calendar::{DAY, Part, add_months, day};
use super::strings;
use super::zone::{Zone, instant_of};
use crate::functions::kernels::{Entry, shortened};
use crate::functions::rows::{Bad, Body, Item, Items, Made, Out, Row, TOO_FAR, compute};

pub(in crate::functions) const KERNELS: &[Entry] = &[
    Entry::new("format_time", Body::Text(strings::format)),
    Entry::new("zoned_text", Body::Text(strings::zoned)),
    Entry::new("parse_time_as", Body::Timestamp(strings::parse)),
    Entry::new("zone_local", Body::Timestamp(|row| Ok(Zone::of(row, 1)?.local(row.int(0))))),
    Entry::new("zone_instant", Body::Timestamp(|row| Ok(Zone::of(row, 1)?.instant(row.int(0))))),
    Entry::new(
        "instant_of_text",
        Body::Timestamp(|row| match instant_of(row.text(0), Zone::of(row, 1)?) {
            Some(micros) => Ok(Some(micros)),
            None => {
                let short = shortened(row.text(0));
                Err(format!("the text '{short}' cannot be read as TIMESTAMP; SAFE.TIMESTAMP gives NULL instead").into())
            }
        }),
    ),
    Entry::new("floor_time", Body::Timestamp(|row| Ok(part(row, 0)?.floor(row.int(1))))),
    Entry::new("floor_in_zone", Body::Timestamp(floor_in_zone)),
    Entry::new(
        "parts_between",
        Body::Int(|row| {
            let part = part(row, 0)?;
            Ok(part.index(row.int(1)).zip(part.index(row.int(2))).and_then(|(one, other)| one.checked_sub(other)))
        }),
    ),
    Entry::new(
        "last_day_of",
        Body::Date(|row| {
            let part = part(row, 0)?;
            Ok(part.index(row.int(1)).and_then(|index| part.start(index + 1)).map(|next| next.div_euclid(DAY) - 1))
        }),
    ),
    Entry::new("make_date", Body::Date(|row| date(row).map(Some))),
    Entry::new("make_datetime", Body::Timestamp(|row| Ok(Some(date(row)? * DAY + clock(row, 3)?)))),
    Entry::new("make_time", Body::Time(|row| clock(row, 0).map(Some))),
    Entry::new(
        "date_and_time",
        Body::Timestamp(|row| Ok(row.int(0).checked_mul(DAY).and_then(|day| day.checked_add(row.int(1))))),
    ),
    Entry::new(
        "shift_time",
        Body::Time(|row| {
            let (months, days, nanos) = row.interval(1);
            if (months, days) != (0, 0) {
                return Err("a TIME moves by HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND only".into());
            }
            let by = if row.bool(2) { -(nanos / 1_000) } else { nanos / 1_000 };
            Ok(Some((row.int(0) + by % DAY).rem_euclid(DAY)))
        }),
    ),
    Entry::new("shift_moment", Body::Timestamp(|row| shifted(row, row.int(0)).map(Some))),
    Entry::new(
        "shift_date",
        Body::Date(|row| {
            if row.interval(1).2 != 0 {
                return Err(
                    "a DATE moves by DAY, WEEK, MONTH, QUARTER and YEAR only; DATETIME_ADD moves by hours".into()
                );
            }
            let start = row.int(0).checked_mul(DAY).ok_or(TOO_FAR)?;
            Ok(Some(shifted(row, start)?.div_euclid(DAY)))
        }),
    ),
    Entry::new(
        "shift_days",
        Body::Date(|row| {
            let by = row.int(1);
            let moved = if row.bool(2) { row.int(0).checked_sub(by) } else { row.int(0).checked_add(by) };
            // What is no number of days at all is beyond all dates.
            Ok(Some(moved.unwrap_or(i64::MAX)))
        }),
    ),
    Entry::new("date_of_days", Body::Date(|row| Ok(Some(row.int(0))))),
    Entry::new("moment_of_units", Body::Timestamp(|row| Ok(Some(row.int(0).checked_mul(row.int(1)).ok_or(TOO_FAR)?)))),
    Entry::new("time_of_micros", Body::Time(|row| Ok(Some(row.int(0).rem_euclid(DAY))))),
    Entry::new("bucket_time", Body::Timestamp(bucket)),
    Entry::new("time_series", Body::Timestamps(series)),
    Entry::new("interval_of", Body::Interval(|row| scaled((row.int(1), row.int(2), row.int(3)), row.int(0)))),
    Entry::new("interval_times", Body::Interval(|row| scaled(row.interval(0), row.int(1)))),
    Entry::new(
        "parse_interval",
        Body::Interval(|row| match super::interval::interval_range(row.text(0), "YEAR", "SECOND") {
            Some(parts) => Ok(Some(parts)),
            None => {
                let short = shortened(row.text(0));
                Err(format!("the text '{short}' cannot be read as INTERVAL; write e.g. '1-2 3 4:5:6'").into())
            }
        }),
    ),
    Entry::new(
        "interval_over",
        Body::Interval(|row| {
            if row.int(1) == 0 {
                return Err("division by zero".into());
            }
            let (months, days, nanos) = row.interval(0);
            let (months, days, nanos) = divided((months.into(), days.into(), nanos.into()), row.int(1).into());
            let part = |part: i128| i64::try_from(part).map_err(|_| TOO_LARGE);
            Ok(Some((part(months)?, part(days)?, part(nanos)?)))
        }),
    ),
    Entry::new(
        "make_interval",
        Body::Interval(|row| {
            let of = |i: usize, unit: i64| row.int(i).checked_mul(unit).ok_or(TOO_LARGE);
            let months = of(0, 12)?.checked_add(row.int(1)).ok_or(TOO_LARGE)?;
            let nanos = [of(3, 3_600)?, of(4, 60)?, row.int(5)].into_iter().try_fold(0_i64, i64::checked_add);
            Ok(Some((months, row.int(2), nanos.and_then(|seconds| seconds.checked_mul(NANO)).ok_or(TOO_LARGE)?)))
        }),
    ),
    Entry::new(
        "justify_hours",
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            Ok(Some(justified_hours(months, days, nanos)))
        }),
    ),
    Entry::new(
        "justify_days",
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            Ok(Some(justified_days(months, days, nanos)))
        }),
    ),
    Entry::new(
        "justify_interval",
        Body::Interval(|row| {
            let (months, days, nanos) = row.interval(0);
            let (months, days, nanos) = justified_hours(months, days, nanos);
            Ok(Some(justified_days(months, days, nanos)))
        }),
    ),
    Entry::new(
        "interval_length",
        Body::Int(|row| {
            let (months, days, nanos) = row.interval(0);
            // Intervals that BigQuery has are far below the end.
            let days = (months * 30 + days).saturating_mul(DAY);
            Ok(Some(days.saturating_add(nanos.div_euclid(1_000))))
        }),
    ),
    Entry::new("interval_text", Body::Text(interval_text)),
    Entry::new(
        "interval_part",
        Body::Int(|row| {
            let (months, days, nanos) = row.interval(1);
            Ok(Some(match row.text(0) {
                "YEAR" => months / 12,
                "MONTH" => months % 12,
                "DAY" => days,
                "HOUR" => nanos / (3_600 * NANO),
                "MINUTE" => nanos / (60 * NANO) % 60,
                "SECOND" => nanos / NANO % 60,
                "MILLISECOND" => nanos / 1_000_000 % 1_000,
                "MICROSECOND" => nanos / 1_000 % 1_000_000,
                other => return Err(format!("an INTERVAL has no part {other}").into()),
            }))
        }),
    ),
];

const NANO: i64 = 1_000_000_000;
const TOO_LARGE: &str = "the INTERVAL is too large";

fn part(row: &Row, i: usize) -> Result<Part, Bad> {
    Part::read(row.text(i)).ok_or_else(|| format!("there is no date part {}", row.text(i)).into())
}

/// Below a day by what the clocks show, so that an hour that is shown twice stays two hours.
fn floor_in_zone(row: &Row) -> Made<i64> {
    let (part, micros, zone) = (part(row, 0)?, row.int(1), Zone::of(row, 2)?);
    let Some(offset) = zone.offset(micros) else { return Ok(None) };
    let Some(floor) = micros.checked_add(offset).and_then(|local| part.floor(local)) else { return Ok(None) };
    Ok(match part {
        Part::Micros(unit) if unit < DAY => floor.checked_sub(offset),
        _ => zone.instant(floor),
    })
}

fn date(row: &Row) -> Result<i64, Bad> {
    let small = |i: usize| u32::try_from(row.int(i)).ok();
    let date = i32::try_from(row.int(0))
        .ok()
        .filter(|year| (1..=9999).contains(year))
        .zip(small(1).zip(small(2)))
        .and_then(|(year, (month, day))| NaiveDate::from_ymd_opt(year, month, day));
    match date {
        Some(date) => Ok(day(date)),
        None => Err(format!("there is no date {}-{}-{}", row.int(0), row.int(1), row.int(2)).into()),
    }
}

fn clock(row: &Row, i: usize) -> Result<i64, Bad> {
    let small = |i: usize| u32::try_from(row.int(i)).unwrap_or(u32::MAX);
    match NaiveTime::from_hms_opt(small(i), small(i + 1), small(i + 2)) {
        Some(_) => Ok((row.int(i) * 3_600 + row.int(i + 1) * 60 + row.int(i + 2)) * 1_000_000),
        None => Err(format!("there is no time {}:{}:{}", row.int(i), row.int(i + 1), row.int(i + 2)).into()),
    }
}

fn scaled(unit: (i64, i64, i64), count: i64) -> Made<(i64, i64, i64)> {
    let times = |part: i64| part.checked_mul(count).ok_or(TOO_LARGE);
    Ok(Some((times(unit.0)?, times(unit.1)?, times(unit.2)?)))
}

/// A time moved by the interval of argument 1, back if argument 2 says so: by months first, then
/// by the rest.
fn shifted(row: &Row, micros: i64) -> Result<i64, Bad> {
    let (months, days, nanos) = row.interval(1);
    let sign = if row.bool(2) { -1 } else { 1 };
    let start = if months == 0 { micros } else { add_months(micros, sign * months).ok_or(TOO_FAR)? };
    let by = days.checked_mul(DAY).and_then(|days| days.checked_add(nanos / 1_000)).ok_or(TOO_FAR)?;
    Ok(start.checked_add(sign * by).ok_or(TOO_FAR)?)
}

/// An interval divided: what is left of the months goes to the days, what is left of them to the
/// hours. Whole microseconds.
pub(in crate::functions) fn divided((months, days, nanos): (i128, i128, i128), by: i128) -> (i128, i128, i128) {
    let days = days.saturating_add(30 * (months % by));
    let nanos = nanos.saturating_add(86_400 * i128::from(NANO) * (days % by));
    (months / by, days / by, nanos / by / 1_000 * 1_000)
}

/// The length of an interval: months, or microseconds.
fn length(row: &Row, i: usize) -> Result<Result<i64, i64>, Bad> {
    let (months, days, nanos) = row.interval(i);
    let micros = days.checked_mul(DAY).and_then(|days| days.checked_add(nanos / 1_000)).ok_or(TOO_LARGE)?;
    match (months, micros) {
        (0, 0) => Err("an INTERVAL of 0 has no buckets or steps".into()),
        (months, 0) => Ok(Ok(months)),
        (0, micros) => Ok(Err(micros)),
        _ => Err("an INTERVAL here has either months or days and hours, not both".into()),
    }
}

fn bucket(row: &Row) -> Made<i64> {
    let (micros, origin) = (row.int(0), row.int(2));
    let too_far = "the time is too far from the origin of its buckets";
    match length(row, 1)? {
        Ok(step) | Err(step) if step < 0 => Err("an INTERVAL of buckets is above 0".into()),
        Err(step) => {
            let since = micros.checked_sub(origin).ok_or(too_far)?;
            let start = since.div_euclid(step).checked_mul(step).and_then(|by| origin.checked_add(by));
            Ok(Some(start.ok_or(too_far)?))
        }
        Ok(months) => {
            let index = |micros: i64| Part::Month.index(micros).ok_or(too_far);
            let mut count = (index(micros)? - index(origin)?).div_euclid(months);
            let mut start = add_months(origin, count * months).ok_or(too_far)?;
            if start > micros {
                count -= 1;
                start = add_months(origin, count * months).ok_or(too_far)?;
            }
            Ok(Some(start))
        }
    }
}

fn series(row: &Row, items: &mut Items<'_>) -> Made<()> {
    let (start, end, step) = (row.int(0), row.int(1), length(row, 2)?);
    let (Ok(size) | Err(size)) = step;
    let mut count = 0;
    loop {
        let next = match step {
            Ok(months) => months.checked_mul(count).and_then(|months| add_months(start, months)),
            Err(micros) => micros.checked_mul(count).and_then(|by| start.checked_add(by)),
        };
        let Some(next) = next.filter(|next| if size > 0 { *next <= end } else { *next >= end }) else {
            return Ok(Some(()));
        };
        if count >= i64::from(crate::functions::array::MAX_MADE) {
            let most = crate::functions::array::MAX_MADE;
            return Err(Bad::Limit(format!(
                "an array of times would have more than {most} elements; take a larger step"
            )));
        }
        items.push(Item::Int(next))?;
        count += 1;
    }
}

fn justified_hours(months: i64, days: i64, nanos: i64) -> (i64, i64, i64) {
    let day = 86_400 * NANO;
    let (mut days, mut nanos) = (days + nanos / day, nanos % day);
    if days > 0 && nanos < 0 {
        (days, nanos) = (days - 1, nanos + day);
    } else if days < 0 && nanos > 0 {
        (days, nanos) = (days + 1, nanos - day);
    }
    (months, days, nanos)
}

fn justified_days(months: i64, days: i64, nanos: i64) -> (i64, i64, i64) {
    let (mut months, mut days) = (months + days / 30, days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    (months, days, nanos)
}

/// `[-]years-months [-]days [-]hours:minutes:seconds[.fraction]`.
fn interval_text(row: &Row, out: &mut Out) -> Made<()> {
    let (months, days, nanos) = row.interval(0);
    let sign = |n: i64| if n < 0 { "-" } else { "" };
    let (m, size) = (months.unsigned_abs(), nanos.unsigned_abs());
    write!(out, "{}{}-{} {days} ", sign(months), m / 12, m % 12)?;
    let seconds = size / NANO.unsigned_abs();
    write!(out, "{}{}:{}:{}", sign(nanos), seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    let fraction = format!("{:09}", size % NANO.unsigned_abs());
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let digits = fraction.len().div_ceil(3) * 3;
        write!(out, ".{fraction:0<digits$}")?;
    }
    Ok(Some(()))
}

/// Intervals as results show them.
pub(crate) fn interval_texts(array: &ArrayRef) -> datafusion::error::Result<StringViewArray> {
    let arguments = [ColumnarValue::Array(Arc::clone(array))];
    let (texts, _) = compute(Body::Text(interval_text), false, true, &arguments, array.len())?;
    Ok(texts.as_string_view().clone())
}
