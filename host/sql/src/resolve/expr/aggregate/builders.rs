//! How aggregate functions are built that do more than convert their arguments.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::math::expr_fn as math;
use datafusion::functions_aggregate as engine;
use datafusion::logical_expr::{AggregateUDF, Expr, cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_functions::aggregate::{
    FloatAggregate, collecting, count_distinct, decimal_sum, first, interval_sum, merged_quantile_sketch,
    merged_sketch as merged, of_floats, quantile_sketch, quantiles, sketch, top, whole_sum,
};
use tidegate_functions::quantile_sketch::{QUANTILE_PRECISIONS, QuantilesOf};
use tidegate_functions::sketch::{PRECISIONS, SketchOf};
use tidegate_model::Position;

use super::call::{AggregateCall, Built, Clauses, collected};
use crate::fail::{Planning, Result, invalid, unsupported};
use crate::resolve::sorting::sort_options;
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::{
    Conversion, float_key, float_key_bits, folded, group_key, interval_length, kernel, list_of_record, nan_last,
    plan_column, sort_key,
};

/// The largest number that APPROX_QUANTILES and APPROX_TOP_COUNT take.
const MOST: i64 = 10_000;

/// What to do instead of RESPECT NULLS, where values are sorted.
pub(in crate::resolve::expr) const NULLS_LEFT_OUT: &str =
    "leave the words out: NULLs are left out; COUNTIF(x IS NULL) counts them";

/// COUNT(*).
pub(super) fn count_rows(clauses: &Clauses, at: Option<Position>) -> Result<Built> {
    if clauses.distinct {
        return Err(invalid("COUNT(DISTINCT *) is not possible; name a column", at));
    }
    Ok((collected(engine::count::count_udaf(), vec![lit(1_i64)], clauses), Type::Int64))
}

pub(super) fn count(call: AggregateCall<'_>) -> Result<Built> {
    if call.clauses.distinct {
        call.check_groupable(&call.first)?;
    }
    let is_of_texts = call.clauses.distinct && call.first.ty == Type::String;
    let value = plan_column(call.first).expr;
    if is_of_texts {
        let clauses = Clauses { distinct: false, ..call.clauses.clone() };
        return Ok((collected(count_distinct(), vec![value], &clauses), Type::Int64));
    }
    Ok((collected(engine::count::count_udaf(), vec![value], call.clauses), Type::Int64))
}

pub(super) fn count_if(call: AggregateCall<'_>) -> Result<Built> {
    let how = call.how();
    let condition = call.first.convert(&Type::Bool, how)?.expr;
    let counted = if call.clauses.distinct { condition.clone() } else { lit(1_i64) };
    // The rows with the best key are chosen before they are counted.
    if call.clauses.having.is_some() {
        let counted = when(condition, counted).end().planned()?;
        return Ok((collected(engine::count::count_udaf(), vec![counted], call.clauses), Type::Int64));
    }
    let filter = match &call.clauses.filter {
        Some(filter) => condition.and((**filter).clone()),
        None => condition,
    };
    let clauses = Clauses { filter: Some(Box::new(filter)), distinct: call.clauses.distinct, ..Clauses::default() };
    Ok((collected(engine::count::count_udaf(), vec![counted], &clauses), Type::Int64))
}

pub(super) fn sum(call: AggregateCall<'_>) -> Result<Built> {
    if call.first.ty == Type::Interval {
        return of_intervals(call, interval_sum(false));
    }
    if call.first.ty.is_decimal() {
        return Ok(of_value(decimal_sum(false), call.first, call.clauses));
    }
    let how = call.how();
    let value = number(call.first, how)?;
    let function = if value.ty == Type::Int64 { whole_sum() } else { of_floats(FloatAggregate::Sum) };
    Ok(of_value(function, value, call.clauses))
}

pub(super) fn average(call: AggregateCall<'_>) -> Result<Built> {
    if call.first.ty == Type::Interval {
        return of_intervals(call, interval_sum(true));
    }
    if call.first.ty.is_decimal() {
        return Ok(of_value(decimal_sum(true), call.first, call.clauses));
    }
    call.of_float(FloatAggregate::Average)
}

fn of_intervals(call: AggregateCall<'_>, function: Arc<AggregateUDF>) -> Result<Built> {
    if call.clauses.distinct {
        return Err(invalid(format!("{} cannot compare values of type INTERVAL", call.name), call.at));
    }
    Ok(of_value(function, call.first, call.clauses))
}

pub(super) fn minimum(call: AggregateCall<'_>) -> Result<Built> {
    if call.first.ty == Type::Interval {
        return minimum_by(by_length(call));
    }
    call.check_comparable(&call.first)?;
    if call.first.ty == Type::Float64 {
        return call.of_float(FloatAggregate::Minimum);
    }
    Ok(of_value(engine::min_max::min_udaf(), call.first, call.clauses))
}

pub(super) fn maximum(call: AggregateCall<'_>) -> Result<Built> {
    if call.first.ty == Type::Interval {
        return maximum_by(by_length(call));
    }
    call.check_comparable(&call.first)?;
    if call.first.ty == Type::Float64 {
        return call.of_float(FloatAggregate::Maximum);
    }
    Ok(of_value(engine::min_max::max_udaf(), call.first, call.clauses))
}

/// Intervals are ordered by their lengths.
fn by_length(call: AggregateCall<'_>) -> AggregateCall<'_> {
    let by = interval_length(call.first.expr.clone());
    AggregateCall { second: Some(by), ..call }
}

pub(super) fn minimum_by(call: AggregateCall<'_>) -> Result<Built> {
    first_by(call, true)
}

pub(super) fn maximum_by(call: AggregateCall<'_>) -> Result<Built> {
    first_by(call, false)
}

/// The first argument of the row whose second one is the smallest or largest.
fn first_by(call: AggregateCall<'_>, ascending: bool) -> Result<Built> {
    let Some(by) = call.second.clone() else {
        return Err(invalid(format!("{} takes two arguments", call.name), call.at));
    };
    let by = if by.ty == Type::Interval { interval_length(by.expr) } else { by };
    call.check_comparable(&by)?;
    if call.clauses.having.is_some() {
        return Err(unsupported(format!("HAVING in {} of {}", call.name, call.first.ty), None, call.at));
    }
    let filter = present(&by, call.clauses);
    let (value, by) = match by.ty {
        // With a NaN among the keys no row has the best one: nothing equals it. It comes first, and has no value.
        Type::Float64 => {
            let value = when(
                math::isnan(by.expr.clone()),
                Typed::null().convert(&call.first.ty, Conversion::implicit(call.at))?.expr,
            )
            .otherwise(call.first.expr)
            .planned()?;
            let key = if ascending { float_key(by).expr } else { nan_last(by.expr) };
            (Typed::new(value, call.first.ty), key)
        }
        _ => (call.first, by.expr),
    };
    let clauses = Clauses { filter, order_by: vec![by.sort(ascending, false)], ..Clauses::default() };
    Ok(of_value(engine::first_last::first_value_udaf(), value, &clauses))
}

pub(super) fn any_value(call: AggregateCall<'_>) -> Result<Built> {
    let (filter, having) = (call.clauses.filter.clone(), call.clauses.having.clone());
    let clauses = Clauses { filter, having, ignore_nulls: true, ..Clauses::default() };
    Ok(of_value(engine::first_last::first_value_udaf(), call.first, &clauses))
}

pub(super) fn array_agg(call: AggregateCall<'_>) -> Result<Built> {
    let clauses = call.clauses;
    if clauses.distinct {
        call.check_groupable(&call.first)?;
    }
    let ty = call.first.ty.clone();
    if matches!(ty, Type::Array(_) | Type::Record(_)) {
        return Err(invalid("ARRAY_AGG cannot collect arrays; collect STRUCTs or one field", call.at));
    }
    let value = plan_column(call.first).expr;
    let list = match clauses.limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if !clauses.distinct => first_of(limit, value, clauses),
        _ => collected(list_function(clauses), vec![value], clauses),
    };
    Ok((list, Type::Array(Box::new(ty))))
}

pub(super) fn array_concat_agg(call: AggregateCall<'_>) -> Result<Built> {
    let value = match &call.first.ty {
        Type::Array(_) => call.first,
        Type::Record(fields) => {
            let element = Type::Struct { fields: Arc::clone(fields), open: true };
            Typed::new(list_of_record(call.first.expr)?, Type::Array(Box::new(element)))
        }
        ty => return Err(invalid(format!("ARRAY_CONCAT_AGG takes arrays, not values of type {ty}"), call.at)),
    };
    let Clauses { order_by, having, limit, .. } = call.clauses.clone();
    let clauses = Clauses { filter: present(&value, call.clauses), order_by, having, ..Clauses::default() };
    let lists = match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) => first_of(limit, value.expr, &clauses),
        None => collected(list_function(&clauses), vec![value.expr], &clauses),
    };
    Ok((lists, value.ty))
}

