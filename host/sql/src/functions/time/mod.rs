//! Time: truncation, arithmetic, parts, conversion, formatting. All in UTC.

pub(super) mod strings;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::datetime::expr_fn as engine;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::scalar::ScalarValue;
use tidegate_model::Position;

use super::{Builder, Call, kernel};
use crate::fail::{Result, invalid, unsupported};
use crate::resolve::{Conversion, Typed, folded};
use crate::types::Type;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("CURRENT_TIMESTAMP", |call| {
        call.count(0, 1)?;
        Ok(instant(call.now, Type::Timestamp))
    }),
    ("NOW", |call| {
        call.count(0, 0)?;
        Ok(instant(call.now, Type::Timestamp))
    }),
    ("CURRENT_DATETIME", |call| {
        call.count(0, 1)?;
        zone(call, 0)?;
        Ok(instant(call.now, Type::Datetime))
    }),
    ("CURRENT_DATE", |call| {
        call.count(0, 1)?;
        zone(call, 0)?;
        instant(call.now, Type::Timestamp).convert(&Type::Date, Conversion::implicit(call.at))
    }),
    ("CURRENT_TIME", |call| {
        call.count(0, 1)?;
        zone(call, 0)?;
        instant(call.now, Type::Timestamp).convert(&Type::Time, Conversion::implicit(call.at))
    }),
    ("TIMESTAMP_TRUNC", |call| truncate(call, &Type::Timestamp)),
    ("DATETIME_TRUNC", |call| truncate(call, &Type::Datetime)),
    ("DATE_TRUNC", date_truncate),
    ("TIMESTAMP_ADD", |call| shift(call, &Type::Timestamp, false)),
    ("TIMESTAMP_SUB", |call| shift(call, &Type::Timestamp, true)),
    ("DATETIME_ADD", |call| shift(call, &Type::Datetime, false)),
    ("DATETIME_SUB", |call| shift(call, &Type::Datetime, true)),
    ("DATE_ADD", |call| shift(call, &Type::Date, false)),
    ("DATE_SUB", |call| shift(call, &Type::Date, true)),
    ("TIMESTAMP_DIFF", |call| difference(call, &Type::Timestamp)),
    ("DATETIME_DIFF", |call| difference(call, &Type::Datetime)),
    ("DATE_DIFF", |call| difference(call, &Type::Date)),
    ("TIMESTAMP", |call| {
        call.count(1, 2)?;
        zone(call, 1)?;
        converted(call, &Type::Timestamp)
    }),
    ("DATETIME", |call| {
        if call.count(1, 6)? > 2 {
            return Err(unsupported("DATETIME(year, month, ...); write DATETIME '2026-01-31 12:00:00',", call.at));
        }
        zone(call, 1)?;
        converted(call, &Type::Datetime)
    }),
    ("DATE", |call| {
        if call.count(1, 3)? == 3 {
            return Err(unsupported("DATE(year, month, day); write DATE '2026-01-31',", call.at));
        }
        zone(call, 1)?;
        converted(call, &Type::Date)
    }),
    ("TIME", |call| {
        call.count(1, 2)?;
        zone(call, 1)?;
        converted(call, &Type::Time)
    }),
    ("EXTRACT", extract),
    ("UNIX_MICROS", |call| since_epoch(call, 1)),
    ("UNIX_MILLIS", |call| since_epoch(call, 1_000)),
    ("UNIX_SECONDS", |call| since_epoch(call, SECOND)),
    ("TIMESTAMP_MICROS", |call| from_epoch(call, 1)),
    ("TIMESTAMP_MILLIS", |call| from_epoch(call, 1_000)),
    ("TIMESTAMP_SECONDS", |call| from_epoch(call, SECOND)),
    ("FORMAT_TIMESTAMP", |call| format(call, &Type::Timestamp)),
    ("FORMAT_DATETIME", |call| format(call, &Type::Datetime)),
    ("FORMAT_DATE", |call| format(call, &Type::Date)),
    ("PARSE_TIMESTAMP", |call| parse(call, &Type::Timestamp)),
    ("PARSE_DATETIME", |call| parse(call, &Type::Datetime)),
    ("PARSE_DATE", |call| parse(call, &Type::Date)),
];

