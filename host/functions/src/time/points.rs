//! Kernels of points in time, on microseconds since the epoch.

use chrono::{NaiveDate, NaiveTime};
use datafusion::arrow::datatypes::{DataType, TimeUnit};

use super::calendar::{DAY, Part, add_months, day};
use super::interval::TOO_LARGE;
use super::zone::{Zone, instant_of};
use super::{batches, elements, read_elements, strings};
use crate::arrays::shortened;
use crate::kernel::{Fallibility, Kernel};
use crate::rows::{Body, Item, Items, MAX_SERIES, Row, RowError, RowResult, TOO_FAR};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("format_time", 3..=3, Body::Text(strings::format)),
    Kernel::rows("time_in_elements", 4..=4, Body::Text(elements::format)),
    Kernel::rows("time_of_elements", 5..=5, Body::Timestamp(read_elements::read)),
    Kernel::rows("zoned_text", 2..=2, Body::Text(strings::zoned)),
    Kernel::rows("parse_time_as", 3..=3, Body::Timestamp(strings::parse)),
    Kernel::rows("zone_local", 2..=2, Body::Timestamp(|row| Ok(Zone::of(row, 1)?.local(row.int(0)))))
        .with_whole(batches::unmoved),
    Kernel::rows("zone_instant", 2..=2, Body::Timestamp(|row| Ok(Zone::of(row, 1)?.instant(row.int(0)))))
        .with_whole(batches::unmoved),
    Kernel::rows(
        "instant_of_text",
        2..=2,
        Body::Timestamp(|row| match instant_of(row.text(0), Zone::of(row, 1)?) {
            Some(micros) => Ok(Some(micros)),
            None => {
                let short = shortened(row.text(0));
                Err(format!("the text '{short}' cannot be read as TIMESTAMP; SAFE.TIMESTAMP gives NULL instead").into())
            }
        }),
    ),
    Kernel::rows("floor_time", 2..=2, Body::Timestamp(|row| Ok(part(row, 0)?.floor(row.int(1)))))
        .with_whole(batches::floored)
        .with_order_of(1),
    // For times that are stored: within the bounds of the type they cannot leave them, and outside nothing fails.
    Kernel::arrays("floor_to_unit", 2, DataType::Timestamp(TimeUnit::Microsecond, None), batches::floored_to_units)
        .with_whole(batches::floored_to_unit)
        .with_fallibility(Fallibility::Infallible)
        .with_order_of(1),
    Kernel::rows("floor_in_zone", 3..=3, Body::Timestamp(floor_in_zone)),
    Kernel::rows(
        "parts_between",
        3..=3,
        Body::Int(|row| {
            let part = part(row, 0)?;
            Ok(part.index(row.int(1)).zip(part.index(row.int(2))).and_then(|(one, other)| one.checked_sub(other)))
        }),
    ),
    Kernel::rows(
        "last_day_of",
        2..=2,
        Body::Date(|row| {
            let part = part(row, 0)?;
            Ok(part.index(row.int(1)).and_then(|index| part.start(index + 1)).map(|next| next.div_euclid(DAY) - 1))
        }),
    ),
    Kernel::rows("make_date", 3..=3, Body::Date(|row| date(row).map(Some))),
    Kernel::rows("make_datetime", 6..=6, Body::Timestamp(|row| Ok(Some(date(row)? * DAY + clock(row, 3)?)))),
    Kernel::rows("make_time", 3..=3, Body::Time(|row| clock(row, 0).map(Some))),
    Kernel::rows(
        "date_and_time",
        2..=2,
        Body::Timestamp(|row| Ok(row.int(0).checked_mul(DAY).and_then(|day| day.checked_add(row.int(1))))),
    ),
    Kernel::rows(
        "shift_time",
        3..=3,
        Body::Time(|row| {
            let (months, days, nanos) = row.interval(1);
            if (months, days) != (0, 0) {
                return Err("a TIME moves by HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND only".into());
            }
            let by = if row.bool(2) { -(nanos / 1_000) } else { nanos / 1_000 };
            Ok(Some((row.int(0) + by % DAY).rem_euclid(DAY)))
        }),
    ),
    Kernel::rows("shift_moment", 3..=3, Body::Timestamp(|row| shifted(row, row.int(0)).map(Some))),
    Kernel::rows(
        "shift_date",
        3..=3,
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
    Kernel::rows(
        "shift_days",
        3..=3,
        Body::Date(|row| {
            let by = row.int(1);
            let moved = if row.bool(2) { row.int(0).checked_sub(by) } else { row.int(0).checked_add(by) };
            // An overflow is beyond all dates.
            Ok(Some(moved.unwrap_or(i64::MAX)))
        }),
    ),
    Kernel::rows("date_of_days", 1..=1, Body::Date(|row| Ok(Some(row.int(0))))),
    Kernel::rows(
        "moment_of_units",
        2..=2,
        Body::Timestamp(|row| Ok(Some(row.int(0).checked_mul(row.int(1)).ok_or(TOO_FAR)?))),
    ),
    Kernel::rows("time_of_micros", 1..=1, Body::Time(|row| Ok(Some(row.int(0).rem_euclid(DAY))))),
    Kernel::rows("bucket_time", 3..=4, Body::Timestamp(bucket)),
    Kernel::rows("time_series", 3..=3, Body::Timestamps(series)),
];

