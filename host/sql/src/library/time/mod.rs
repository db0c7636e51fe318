//! Time: truncation, arithmetic, parts, conversion, formatting.
//!
//! In UTC most of it is built from the engine's own functions, by which filters are pruned. Time zones, and what the
//! engine lacks, are kernels.

pub(super) mod interval;
pub(super) mod range;
pub(super) mod text;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::datetime::expr_fn as engine;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::scalar::ScalarValue;
use tidegate_functions::time::{DAY, Part, SECOND, Zone};
use tidegate_model::{Code, Position};

pub(crate) use interval::{computed as computed_interval, interval_over, interval_times, time_arithmetic};

use super::call::{Argument, Builder, Call};
use crate::fail::{Result, fail};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::kernel;
use crate::typing::{Conversion, folded};

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("CURRENT_TIMESTAMP", |call| {
        call.count(0, 0)?;
        Ok(instant(call.now, Type::Timestamp))
    }),
    ("NOW", |call| {
        call.count(0, 0)?;
        Ok(instant(call.now, Type::Timestamp))
    }),
    ("CURRENT_DATETIME", |call| current(call, &Type::Datetime)),
    ("CURRENT_DATE", |call| current(call, &Type::Date)),
    ("CURRENT_TIME", |call| current(call, &Type::Time)),
    ("TIMESTAMP", |call| {
        call.count(1, 2)?;
        let value = call.value(0)?;
        match zone(call, 1)? {
            None => value.convert(&Type::Timestamp, Conversion::cast(call.at, call.safe)),
            Some(zone) => match value.ty {
                Type::Timestamp => Ok(value),
                Type::Date | Type::Datetime => {
                    let datetime = value.convert(&Type::Datetime, Conversion::implicit(call.at))?;
                    Ok(Typed::new(kernel("zone_instant", call.safe, vec![datetime.expr, zone]), Type::Timestamp))
                }
                _ => Ok(Typed::new(kernel("instant_of_text", call.safe, vec![call.text(0)?, zone]), Type::Timestamp)),
            },
        }
    }),
    ("DATETIME", |call| match call.count(1, 6)? {
        6 => call.run("make_datetime", 6, &[INT, INT, INT, INT, INT, INT], Type::Datetime),
        2 if call.value(0)?.ty == Type::Date && call.value(1)?.literal_text().is_none() => {
            call.run("date_and_time", 2, &[Type::Date, Type::Time], Type::Datetime)
        }
        1 | 2 => shown(call, &Type::Datetime),
        _ => Err(call.fails("write DATETIME(year, month, day, hour, minute, second)")),
    }),
    ("DATE", |call| match call.count(1, 3)? {
        3 => call.run("make_date", 3, &[INT, INT, INT], Type::Date),
        _ => shown(call, &Type::Date),
    }),
    ("TIME", |call| match call.count(1, 3)? {
        3 => call.run("make_time", 3, &[INT, INT, INT], Type::Time),
        _ => shown(call, &Type::Time),
    }),
    ("TIMESTAMP_TRUNC", |call| truncate(call, &Type::Timestamp)),
    ("DATETIME_TRUNC", |call| truncate(call, &Type::Datetime)),
    ("DATE_TRUNC", |call| truncate(call, &Type::Date)),
    ("TIME_TRUNC", |call| {
        call.count(2, 2)?;
        let part = part(call, call.part(1)?, &|part| matches!(part, Part::Micros(unit) if unit < DAY))?;
        let micros = cast(call.typed(0, &Type::Time)?, DataType::Int64);
        let floor = kernel("floor_time", call.safe, vec![lit(part), micros]);
        Ok(Typed::new(kernel("time_of_micros", call.safe, vec![floor]), Type::Time))
    }),
    ("TIMESTAMP_DIFF", |call| difference(call, &Type::Timestamp)),
    ("DATETIME_DIFF", |call| difference(call, &Type::Datetime)),
    ("DATE_DIFF", |call| difference(call, &Type::Date)),
    ("TIME_DIFF", |call| difference(call, &Type::Time)),
    ("LAST_DAY", |call| {
        let name = if call.count(1, 2)? == 2 { call.part(1)? } else { "MONTH" };
        let part = part(call, name, &|part| !matches!(part, Part::Micros(_)))?;
        let value = moment(call, 0, &Type::Date)?;
        Ok(Typed::new(kernel("last_day_of", call.safe, vec![lit(part), micros(value)]), Type::Date))
    }),
    ("EXTRACT", |call| {
        call.count(2, 2)?;
        extract(call, call.part(0)?, call.value(1)?)
    }),
    // Postgres.
    ("DATE_PART", |call| {
        call.count(2, 2)?;
        extract(call, call.part(0)?, call.value(1)?)
    }),
    ("UNIX_MICROS", |call| since_epoch(call, 1)),
    ("UNIX_MILLIS", |call| since_epoch(call, 1_000)),
    ("UNIX_SECONDS", |call| since_epoch(call, SECOND)),
    ("UNIX_DATE", |call| {
        call.count(1, 1)?;
        let days = cast(call.typed(0, &Type::Date)?, DataType::Int32);
        Ok(Typed::new(cast(days, DataType::Int64), INT))
    }),
    ("DATE_FROM_UNIX_DATE", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(kernel("date_of_days", call.safe, vec![call.int(0)?]), Type::Date))
    }),
    ("TIMESTAMP_MICROS", |call| from_epoch(call, 1)),
    ("TIMESTAMP_MILLIS", |call| from_epoch(call, 1_000)),
    ("TIMESTAMP_SECONDS", |call| from_epoch(call, SECOND)),
    ("TIMESTAMP_FROM_UNIX_MICROS", |call| from_epoch(call, 1)),
    ("TIMESTAMP_FROM_UNIX_MILLIS", |call| from_epoch(call, 1_000)),
    ("TIMESTAMP_FROM_UNIX_SECONDS", |call| from_epoch(call, SECOND)),
    // Postgres's with one argument; with two it has Postgres's formats.
    ("TO_TIMESTAMP", |call| {
        if call.arguments.len() == 1 && call.value(0)?.ty.is_number() {
            return from_epoch(call, SECOND);
        }
        Err(call
            .fails("TO_TIMESTAMP takes a number of seconds; of text write PARSE_TIMESTAMP('%Y-%m-%d %H:%M:%S', text)"))
    }),
];