fn instant(micros: i64, ty: Type) -> Typed {
    Typed::new(Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), None), ty)
}

/// The only time zone is UTC: another one is refused, not ignored.
fn zone(call: &Call<'_>, i: usize) -> Result<()> {
    if i >= call.arguments.len() {
        return Ok(());
    }
    let zone = call.value(i)?;
    match zone.literal_text() {
        Some("UTC" | "utc" | "Etc/UTC" | "GMT" | "+00" | "+00:00" | "Z") => Ok(()),
        _ => Err(unsupported(format!("a time zone other than 'UTC' in {}", call.name), call.at)),
    }
}

fn converted(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.value(0)?.convert(ty, Conversion::cast(call.at, call.safe))
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
    let timestamp = if value.ty == Type::Date { cast(value.expr, Type::Timestamp.arrow()) } else { value.expr };
    cast(timestamp, DataType::Int64)
}

fn from_micros(expr: Expr, ty: &Type) -> Expr {
    let timestamp = cast(expr, Type::Timestamp.arrow());
    if *ty == Type::Date { cast(timestamp, DataType::Date32) } else { timestamp }
}

fn truncate(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(2, 3)?;
    zone(call, 2)?;
    trunc(moment(call, 0, ty)?, call.part(1)?, call)
}

/// BigQuery's `DATE_TRUNC(value, PART)` and Postgres's `date_trunc('part', value)`.
fn date_truncate(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 3)?;
    if let Ok(first) = call.value(0)
        && let Some(part) = first.literal_text()
    {
        let part = part.to_uppercase();
        let value = match call.arguments.get(1) {
            // A bare column name was read as a date part.
            Some(super::Argument::Part(name)) => {
                return Err(invalid(format!("write TIMESTAMP_TRUNC({}, {part})", name.to_lowercase()), call.at));
            }
            _ => moment(call, 1, &Type::Timestamp)?,
        };
        return trunc(value, &part, call);
    }
    zone(call, 2)?;
    trunc(moment(call, 0, &Type::Date)?, call.part(1)?, call)
}

fn trunc(value: Typed, part: &str, call: &Call<'_>) -> Result<Typed> {
    let ty = value.ty.clone();
    let timestamp = if ty == Type::Date { cast(value.expr, Type::Timestamp.arrow()) } else { value.expr };
    let to = |unit: &str, expr: Expr| engine::date_trunc(lit(unit), expr);
    // Weeks begin on Sunday; the engine's begin on Monday.
    let week = |begins_after_monday: i64, expr: Expr| {
        let days = begins_after_monday * DAY;
        let shifted = from_micros(cast(expr, DataType::Int64) - lit(days), &Type::Timestamp);
        from_micros(cast(to("week", shifted), DataType::Int64) + lit(days), &Type::Timestamp)
    };
    let expr = match part {
        "MICROSECOND" => timestamp,
        "MILLISECOND" | "SECOND" | "MINUTE" | "HOUR" | "DAY" | "MONTH" | "QUARTER" | "YEAR" => {
            to(&part.to_lowercase(), timestamp)
        }
        "ISOWEEK" | "WEEK(MONDAY)" => to("week", timestamp),
        "WEEK" | "WEEK(SUNDAY)" => week(-1, timestamp),
        "WEEK(TUESDAY)" => week(1, timestamp),
        "WEEK(WEDNESDAY)" => week(2, timestamp),
        "WEEK(THURSDAY)" => week(3, timestamp),
        "WEEK(FRIDAY)" => week(4, timestamp),
        "WEEK(SATURDAY)" => week(5, timestamp),
        other => {
            return Err(call.fails(format!(
                "{} has no part {other}; there are MICROSECOND, MILLISECOND, SECOND, MINUTE, HOUR, DAY, WEEK, ISOWEEK, MONTH, QUARTER, YEAR",
                call.name
            )));
        }
    };
    let expr = if ty == Type::Date { cast(expr, DataType::Date32) } else { expr };
    Ok(Typed::new(expr, ty))
}