fn part(row: &Row, i: usize) -> Result<Part, RowError> {
    Part::read(row.text(i)).ok_or_else(|| format!("there is no date part {}", row.text(i)).into())
}

/// Parts below a day keep the offset of the time, so that an hour that the clocks show twice stays two hours.
fn floor_in_zone(row: &Row) -> RowResult<i64> {
    let (part, micros, zone) = (part(row, 0)?, row.int(1), Zone::of(row, 2)?);
    let Some(offset) = zone.offset(micros) else { return Ok(None) };
    let Some(floor) = micros.checked_add(offset).and_then(|local| part.floor(local)) else { return Ok(None) };
    Ok(match part {
        Part::Micros(unit) if unit < DAY => floor.checked_sub(offset),
        _ => zone.instant(floor),
    })
}

fn date(row: &Row) -> Result<i64, RowError> {
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

fn clock(row: &Row, i: usize) -> Result<i64, RowError> {
    let small = |i: usize| u32::try_from(row.int(i)).unwrap_or(u32::MAX);
    match NaiveTime::from_hms_opt(small(i), small(i + 1), small(i + 2)) {
        Some(_) => Ok((row.int(i) * 3_600 + row.int(i + 1) * 60 + row.int(i + 2)) * 1_000_000),
        None => Err(format!("there is no time {}:{}:{}", row.int(i), row.int(i + 1), row.int(i + 2)).into()),
    }
}

/// A time moved by the interval of argument 1, backwards if argument 2 is true: by months first, then by the rest.
fn shifted(row: &Row, micros: i64) -> Result<i64, RowError> {
    let (months, days, nanos) = row.interval(1);
    let sign = if row.bool(2) { -1 } else { 1 };
    let start = if months == 0 { micros } else { add_months(micros, sign * months).ok_or(TOO_FAR)? };
    let by = days.checked_mul(DAY).and_then(|days| days.checked_add(nanos / 1_000)).ok_or(TOO_FAR)?;
    Ok(start.checked_add(sign * by).ok_or(TOO_FAR)?)
}

/// The length of an interval: months, or microseconds.
pub(crate) fn length(row: &Row, i: usize) -> Result<Result<i64, i64>, RowError> {
    let (months, days, nanos) = row.interval(i);
    let micros = days.checked_mul(DAY).and_then(|days| days.checked_add(nanos / 1_000)).ok_or(TOO_LARGE)?;
    match (months, micros) {
        (0, 0) => Err("an INTERVAL of 0 has no buckets or steps".into()),
        (months, 0) => Ok(Ok(months)),
        (0, micros) => Ok(Err(micros)),
        _ => Err("an INTERVAL here has either months or days and hours, not both".into()),
    }
}

fn bucket(row: &Row) -> RowResult<i64> {
    if row.count() > 3 && row.interval(1).2 != 0 {
        return Err("a DATE has buckets of DAY, MONTH and YEAR only".into());
    }
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

/// Each element is a step behind the one before: months behind January 31 come February 28 and March 28.
fn series(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let (start, end, step) = (row.int(0), row.int(1), length(row, 2)?);
    let (Ok(size) | Err(size)) = step;
    let mut next = Some(start);
    for count in 0_i64.. {
        let Some(element) = next.filter(|next| if size > 0 { *next <= end } else { *next >= end }) else { break };
        if count >= i64::from(MAX_SERIES) {
            return Err(RowError::Limit(format!(
                "an array of times would have more than {MAX_SERIES} elements; take a larger step"
            )));
        }
        items.push(Item::Int(element))?;
        next = match step {
            Ok(months) => add_months(element, months),
            Err(micros) => element.checked_add(micros),
        };
    }
    Ok(Some(()))
}
