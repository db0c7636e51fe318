//! Conversions between types: what CAST does, and what the dialect does on its own.
//!
//! Log data is dirty: the same field is a number in one record and text in the next. So the
//! implicit conversions are wider than BigQuery's (text that is numeric compares with numbers,
//! microseconds compare with timestamps) and never fail on a row: a value that does not convert
//! is NULL there. A *literal* that does not convert is an error of the query, with its place.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_functions::scalar::{raised_as, united};
use tidegate_model::{Code, Failure, Position};

use super::common::common;
use super::constant::folded;
use super::kernel::kernel;
use super::list::mapped;
use super::records::{list_of_record, stored_field, text_of_mixed};
use crate::fail::{Planning, Result, fail, invalid};
use crate::typed::{Digits, Typed};
use crate::types::{Field, Type};

/// How a conversion treats a value that does not convert.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    at: Option<Position>,
    /// A value that does not convert is NULL.
    safe: bool,
    /// The text did not ask for the conversion.
    implicit: bool,
}

impl Conversion {
    /// CAST, or SAFE_CAST where `safe`.
    pub(crate) fn cast(at: Option<Position>, safe: bool) -> Self {
        Self { at, safe, implicit: false }
    }

    /// A conversion that the text does not spell out.
    pub(crate) fn implicit(at: Option<Position>) -> Self {
        Self { at, safe: true, implicit: true }
    }
}

impl Typed {
    /// The value as a `target`.
    pub(crate) fn convert(self, target: &Type, how: Conversion) -> Result<Typed> {
        if self.ty == *target {
            return Ok(if how.implicit { self } else { Typed { digits: None, ..self } });
        }
        if let Some(error) = raised_as(&self.expr, &target.arrow()) {
            return Ok(Typed::new(error, target.clone()));
        }
        if self.ty == Type::Null {
            let null = ScalarValue::try_from(&target.arrow()).planned()?;
            return Ok(Typed::new(Expr::Literal(null, None), target.clone()));
        }
        if target.is_decimal()
            && let Some(value) = self.written_decimal(target, how)?
        {
            return Ok(value);
        }
        if how.implicit
            && let Some(text) = self.literal_text()
        {
            let converted = folded(convert_value(self.clone(), target, Conversion { safe: true, ..how })?);
            if converted.literal().is_some_and(ScalarValue::is_null) {
                let message = format!("the text '{text}' cannot be read as {target}");
                return Err(fail(Code::InvalidValue, message, how.at));
            }
            return Ok(converted);
        }
        Ok(folded(convert_value(self, target, how)?))
    }

    /// A number that stands in the text as a decimal of its digits. One that the type does not have is an error, because
    /// where it is converted by itself it would be NULL.
    fn written_decimal(&self, target: &Type, how: Conversion) -> Result<Option<Typed>> {
        let Some(Digits::Number(digits)) = &self.digits else { return Ok(None) };
        let value = folded(decimal(Typed::text(digits.as_str()).expr, target, true, false));
        match value.literal().is_some_and(ScalarValue::is_null) {
            true if how.implicit => {
                Err(fail(Code::InvalidValue, format!("the number {digits} cannot be read as {target}"), how.at))
            }
            true => Ok(None),
            false => Ok(Some(value)),
        }
    }

    /// The text of a string literal.
    pub(crate) fn literal_text(&self) -> Option<&str> {
        match self.literal()? {
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) if self.ty == Type::String => Some(text),
            _ => None,
        }
    }
}