fn shift(call: &Call<'_>, ty: &Type, back: bool) -> Result<Typed> {
    call.count(2, 2)?;
    let interval = call.value(1)?;
    if interval.ty != Type::Interval {
        return Err(call.fails(format!("{} takes an INTERVAL, e.g. INTERVAL 1 HOUR", call.name)));
    }
    time_arithmetic(moment(call, 0, ty)?, back, interval, call.at)
}

/// `time ± interval`, `time - time`, `date ± days`.
pub(crate) fn time_arithmetic(left: Typed, minus: bool, right: Typed, at: Option<Position>) -> Result<Typed> {
    let is_time = |ty: &Type| matches!(ty, Type::Timestamp | Type::Datetime | Type::Date);
    match (&left.ty, &right.ty) {
        (ty, Type::Interval) if is_time(ty) => {
            let ty = ty.clone();
            // A date moves by days and stays a date.
            let expr = if minus { left.expr - right.expr } else { left.expr + right.expr };
            let expr = if ty == Type::Date { cast(expr, DataType::Date32) } else { expr };
            Ok(folded(Typed::new(expr, ty)))
        }
        (Type::Interval, ty) if is_time(ty) && !minus => time_arithmetic(right, false, left, at),
        (Type::Interval, Type::Interval) => {
            let expr = if minus { left.expr - right.expr } else { left.expr + right.expr };
            Ok(folded(Typed::new(expr, Type::Interval)))
        }
        (Type::Date, Type::Int64) => {
            let days = cast(left.expr, DataType::Int32);
            let days = cast(days, DataType::Int64);
            let moved = if minus { days - right.expr } else { days + right.expr };
            Ok(folded(Typed::new(cast(cast(moved, DataType::Int32), DataType::Date32), Type::Date)))
        }
        (one, other) => {
            let sign = if minus { "-" } else { "+" };
            Err(invalid(
                format!("{one} {sign} {other} is not possible; use TIMESTAMP_ADD, TIMESTAMP_SUB or TIMESTAMP_DIFF"),
                at,
            ))
        }
    }
}

fn unit_micros(part: &str) -> Option<i64> {
    Some(match part {
        "MICROSECOND" => 1,
        "MILLISECOND" => 1_000,
        "SECOND" => SECOND,
        "MINUTE" => 60 * SECOND,
        "HOUR" => 3_600 * SECOND,
        _ => return None,
    })
}

/// Differences of timestamps count whole units; those of dates and datetimes count boundaries.
fn difference(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(3, 3)?;
    let part = call.part(2)?;
    let how = Conversion::implicit(call.at);
    let (one, other) = (call.value(0)?.convert(ty, how)?, call.value(1)?.convert(ty, how)?);
    if let Some(unit) = unit_micros(part).or((part == "DAY" && *ty == Type::Timestamp).then_some(DAY)) {
        if *ty == Type::Timestamp {
            return Ok(Typed::new((micros(one) - micros(other)) / lit(unit), Type::Int64));
        }
        let floor = |value: Typed| {
            let micros = micros(value);
            // Division that rounds down, also before 1970.
            let rest = (micros.clone() % lit(unit) + lit(unit)) % lit(unit);
            (micros - rest) / lit(unit)
        };
        return Ok(Typed::new(floor(one) - floor(other), Type::Int64));
    }
    let months = |value: Typed| {
        let whole = |part: &str| cast(engine::date_part(lit(part), value.expr.clone()), DataType::Int64);
        whole("year") * lit(12_i64) + whole("month") - lit(1_i64)
    };
    let days = |value: Typed, unit: &str| micros(trunc_unit(value, unit)) / lit(DAY);
    let expr = match part {
        "DAY" => days(one, "day") - days(other, "day"),
        "ISOWEEK" | "WEEK(MONDAY)" => (days(one, "week") - days(other, "week")) / lit(7_i64),
        "WEEK" | "WEEK(SUNDAY)" => {
            let next = |value: Typed| {
                let ty = value.ty.clone();
                Typed::new(from_micros(micros(value) + lit(DAY), &ty), ty)
            };
            (days(next(one), "week") - days(next(other), "week")) / lit(7_i64)
        }
        "MONTH" => months(one) - months(other),
        "QUARTER" => months(one) / lit(3_i64) - months(other) / lit(3_i64),
        "YEAR" => months(one) / lit(12_i64) - months(other) / lit(12_i64),
        other => return Err(call.fails(format!("{} has no part {other}", call.name))),
    };
    Ok(Typed::new(expr, Type::Int64))
}