const INT: Type = Type::Int64;

fn instant(micros: i64, ty: Type) -> Typed {
    Typed::new(Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), None), ty)
}

/// The zone of argument `i`; `None` is UTC, which needs no work.
fn zone(call: &Call<'_>, i: usize) -> Result<Option<Expr>> {
    if i >= call.arguments.len() {
        return Ok(None);
    }
    named_zone(call.value(i)?, call.at)
}

fn named_zone(zone: Typed, at: Option<Position>) -> Result<Option<Expr>> {
    if let Some(text) = zone.literal_text() {
        let zone = Zone::read(text).map_err(|message| fail(Code::InvalidQuery, message, at))?;
        return Ok((!zone.is_utc()).then(|| lit(text)));
    }
    Ok(Some(zone.convert(&Type::String, Conversion::implicit(at))?.expr))
}

/// What the clocks of a zone show at an instant, as a DATETIME.
fn local(value: Typed, zone: Option<Expr>, safe: bool) -> Typed {
    match zone {
        Some(zone) => folded(Typed::new(kernel("zone_local", safe, vec![value.expr, zone]), Type::Datetime)),
        None => Typed::new(value.expr, Type::Datetime),
    }
}

/// `timestamp AT TIME ZONE zone`: a DATETIME; and of a DATETIME the instant.
pub(crate) fn at_time_zone(value: Typed, zone: Typed, safe: bool, at: Option<Position>) -> Result<Typed> {
    let zone = named_zone(zone, at)?;
    if matches!(value.ty, Type::Datetime | Type::Date) {
        let value = value.convert(&Type::Datetime, Conversion::implicit(at))?;
        return Ok(match zone {
            Some(zone) => folded(Typed::new(kernel("zone_instant", safe, vec![value.expr, zone]), Type::Timestamp)),
            None => Typed::new(value.expr, Type::Timestamp),
        });
    }
    Ok(local(value.convert(&Type::Timestamp, Conversion::implicit(at))?, zone, safe))
}

fn current(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(0, 1)?;
    local(instant(call.now, Type::Timestamp), zone(call, 0)?, call.safe).convert(ty, Conversion::implicit(call.at))
}

/// DATE, DATETIME and TIME of any time, in a zone.
fn shown(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(1, 2)?;
    let value = call.value(0)?;
    match zone(call, 1)? {
        None => value.convert(ty, Conversion::cast(call.at, call.safe)),
        Some(zone) => {
            let value = value.convert(&Type::Timestamp, Conversion::cast(call.at, call.safe))?;
            local(value, Some(zone), call.safe).convert(ty, Conversion::implicit(call.at))
        }
    }
}