pub(super) fn string_agg(call: AggregateCall<'_>) -> Result<Built> {
    let how = call.how();
    let is_bytes = call.first.ty == Type::Bytes;
    if let Some(separator) = &call.second {
        check_separator(separator, &call.first.ty, call.at)?;
    }
    // The engine joins texts only: of BYTES those of their digits, which have the same order.
    let text = |value: Typed| match value.ty {
        Type::Bytes => Ok(Typed::new(kernel("to_hex", false, vec![value.expr]), Type::String)),
        _ => value.convert(&Type::String, how),
    };
    let comma = || if is_bytes { Typed::text("2c") } else { Typed::text(",") };
    let separator = call.second.map_or_else(|| Ok(comma()), &text)?;
    let before = call.first.expr.clone();
    let is_sorted = call.clauses.distinct && !call.clauses.order_by.is_empty();
    if is_sorted && !matches!(call.first.ty, Type::String | Type::Bytes | Type::Null) {
        // Only over a window: else it is a list that is joined.
        let what = format!("STRING_AGG(DISTINCT ... ORDER BY ...) OVER of {}", call.first.ty);
        return Err(unsupported(what, Some("write CAST(x AS STRING), in both places"), call.at));
    }
    let value = text(call.first)?;
    // The engine takes the separator as plain UTF-8 only, not as a view.
    let separator = folded(Typed::new(cast(separator.expr, DataType::Utf8), Type::String));
    let mut clauses = call.clauses.clone();
    // The engine sorts different values by themselves: the digits of BYTES have their order.
    for key in clauses.order_by.iter_mut().filter(|key| is_sorted && key.expr == before) {
        key.expr = value.expr.clone();
    }
    let arguments = vec![value.expr, separator.expr];
    let ty = if is_bytes { Type::Bytes } else { Type::String };
    Ok((collected(engine::string_agg::string_agg_udaf(), arguments, &clauses), ty))
}

