//! Intervals: what is added to times, and what times are cut into.

use datafusion::logical_expr::{Expr, cast, lit};
use tidegate_functions::time::DAY;
use tidegate_model::Position;

use super::super::call::{Builder, Call};
use super::{INT, from_micros, micros, moment};
use crate::fail::{Result, invalid};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::kernel;
use crate::typing::{Conversion, folded};

pub(in crate::library) const FUNCTIONS: &[(&str, Builder)] = &[
    ("TIMESTAMP_ADD", |call| shift(call, &Type::Timestamp, false)),
    ("TIMESTAMP_SUB", |call| shift(call, &Type::Timestamp, true)),
    ("DATETIME_ADD", |call| shift(call, &Type::Datetime, false)),
    ("DATETIME_SUB", |call| shift(call, &Type::Datetime, true)),
    ("DATE_ADD", |call| shift(call, &Type::Date, false)),
    ("DATE_SUB", |call| shift(call, &Type::Date, true)),
    ("TIME_ADD", |call| shift_time(call, false)),
    ("TIME_SUB", |call| shift_time(call, true)),
    ("TIMESTAMP_BUCKET", |call| bucket(call, &Type::Timestamp)),
    ("DATETIME_BUCKET", |call| bucket(call, &Type::Datetime)),
    ("DATE_BUCKET", |call| bucket(call, &Type::Date)),
    ("GENERATE_DATE_ARRAY", |call| series(call, &Type::Date)),
    ("GENERATE_TIMESTAMP_ARRAY", |call| series(call, &Type::Timestamp)),
    ("MAKE_INTERVAL", |call| {
        call.count(0, 6)?;
        let value = |i: usize| if call.has(i) { call.int(i) } else { Ok(lit(0_i64)) };
        let parts = (0..6).map(value).collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(kernel("make_interval", call.safe, parts), Type::Interval))
    }),
    ("JUSTIFY_HOURS", |call| call.run("justify_hours", 1, &[Type::Interval], Type::Interval)),
    ("JUSTIFY_DAYS", |call| call.run("justify_days", 1, &[Type::Interval], Type::Interval)),
    ("JUSTIFY_INTERVAL", |call| call.run("justify_interval", 1, &[Type::Interval], Type::Interval)),
];

pub(super) fn interval(call: &Call<'_>, i: usize) -> Result<Typed> {
    let interval = call.value(i)?;
    if interval.ty == Type::Interval {
        return Ok(interval);
    }
    Err(call.fails(format!("{} takes an INTERVAL, e.g. INTERVAL 1 HOUR", call.name)))
}

fn shift(call: &Call<'_>, ty: &Type, back: bool) -> Result<Typed> {
    call.count(2, 2)?;
    let value = moment(call, 0, ty)?;
    let interval = interval(call, 1)?;
    if value.ty == Type::Date && *ty == Type::Date {
        let arguments = vec![value.expr, interval.expr, lit(back)];
        return Ok(Typed::new(kernel("shift_date", call.safe, arguments), Type::Date));
    }
    let value = if value.ty == Type::Date { value.convert(ty, Conversion::implicit(call.at))? } else { value };
    time_arithmetic(value, back, interval, call.safe, call.at)
}

fn shift_time(call: &Call<'_>, back: bool) -> Result<Typed> {
    call.count(2, 2)?;
    let arguments = vec![call.typed(0, &Type::Time)?, interval(call, 1)?.expr, lit(back)];
    Ok(Typed::new(kernel("shift_time", call.safe, arguments), Type::Time))
}

/// 1950-01-01, where buckets begin if the text does not say.
const ORIGIN: i64 = -631_152_000_000_000;

fn bucket(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    // Whatever the name of the function, a time keeps its type.
    let ty = &match moment(call, 0, ty)?.ty {
        given @ (Type::Timestamp | Type::Datetime | Type::Date) => given.clone(),
        _ => ty.clone(),
    };
    let origin = match call.count(2, 3)? {
        3 => micros(Typed::new(call.typed(2, ty)?, ty.clone())),
        _ => lit(ORIGIN),
    };
    let value = Typed::new(call.typed(0, ty)?, ty.clone());
    let mut arguments = vec![micros(value), interval(call, 1)?.expr, origin];
    if *ty == Type::Date {
        arguments.push(lit(true));
    }
    let start = kernel("bucket_time", call.safe, arguments);
    Ok(Typed::new(from_micros(start, ty), ty.clone()))
}