/// A time argument: a DATE or DATETIME keeps its type, everything else becomes `ty`.
fn moment(call: &Call<'_>, i: usize, ty: &Type) -> Result<Typed> {
    let value = call.value(i)?;
    if matches!(value.ty, Type::Timestamp | Type::Datetime | Type::Date) {
        return Ok(value);
    }
    value.convert(ty, Conversion::implicit(call.at))
}

/// Any time as microseconds since the epoch.
fn micros(value: Typed) -> Expr {
    cast(timestamp(value), DataType::Int64)
}

fn timestamp(value: Typed) -> Expr {
    if value.ty == Type::Date { cast(value.expr, Type::Timestamp.arrow()) } else { value.expr }
}

fn from_micros(expr: Expr, ty: &Type) -> Expr {
    let timestamp = cast(expr, Type::Timestamp.arrow());
    if *ty == Type::Date { cast(timestamp, DataType::Date32) } else { timestamp }
}

/// A part of time that a function takes.
fn part(call: &Call<'_>, name: &str, fits: &dyn Fn(Part) -> bool) -> Result<String> {
    if Part::read(name).is_some_and(fits) {
        return Ok(name.to_owned());
    }
    let all = [
        "MICROSECOND",
        "MILLISECOND",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAY",
        "WEEK",
        "WEEK(MONDAY)",
        "ISOWEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
        "ISOYEAR",
    ];
    let known: Vec<&str> = all.into_iter().filter(|name| Part::read(name).is_some_and(fits)).collect();
    Err(call.fails(format!("{} has no part {name}; there are {}", call.name, known.join(", "))))
}

fn truncate(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    let zoned = call.count(2, 3)? == 3;
    // Postgres: date_trunc('hour', value).
    let postgres = matches!(call.arguments.first(), Some(Argument::Part(_)));
    let (name, value) = match call.arguments.first() {
        Some(Argument::Part(part)) => (part.as_str(), moment(call, 1, &Type::Timestamp)?),
        _ => (call.part(1)?, moment(call, 0, ty)?),
    };
    // The weeks of Postgres begin on Monday.
    let name = if postgres && name == "WEEK" { "ISOWEEK" } else { name };
    let part = part(call, name, &|_| true)?;
    let below_day = matches!(Part::read(&part), Some(Part::Micros(unit)) if unit < DAY);
    let value = if value.ty == Type::Date && below_day {
        // Postgres makes a time of the date.
        if *ty == Type::Date && !postgres {
            return Err(call.fails(format!("a DATE has no {part}; write DATETIME_TRUNC or TIMESTAMP_TRUNC")));
        }
        value.convert(if postgres { &Type::Datetime } else { ty }, Conversion::implicit(call.at))?
    } else {
        value
    };
    if zoned && let Some(zone) = zone(call, 2)? {
        if value.ty != Type::Timestamp {
            return Err(call.fails(format!("a value of type {} has no time zone; only a TIMESTAMP has", value.ty)));
        }
        return Ok(Typed::new(kernel("floor_in_zone", call.safe, vec![lit(part), value.expr, zone]), Type::Timestamp));
    }
    let ty = value.ty.clone();
    // What is stored is within the bounds of the type. To say that its units cannot fail lets conditions reach the storage.
    let stored = match &value.expr {
        Expr::Column(_) => true,
        Expr::ScalarFunction(field) => field.func.name() == "get_field",
        _ => false,
    };
    let timestamp = timestamp(value);
    let expr = match Part::read(&part) {
        Some(Part::Micros(1)) if stored => timestamp,
        Some(Part::Micros(unit)) if stored => kernel("floor_to_unit", call.safe, vec![lit(unit), timestamp]),
        _ => kernel("floor_time", call.safe, vec![lit(part), timestamp]),
    };
    let expr = if ty == Type::Date { cast(expr, DataType::Date32) } else { expr };
    Ok(Typed::new(expr, ty))
}