fn convert_value(value: Typed, target: &Type, how: Conversion) -> Result<Typed> {
    // A mixed record that is not unnested is read as text.
    if target.is_plain()
        && let Some(text) = text_of_mixed(&value)?
    {
        return Typed::new(text, Type::String).convert(target, how);
    }
    let Typed { expr, ty, digits } = value;
    let named = |name: &'static str, expr: Expr| kernel(name, how.safe, vec![expr]);
    let to = target.arrow();
    let expr = match (&ty, target) {
        (Type::Int64 | Type::Bool | Type::Time, Type::String) => cast(expr, DataType::Utf8View),
        (Type::Bytes, Type::String) => named("bytes_text", expr),
        (Type::Interval, Type::String) => named("interval_text", expr),
        (Type::Range(of), Type::String) => kernel("range_text", how.safe, vec![expr, lit(of.to_string())]),
        (Type::String, Type::Range(of)) => kernel("parse_range", how.safe, vec![expr, lit(of.to_string())]),
        (Type::Float64, Type::String) => named("float_text", expr),
        (Type::Numeric | Type::BigNumeric, Type::String) => named("decimal_text", expr),
        (Type::Numeric | Type::BigNumeric, Type::Float64) => named("decimal_float64", expr),
        (Type::Numeric | Type::BigNumeric, Type::Int64) if !how.implicit => named("decimal_int64", expr),
        (Type::BigNumeric, Type::Numeric) if !how.implicit => named("numeric_of_bignumeric", expr),
        (Type::Int64, Type::Numeric | Type::BigNumeric) | (Type::Numeric, Type::BigNumeric) => cast(expr, to),
        (Type::Float64, Type::Numeric) if !how.implicit => named("numeric_of_float", expr),
        (Type::Float64, Type::BigNumeric) if !how.implicit => named("bignumeric_of_float", expr),
        // A literal has no more digits than its type.
        (Type::String, Type::Numeric | Type::BigNumeric) => return Ok(decimal(expr, target, how.safe, how.implicit)),
        (Type::Timestamp, Type::String) => named("timestamp_text", expr),
        (Type::Datetime, Type::String) => named("datetime_text", expr),
        (Type::Date, Type::String) => cast(expr, DataType::Utf8View),
        (Type::Json, Type::String) | (Type::String, Type::Json) => expr,
        (Type::String | Type::Json, Type::Int64) => named("parse_int64", expr),
        (Type::String | Type::Json, Type::Float64) => named("parse_float64", expr),
        (Type::String | Type::Json, Type::Bool) => named("parse_bool", expr),
        (Type::String, Type::Timestamp) => named("parse_timestamp", expr),
        (Type::String, Type::Datetime) => named("parse_datetime", expr),
        (Type::String, Type::Date) => cast(named("parse_timestamp", expr), to),
        (Type::String, Type::Time) => named("parse_time", expr),
        (Type::String, Type::Interval) => named("parse_interval", expr),
        (Type::String, Type::Bytes) => named("text_bytes", expr),
        (Type::Float64, Type::Int64) => named("round_int64", expr),
        (Type::Int64, Type::Float64) | (Type::Bool, Type::Int64) => cast(expr, to),
        (Type::Int64, Type::Bool) => expr.not_eq(lit(0_i64)),
        (Type::Timestamp, Type::Datetime) | (Type::Datetime, Type::Timestamp) => expr,
        (Type::Date, Type::Timestamp | Type::Datetime)
        | (Type::Timestamp | Type::Datetime, Type::Date | Type::Time) => cast(expr, to),
        // Timestamps are compared with microseconds, because results show them so.
        (Type::Int64, Type::Timestamp) if how.implicit => cast(expr, to),
        (Type::Record(fields), Type::Array(item))
            if Type::Struct { fields: Arc::clone(fields), open: true }.arrow() == item.arrow() =>
        {
            list_of_record(expr)?
        }
        _ if how.implicit && is_united(&ty, target) => united(expr, &ty, target),
        (Type::Array(from), Type::Array(item))
            if **from == Type::Null
                || matches!((&**from, &**item), (Type::Int64, Type::Float64 | Type::Numeric | Type::BigNumeric)) =>
        {
            cast(expr, to)
        }
        (Type::Array(from), Type::Array(item))
            if from != item
                && (matches!((&**from, &**item), (Type::Struct { .. }, Type::Struct { .. }))
                    || (from.is_plain() && item.is_plain())) =>
        {
            // Each element is converted as a value by itself would be.
            let name = "item".to_owned();
            let element = Typed::new(col(&name), (**from).clone()).convert(item, how)?;
            let list = mapped(expr.clone(), name, element.expr)?;
            when(expr.is_not_null(), list).end().planned()?
        }
        (Type::Array(from), Type::Array(item)) if from.arrow() == item.arrow() => expr,
        (Type::Array(item), Type::Record(_)) if **item == Type::Null => {
            let null = ScalarValue::try_from(&to).planned()?;
            Expr::Literal(null, None)
        }
        (Type::Struct { fields: from, .. }, Type::Struct { fields: into, .. }) if from.len() == into.len() => {
            let mut parts = Vec::with_capacity(2 * into.len());
            for (i, (from, into)) in from.iter().zip(into.iter()).enumerate() {
                let digits = match &digits {
                    Some(Digits::Fields(digits)) => digits.get(i).cloned().flatten(),
                    _ => None,
                };
                let part = Typed { digits, ..stored_field(&Typed::new(expr.clone(), ty.clone()), from) };
                parts.extend([lit(into.name.as_str()), part.convert(&into.ty, how)?.expr]);
            }
            let rebuilt = datafusion::functions::core::expr_fn::named_struct(parts);
            when(expr.is_not_null(), rebuilt).end().planned()?
        }
        _ => return Err(no_conversion(&ty, target, how)),
    };
    Ok(Typed::new(expr, target.clone()))
}

/// A text as a decimal; an `exact` one has no more digits than the type.
fn decimal(text: Expr, target: &Type, safe: bool, exact: bool) -> Typed {
    let name = match (target, exact) {
        (Type::Numeric, false) => "numeric_of_text",
        (Type::Numeric, true) => "numeric_of_literal",
        (_, false) => "bignumeric_of_text",
        (_, true) => "bignumeric_of_literal",
    };
    Typed::new(kernel(name, safe, vec![text]), target.clone())
}