/// A separator of STRING_AGG is known before its texts, and of BYTES where they are.
///
/// # Errors
/// If it is none.
pub(super) fn check_separator(separator: &Typed, of: &Type, at: Option<Position>) -> Result<()> {
    if separator.ty != Type::Null && (separator.ty == Type::Bytes) != (*of == Type::Bytes) {
        return Err(invalid(format!("STRING_AGG of {of} takes no separator of {}", separator.ty), at));
    }
    match separator.literal() {
        None => Err(invalid("the separator of STRING_AGG is a constant: a text or a parameter", at)),
        Some(separator) if separator.is_null() => Err(invalid("the separator of STRING_AGG is NULL", at)),
        Some(_) => Ok(()),
    }
}

/// What the engine's STRING_AGG gives, as a value.
pub(super) fn joined(value: Typed) -> Typed {
    match value.ty {
        Type::Bytes => Typed::new(kernel("from_hex", false, vec![value.expr]), Type::Bytes),
        _ => value.uniform(),
    }
}

pub(super) fn approx_count_distinct(call: AggregateCall<'_>) -> Result<Built> {
    call.check_groupable(&call.first)?;
    let value = float_key_bits(sort_key(call.first));
    let (expr, _) = of_value(engine::approx_distinct::approx_distinct_udaf(), value, call.clauses);
    Ok((expr, Type::Int64))
}