/// Differences of timestamps count whole units of a day and less; all others count boundaries.
fn difference(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(3, 3)?;
    let (one, other) = (call.value(0)?, call.value(1)?);
    // Whatever the name of the function, times of one type are subtracted as such: hours must not be lost.
    let ty = match (&one.ty, &other.ty) {
        (Type::Timestamp | Type::Datetime, _) | (_, Type::Timestamp | Type::Datetime) if *ty == Type::Time => {
            return Err(call.fails("TIME_DIFF takes times of day; write TIMESTAMP_DIFF or DATETIME_DIFF"));
        }
        (Type::Timestamp, Type::Timestamp) => &Type::Timestamp,
        (Type::Datetime, Type::Datetime | Type::Date) | (Type::Date, Type::Datetime) => &Type::Datetime,
        _ => ty,
    };
    let fits = |part: Part| {
        let of_day = matches!(part, Part::Micros(unit) if unit < DAY);
        if *ty == Type::Time { of_day } else { *ty != Type::Date || !of_day }
    };
    let part = part(call, call.part(2)?, &fits)?;
    let how = Conversion::implicit(call.at);
    let (one, other) = (one.convert(ty, how)?, other.convert(ty, how)?);
    if let (Some(Part::Micros(unit)), Type::Timestamp) = (Part::read(&part), ty) {
        return Ok(Typed::new((micros(one) - micros(other)) / lit(unit), INT));
    }
    Ok(Typed::new(kernel("parts_between", call.safe, vec![lit(part), micros(one), micros(other)]), INT))
}

fn extract(call: &Call<'_>, part: &str, value: Typed) -> Result<Typed> {
    let value = match value.ty {
        Type::Timestamp | Type::Datetime | Type::Date | Type::Time | Type::Interval => value,
        _ => value.convert(&Type::Timestamp, Conversion::implicit(call.at))?,
    };
    if value.ty == Type::Interval {
        return Ok(Typed::new(kernel("interval_part", call.safe, vec![lit(part), value.expr]), INT));
    }
    let whole = |part: &str| cast(engine::date_part(lit(part), value.expr.clone()), DataType::Int64);
    let of_second = |unit: i64| {
        let micros = cast(value.expr.clone(), DataType::Int64);
        ((micros % lit(SECOND) + lit(SECOND)) % lit(SECOND)) / lit(unit)
    };
    let of_day = matches!(part, "HOUR" | "MINUTE" | "SECOND" | "MILLISECOND" | "MICROSECOND" | "TIME");
    match (&value.ty, of_day) {
        (Type::Date, true) => return Err(call.fails(format!("a DATE has no {part}"))),
        (Type::Time, false) => return Err(call.fails(format!("a TIME has no {part}"))),
        _ => {}
    }
    let expr = match part {
        "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "QUARTER" | "ISOYEAR" => whole(&part.to_lowercase()),
        "SECOND" => whole("second"),
        "MILLISECOND" => of_second(1_000),
        "MICROSECOND" => of_second(1),
        "DAYOFWEEK" | "DOW" => whole("dow") + lit(i64::from(part == "DAYOFWEEK")),
        "DAYOFYEAR" | "DOY" => whole("doy"),
        "ISOWEEK" => whole("week"),
        "DATE" => return value.convert(&Type::Date, Conversion::implicit(call.at)),
        "TIME" => return value.convert(&Type::Time, Conversion::implicit(call.at)),
        "DATETIME" => return value.convert(&Type::Datetime, Conversion::implicit(call.at)),
        "EPOCH" => micros(value) / lit(SECOND),
        // Week 0 is what lies before the first such day of the year.
        week => match Part::read(week) {
            Some(Part::Week(begin)) => {
                (whole("doy") + lit(6_i64) - (whole("dow") + lit(7 - begin)) % lit(7_i64)) / lit(7_i64)
            }
            _ => {
                return Err(call.fails(format!(
                    "EXTRACT has no part {part}; there are YEAR, ISOYEAR, QUARTER, MONTH, WEEK, WEEK(MONDAY), ISOWEEK, DAY, DAYOFWEEK, DAYOFYEAR, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND, DATE, TIME, DATETIME"
                )));
            }
        },
    };
    Ok(Typed::new(expr, INT))
}

fn since_epoch(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.count(1, 1)?;
    let micros = cast(call.typed(0, &Type::Timestamp)?, DataType::Int64);
    if unit == 1 {
        return Ok(Typed::new(micros, INT));
    }
    let rest = (micros.clone() % lit(unit) + lit(unit)) % lit(unit);
    Ok(Typed::new((micros - rest) / lit(unit), INT))
}

fn from_epoch(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.count(1, 1)?;
    let value = call.value(0)?;
    if value.ty == Type::Timestamp {
        return Ok(value);
    }
    let moment = kernel("moment_of_units", call.safe, vec![call.int(0)?, lit(unit)]);
    Ok(Typed::new(moment, Type::Timestamp))
}