fn series(call: &Call<'_>, ty: &Type) -> Result<Typed> {
    let step = match call.count(2, 3)? {
        3 => interval(call, 2)?.expr,
        _ if *ty == Type::Date => kernel("interval_of", false, vec![lit(1_i64), lit(0_i64), lit(1_i64), lit(0_i64)]),
        _ => return Err(call.fails("write the step, e.g. GENERATE_TIMESTAMP_ARRAY(a, b, INTERVAL 1 HOUR)")),
    };
    let bound = |i: usize| Ok(micros(Typed::new(call.typed(i, ty)?, ty.clone())));
    let list = kernel("time_series", call.safe, vec![bound(0)?, bound(1)?, step]);
    let ty = Type::Array(Box::new(ty.clone()));
    Ok(Typed::new(cast(list, ty.arrow()), ty))
}

/// `INTERVAL n PART` with an `n` that is computed; the part in months, days and nanoseconds.
pub(crate) fn computed(count: Expr, (months, days, nanos): (i64, i64, i64), safe: bool) -> Typed {
    Typed::new(kernel("interval_of", safe, vec![count, lit(months), lit(days), lit(nanos)]), Type::Interval)
}

/// `n * INTERVAL 1 DAY`, in either order.
pub(crate) fn interval_times(left: Typed, right: Typed, at: Option<Position>) -> Result<Typed> {
    let (interval, count) = if left.ty == Type::Interval { (left, right) } else { (right, left) };
    if count.ty == Type::Float64 {
        return Err(invalid("an INTERVAL is multiplied by INT64, not by FLOAT64; write a smaller part", at));
    }
    let count = count.convert(&INT, Conversion::implicit(at))?;
    Ok(folded(Typed::new(kernel("interval_times", false, vec![interval.expr, count.expr]), Type::Interval)))
}

/// `INTERVAL 1 DAY / n`.
pub(crate) fn interval_over(interval: Typed, count: Typed, safe: bool, at: Option<Position>) -> Result<Typed> {
    let count = count.convert(&INT, Conversion::implicit(at))?;
    Ok(folded(Typed::new(kernel("interval_over", safe, vec![interval.expr, count.expr]), Type::Interval)))
}

/// `time ± interval`, `time - time`, `date ± days`. A DATE and an INTERVAL are a DATETIME.
pub(crate) fn time_arithmetic(
    left: Typed,
    minus: bool,
    right: Typed,
    safe: bool,
    at: Option<Position>,
) -> Result<Typed> {
    let is_time = |ty: &Type| matches!(ty, Type::Timestamp | Type::Datetime | Type::Date);
    match (&left.ty, &right.ty) {
        (ty, Type::Interval) if is_time(ty) => {
            let ty = if *ty == Type::Date { Type::Datetime } else { ty.clone() };
            let start = left.convert(&ty, Conversion::implicit(at))?;
            Ok(folded(Typed::new(kernel("shift_moment", safe, vec![start.expr, right.expr, lit(minus)]), ty)))
        }
        (Type::Interval, ty) if is_time(ty) && !minus => time_arithmetic(right, false, left, safe, at),
        (Type::Interval, Type::Interval) => {
            let expr = if minus { left.expr - right.expr } else { left.expr + right.expr };
            Ok(folded(Typed::new(expr, Type::Interval)))
        }
        (Type::Date, Type::Date) if minus => {
            let days = (micros(left) - micros(right)) / lit(DAY);
            Ok(folded(computed(days, (0, 1, 0), safe)))
        }
        (one, other) if minus && is_time(one) && is_time(other) => {
            Ok(folded(computed(micros(left) - micros(right), (0, 0, 1_000), safe)))
        }
        (Type::Date, Type::Int64) => {
            let moved = kernel("shift_days", safe, vec![left.expr, right.expr, lit(minus)]);
            Ok(folded(Typed::new(moved, Type::Date)))
        }
        (Type::Int64, Type::Date) if !minus => time_arithmetic(right, false, left, safe, at),
        (one, other) => {
            let sign = if minus { "-" } else { "+" };
            Err(invalid(
                format!("{one} {sign} {other} is not possible; use TIMESTAMP_ADD, TIMESTAMP_SUB or TIMESTAMP_DIFF"),
                at,
            ))
        }
    }
}