pub(super) fn approx_quantiles(call: AggregateCall<'_>) -> Result<Built> {
    if call.clauses.respect_nulls {
        return Err(unsupported(format!("{} with RESPECT NULLS", call.name), Some(NULLS_LEFT_OUT), call.at));
    }
    call.check_comparable(&call.first)?;
    let how = call.how();
    let parts = match call.second.as_ref().and_then(Typed::literal) {
        Some(ScalarValue::Int64(Some(parts @ 1..=MOST))) => usize::try_from(*parts).unwrap_or(1),
        _ => return Err(invalid("APPROX_QUANTILES(x, n) takes a number n from 1 to 10000", call.at)),
    };
    let value = if call.first.ty == Type::Null { call.first.convert(&Type::Float64, how)? } else { call.first };
    let ty = value.ty.clone();
    Ok((collected(quantiles(parts), vec![float_key(value).expr], call.clauses), Type::Array(Box::new(ty))))
}

pub(super) fn approx_top_count(call: AggregateCall<'_>) -> Result<Built> {
    let number = call.second.clone();
    top_values(call, None, number)
}

pub(super) fn approx_top_sum(call: AggregateCall<'_>) -> Result<Built> {
    let (weight, number) = (call.second.clone(), call.third.clone());
    top_values(call, weight, number)
}

/// The values with the largest sums of weights, or the most frequent ones.
fn top_values(call: AggregateCall<'_>, weight: Option<Typed>, number: Option<Typed>) -> Result<Built> {
    call.check_groupable(&call.first)?;
    let number = match number.as_ref().and_then(Typed::literal) {
        Some(ScalarValue::Int64(Some(n @ 1..=MOST))) => usize::try_from(*n).unwrap_or(1),
        _ => {
            let message = format!("{} takes a number from 1 to 10000 as its last argument", call.name);
            return Err(invalid(message, call.at));
        }
    };
    let how = call.how();
    let weight = weight.map(|weight| self::number(weight, how)).transpose()?;
    let value = plan_column(group_key(call.first));
    let sum = weight.as_ref().map_or(Type::Int64, |weight| weight.ty.clone());
    let label = if weight.is_some() { "sum" } else { "count" };
    let fields = [Field { name: "value".to_owned(), ty: value.ty.clone() }, Field { name: label.to_owned(), ty: sum }];
    let function = top(number, weight.is_some());
    let arguments = std::iter::once(value.expr).chain(weight.map(|weight| weight.expr)).collect();
    let element = Type::Struct { fields: fields.into(), open: false };
    Ok((collected(function, arguments, call.clauses), Type::Array(Box::new(element))))
}

/// HLL_COUNT.INIT: a sketch of values.
pub(super) fn sketch_of(call: AggregateCall<'_>) -> Result<Built> {
    let precision = match call.second.as_ref().map(Typed::literal) {
        None => Some(15),
        Some(Some(ScalarValue::Int64(Some(n)))) => u8::try_from(*n).ok().filter(|n| PRECISIONS.contains(n)),
        Some(_) => None,
    };
    let Some(precision) = precision else {
        return Err(invalid("HLL_COUNT.INIT(x, precision) takes a constant precision from 10 to 24", call.at));
    };
    let (of, ty) = match &call.first.ty {
        Type::Int64 => (SketchOf::Int64, Type::String),
        Type::Numeric | Type::BigNumeric => (SketchOf::Numeric, Type::String),
        Type::String | Type::Null => (SketchOf::String, Type::String),
        Type::Bytes => (SketchOf::Bytes, Type::Bytes),
        ty => {
            let message = format!("HLL_COUNT.INIT takes INT64, NUMERIC, BIGNUMERIC, STRING or BYTES, not {ty}");
            return Err(invalid(message, call.at));
        }
    };
    let how = call.how();
    let value = plan_column(call.first.convert(&ty, how)?);
    Ok((collected(sketch(of, precision), vec![value.expr], call.clauses), Type::Bytes))
}