fn trunc_unit(value: Typed, unit: &str) -> Typed {
    let timestamp = if value.ty == Type::Date { cast(value.expr, Type::Timestamp.arrow()) } else { value.expr };
    Typed::new(engine::date_trunc(lit(unit), timestamp), Type::Timestamp)
}

fn extract(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 2)?;
    let part = call.part(0)?;
    let value = call.value(1)?;
    let value = match value.ty {
        Type::Timestamp | Type::Datetime | Type::Date | Type::Time => value,
        _ => value.convert(&Type::Timestamp, Conversion::implicit(call.at))?,
    };
    let whole = |part: &str| cast(engine::date_part(lit(part), value.expr.clone()), DataType::Int64);
    let of_second = |unit: i64| {
        let micros = cast(value.expr.clone(), DataType::Int64);
        ((micros % lit(SECOND) + lit(SECOND)) % lit(SECOND)) / lit(unit)
    };
    let expr = match part {
        "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "QUARTER" | "ISOYEAR" => whole(&part.to_lowercase()),
        "SECOND" => whole("second"),
        "MILLISECOND" => of_second(1_000),
        "MICROSECOND" => of_second(1),
        "DAYOFWEEK" => whole("dow") + lit(1_i64),
        "DAYOFYEAR" => whole("doy"),
        "ISOWEEK" => whole("week"),
        // Week 0 is what lies before the first Sunday of the year.
        "WEEK" => (whole("doy") + lit(6_i64) - whole("dow")) / lit(7_i64),
        "DATE" => return value.convert(&Type::Date, Conversion::implicit(call.at)),
        "TIME" => return value.convert(&Type::Time, Conversion::implicit(call.at)),
        "EPOCH" => cast(value.expr.clone(), DataType::Int64) / lit(SECOND),
        other => {
            return Err(call.fails(format!(
                "EXTRACT has no part {other}; there are YEAR, QUARTER, MONTH, WEEK, ISOWEEK, DAY, DAYOFWEEK, DAYOFYEAR, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND, DATE, TIME"
            )));
        }
    };
    Ok(Typed::new(expr, Type::Int64))
}

fn since_epoch(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.count(1, 1)?;
    let micros = cast(call.typed(0, &Type::Timestamp)?, DataType::Int64);
    if unit == 1 {
        return Ok(Typed::new(micros, Type::Int64));
    }
    let rest = (micros.clone() % lit(unit) + lit(unit)) % lit(unit);
    Ok(Typed::new((micros - rest) / lit(unit), Type::Int64))
}

fn from_epoch(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(cast(call.int(0)? * lit(unit), Type::Timestamp.arrow()), Type::Timestamp))
}

fn format(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(2, 3)?;
    zone(call, 2)?;
    let value = moment(call, 1, ty)?;
    let timestamp = if value.ty == Type::Date { cast(value.expr, Type::Timestamp.arrow()) } else { value.expr };
    Ok(Typed::new(kernel("format_time", call.safe, vec![call.text(0)?, timestamp]), Type::String))
}

fn parse(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    call.count(2, 3)?;
    zone(call, 2)?;
    let parsed = kernel("parse_time_as", call.safe, vec![call.text(0)?, call.text(1)?]);
    let expr = if *ty == Type::Date { cast(parsed, DataType::Date32) } else { parsed };
    Ok(Typed::new(expr, ty.clone()))
}