fn no_conversion(from: &Type, to: &Type, how: Conversion) -> Failure {
    let hint = match (from, to) {
        (Type::Record(_) | Type::Array(_) | Type::Struct { .. }, Type::String) => "; TO_JSON_STRING gives its text",
        (Type::Int64, Type::Timestamp) => "; use TIMESTAMP_MICROS, TIMESTAMP_MILLIS or TIMESTAMP_SECONDS",
        (Type::Timestamp, Type::Int64) => "; use UNIX_MICROS, UNIX_MILLIS or UNIX_SECONDS",
        (Type::Float64 | Type::BigNumeric, Type::Numeric) => "; CAST(x AS NUMERIC) rounds it",
        (Type::Float64, Type::BigNumeric) => "; CAST(x AS BIGNUMERIC) rounds it",
        (Type::Numeric | Type::BigNumeric, Type::Int64) => "; CAST(x AS INT64) rounds it",
        _ => "",
    };
    invalid(format!("a value of type {from} cannot be used as {to}{hint}"), how.at)
}

/// Whether values of one type become another field by field, by name: records, and lists of them.
fn is_united(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Record(_), Type::Record(_)) => true,
        (Type::Record(_), Type::Array(item)) => matches!(**item, Type::Struct { open: true, .. }),
        (Type::Struct { .. }, Type::Struct { open, .. }) => *open,
        (Type::Array(from), Type::Array(to)) => is_united(from, to),
        _ => false,
    }
}

/// A value as a column of a plan. NULL and ERROR(...), whose type is unknown, get a type that every operator of the
/// engine can carry: text.
pub(crate) fn plan_column(value: Typed) -> Typed {
    if let Some(error) = raised_as(&value.expr, &DataType::Utf8View) {
        return Typed::new(error, Type::String);
    }
    if value.ty == Type::Null {
        return Typed::new(Expr::Literal(ScalarValue::Utf8View(None), None), Type::Null);
    }
    value
}

/// Whether a value is ERROR(...).
fn is_error(value: &Typed) -> bool {
    raised_as(&value.expr, &DataType::Null).is_some()
}

/// All values, converted to their common type, and that type; `at` is the place for messages.
///
/// # Errors
/// If there is no common type.
pub(crate) fn unify(values: Vec<Typed>, at: Option<Position>) -> Result<(Vec<Typed>, Type)> {
    let ty = common_of(&values, at)?;
    // ERROR(...) among nothing but NULLs still needs a type that holds values.
    let ty = if ty == Type::Null && values.iter().any(is_error) { Type::String } else { ty };
    let convert = |value: Typed| Ok(Typed { digits: None, ..value.convert(&ty, Conversion::implicit(at))? });
    let values = values.into_iter().map(convert).collect::<Result<Vec<_>>>()?;
    Ok((values, ty))
}

/// The type that values take together. A text literal takes the type of the other values, where it can be read as that
/// type.
///
/// # Errors
/// If there is no common type.
pub(crate) fn common_of(values: &[Typed], at: Option<Position>) -> Result<Type> {
    let firm = common(values.iter().filter(|v| v.literal_text().is_none()).map(|v| v.ty.clone()), at)?;
    // A number that is written is a decimal beside one.
    if values.iter().any(|value| value.digits.is_some()) && values.iter().any(|value| has_decimal(&value.ty)) {
        let open = |value: &Typed| match &value.digits {
            Some(digits) => digits.left_open(&value.ty),
            None => value.ty.clone(),
        };
        let open = common(values.iter().map(open), at)?;
        return Ok(decimal_type(common(values.iter().map(|v| v.ty.clone()), at)?, open));
    }
    match firm {
        Type::Timestamp | Type::Datetime | Type::Date | Type::Time | Type::Range(_)
            if values.iter().all(|v| reads_as(v, &firm)) =>
        {
            Ok(firm)
        }
        _ => common(values.iter().map(|v| v.ty.clone()), at),
    }
}

/// Whether a type is of decimals, or a STRUCT with some.
fn has_decimal(ty: &Type) -> bool {
    match ty {
        Type::Struct { fields, .. } => fields.iter().any(|field| has_decimal(&field.ty)),
        ty => ty.is_decimal(),
    }
}

/// A common type, with decimals where the other one has them.
fn decimal_type(ty: Type, other: Type) -> Type {
    match (ty, other) {
        (Type::Float64, other) if other.is_decimal() => other,
        (Type::Struct { fields, open }, Type::Struct { fields: others, .. }) if fields.len() == others.len() => {
            let both = fields.iter().zip(others.iter());
            let fields = both.map(|(field, other)| Field {
                name: field.name.clone(),
                ty: decimal_type(field.ty.clone(), other.ty.clone()),
            });
            Type::Struct { fields: fields.collect(), open }
        }
        (ty, _) => ty,
    }
}

fn reads_as(value: &Typed, ty: &Type) -> bool {
    value.literal_text().is_none() || value.clone().convert(ty, Conversion::implicit(None)).is_ok()
}