/// HLL_COUNT.MERGE_PARTIAL: one sketch of several.
pub(super) fn merged_sketch(call: AggregateCall<'_>) -> Result<Built> {
    merged_by(call, merged())
}

fn merged_by(call: AggregateCall<'_>, function: Arc<AggregateUDF>) -> Result<Built> {
    if !matches!(call.first.ty, Type::Bytes | Type::Null) {
        return Err(invalid(format!("{} takes sketches, BYTES, not {}", call.name, call.first.ty), call.at));
    }
    let how = call.how();
    let value = plan_column(call.first.convert(&Type::Bytes, how)?);
    Ok((collected(function, vec![value.expr], call.clauses), Type::Bytes))
}

/// KLL_QUANTILES.INIT_INT64 and INIT_FLOAT64: a sketch of values.
pub(super) fn quantile_sketch_of(call: AggregateCall<'_>) -> Result<Built> {
    let precision = match call.second.as_ref().map(Typed::literal) {
        None => Some(1_000),
        Some(Some(ScalarValue::Int64(Some(n)))) => u32::try_from(*n).ok().filter(|n| QUANTILE_PRECISIONS.contains(n)),
        Some(_) => None,
    };
    let Some(precision) = precision else {
        return Err(invalid(
            format!("{}(x, precision) takes a constant precision from 1 to 100000", call.name),
            call.at,
        ));
    };
    let (of, ty) = match call.name {
        "KLL_QUANTILES.INIT_INT64" => (QuantilesOf::Int64, Type::Int64),
        _ => (QuantilesOf::Float64, Type::Float64),
    };
    let fits = call.first.ty == Type::Null || call.first.ty == ty || ty == Type::Float64 && call.first.ty.is_number();
    if !fits {
        return Err(invalid(format!("{} takes {ty}, not {}", call.name, call.first.ty), call.at));
    }
    let how = call.how();
    let value = plan_column(call.first.convert(&ty, how)?);
    Ok((collected(quantile_sketch(of, precision), vec![value.expr], call.clauses), Type::Bytes))
}

/// KLL_QUANTILES.MERGE_PARTIAL: one sketch of several.
pub(super) fn merged_quantiles(call: AggregateCall<'_>) -> Result<Built> {
    merged_by(call, merged_quantile_sketch())
}

/// Over a window; in a grouping it is resolved before it is built.
pub(super) fn not_a_window(call: AggregateCall<'_>) -> Result<Built> {
    Err(unsupported(format!("{} ... OVER", call.name), None, call.at))
}

/// A function that gives a value of its argument's type.
fn of_value(function: Arc<AggregateUDF>, value: Typed, clauses: &Clauses) -> Built {
    let ty = value.ty.clone();
    (collected(function, vec![plan_column(value).expr], clauses), ty)
}

/// A value as a number: INT64 and FLOAT64 as they are, others as FLOAT64.
fn number(value: Typed, how: Conversion) -> Result<Typed> {
    if value.ty.is_number() { Ok(value) } else { value.convert(&Type::Float64, how) }
}

/// The filter of a call, and that a value is not NULL.
fn present(value: &Typed, clauses: &Clauses) -> Option<Box<Expr>> {
    let there = value.expr.clone().is_not_null();
    Some(Box::new(match &clauses.filter {
        Some(filter) => there.and((**filter).clone()),
        None => there,
    }))
}

/// ARRAY_AGG with a LIMIT, which holds no more values than that.
fn first_of(limit: usize, value: Expr, clauses: &Clauses) -> Expr {
    let with = Clauses { filter: clauses.filter.clone(), having: clauses.having.clone(), ..Clauses::default() };
    let (order, keys): (Vec<_>, Vec<_>) =
        clauses.order_by.iter().map(|key| (sort_options(key), key.expr.clone())).unzip();
    let arguments = std::iter::once(value).chain(keys).collect();
    collected(first(limit, order, clauses.ignore_nulls), arguments, &with)
}

fn list_function(clauses: &Clauses) -> Arc<AggregateUDF> {
    collecting(clauses.distinct || clauses.order_by.is_empty())
}
