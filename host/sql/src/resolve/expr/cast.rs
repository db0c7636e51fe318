//! CAST and SAFE_CAST: the type that they name, and its parameters, by which a value may be too long or too large.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, cast, col, lit, when};
use sqlparser::ast::{
    ArrayElemTypeDef, CastFormat, CastKind, DataType as AstType, ExactNumberInfo, Expr as Ast, FunctionArg,
};
use tidegate_model::Position;

use super::literal::named_type;
use super::{array_of, plain_argument};
use crate::fail::{Planning, Result, invalid, unsupported};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, folded, kernel, mapped, stored_field};

/// What the parameters of a type ask of its values.
enum Limit {
    /// So many characters or bytes.
    Length(u64),
    /// So many digits, and so many of them behind the point.
    Digits(u64, u64),
}

impl Resolver<'_> {
    /// `CAST(value AS type)`.
    pub(super) fn cast(
        &mut self,
        kind: &CastKind,
        value: &Ast,
        data_type: &AstType,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let safe = cx.guarded || matches!(kind, CastKind::SafeCast | CastKind::TryCast);
        let target = named_type(data_type, at)?;
        let how = Conversion::cast(at, safe);
        let value = match (value, &target) {
            // As numbers of one type they would lose digits.
            (Ast::Array(array), Type::Array(item)) if item.is_decimal() && !array.elem.is_empty() => {
                let items = array.elem.iter().map(|value| self.expr(value, cx)?.convert(item, how));
                array_of(items.collect::<Result<_>>()?, at)?
            }
            (value, Type::Range(_)) => {
                let value = self.expr(value, cx)?;
                // The literal of a RANGE is read as a cast of its text. It is wrong wherever it stands.
                let is_literal = *kind == CastKind::Cast && value.literal_text().is_some();
                value.convert(&target, if is_literal { Conversion::implicit(at) } else { how })?
            }
            _ => self.expr(value, cx)?.convert(&target, how)?,
        };
        if value.ty == Type::Null {
            return Ok(value);
        }
        limited(value, data_type, safe, at)
    }

    /// `CAST(value AS type FORMAT 'format')`.
    pub(super) fn cast_in_format(
        &mut self,
        cast: (&CastKind, &Ast, &AstType),
        format: &CastFormat,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let (format, zone) = match format {
            CastFormat::Value(format) => (self.literal(format)?, None),
            CastFormat::ValueAtTimeZone(format, zone) => (self.literal(format)?, Some(self.literal(zone)?)),
        };
        self.cast_by(cast, format, zone, at, cx)
    }

    /// The same with a format, and a zone, that are expressions: `cast, format, zone`.
    pub(super) fn formatted_cast(
        &mut self,
        list: &[FunctionArg],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let list = list.iter().map(plain_argument).collect::<Result<Vec<_>>>()?;
        let [Ast::Cast { kind, expr, data_type, .. }, format, zone @ ..] = list.as_slice() else {
            return Err(invalid("FORMAT stands in a CAST: CAST(value AS type FORMAT format)", at));
        };
        let (format, zone) = (self.expr(format, cx)?, zone.first().map(|zone| self.expr(zone, cx)).transpose()?);
        self.cast_by((kind, expr, data_type), format, zone, at, cx)
    }

    /// A cast in a format, of BYTES and times, and back.
    fn cast_by(
        &mut self,
        (kind, value, data_type): (&CastKind, &Ast, &AstType),
        format: Typed,
        zone: Option<Typed>,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let safe = cx.guarded || matches!(kind, CastKind::SafeCast | CastKind::TryCast);
        let target = named_type(data_type, at)?;
        let value = self.expr(value, cx)?;
        let how = Conversion::implicit(at);
        if let Some(other) = zone.iter().chain([&format]).find(|of| !matches!(of.ty, Type::String | Type::Null)) {
            return Err(invalid(format!("FORMAT and its time zone are texts, not values of type {}", other.ty), at));
        }
        let format = format.convert(&Type::String, how)?.expr;
        let zone = zone.map(|zone| zone.convert(&Type::String, how)).transpose()?;
        let zone = zone.unwrap_or_else(|| Typed::text("UTC")).expr;
        let (is_time, is_text) = (time_kind, |ty: &Type| matches!(ty, Type::String | Type::Null));
        let expr = match (&value.ty, &target) {
            (Type::Bytes, Type::String) => kernel("bytes_in_format", safe, vec![value.expr, format]),
            (ty, Type::Bytes) if is_text(ty) => {
                let text = value.convert(&Type::String, how)?.expr;
                kernel("bytes_of_format", safe, vec![text, format])
            }
            (ty, Type::String) if is_time(ty).is_some() => {
                let kind = is_time(ty).unwrap_or_default();
                kernel("time_in_elements", safe, vec![format, micros_of(value), zone, lit(kind)])
            }
            (ty, to) if is_text(ty) && is_time(to).is_some() => {
                let text = value.convert(&Type::String, how)?.expr;
                let kind = lit(is_time(to).unwrap_or_default());
                let moment = kernel("time_of_elements", safe, vec![format, text, zone, kind, lit(self.now)]);
                match to {
                    Type::Date => cast(moment, DataType::Date32),
                    Type::Time => kernel("time_of_micros", safe, vec![moment]),
                    _ => moment,
                }
            }
            (Type::Int64 | Type::Numeric | Type::BigNumeric, Type::String) => {
                let text = value.convert(&Type::String, Conversion::cast(at, safe))?.expr;
                kernel("number_in_format", safe, vec![text, format])
            }
            (from, to) => {
                let what = format!("CAST of {from} as {to} with FORMAT");
                let instead = "a FLOAT64 is cast to NUMERIC before, and a text to a number without a format";
                return Err(unsupported(what, Some(instead), at));
            }
        };
        Ok(folded(Typed::new(expr, target)))
    }
}

/// A value within the parameters of its type, and of those of its elements and fields.
fn limited(value: Typed, data_type: &AstType, safe: bool, at: Option<Position>) -> Result<Typed> {
    if let Some(limit) = limit(data_type, at)? {
        let whole = |n: u64| lit(i64::try_from(n).unwrap_or(i64::MAX));
        let (name, arguments) = match limit {
            Limit::Length(most) if value.ty == Type::Bytes => ("bounded_bytes", vec![whole(most)]),
            Limit::Length(most) => ("bounded_text", vec![whole(most)]),
            Limit::Digits(digits, scale) => ("decimal_bounded", vec![whole(digits), whole(scale)]),
        };
        let arguments = std::iter::once(value.expr).chain(arguments).collect();
        return Ok(folded(Typed::new(kernel(name, safe, arguments), value.ty)));
    }
    let there = value.expr.clone().is_not_null();
    let expr = match (data_type, &value.ty) {
        _ if !has_limit(data_type, at)? => return Ok(value),
        (
            AstType::Array(
                ArrayElemTypeDef::AngleBracket(of)
                | ArrayElemTypeDef::SquareBracket(of, _)
                | ArrayElemTypeDef::Parenthesis(of),
            ),
            Type::Array(item),
        ) => {
            let name = "item".to_owned();
            let element = limited(Typed::new(col(&name), (**item).clone()), of, safe, at)?;
            mapped(value.expr.clone(), name, element.expr)?
        }
        (AstType::Struct(types, _), Type::Struct { fields, .. }) => {
            let mut parts = Vec::with_capacity(2 * fields.len());
            for (field, of) in fields.iter().zip(types) {
                let part = limited(stored_field(&value, field), &of.field_type, safe, at)?;
                parts.extend([lit(field.name.as_str()), part.expr]);
            }
            core::named_struct(parts)
        }
        (_, ty) => return Err(unsupported(format!("CAST of {ty} to a type with parameters"), None, at)),
    };
    Ok(folded(Typed::new(when(there, expr).end().planned()?, value.ty)))
}

/// Whether a type, or one of its elements and fields, has parameters.
fn has_limit(data_type: &AstType, at: Option<Position>) -> Result<bool> {
    match data_type {
        AstType::Array(
            ArrayElemTypeDef::AngleBracket(of)
            | ArrayElemTypeDef::SquareBracket(of, _)
            | ArrayElemTypeDef::Parenthesis(of),
        ) => has_limit(of, at),
        AstType::Struct(types, _) => types.iter().try_fold(false, |has, of| Ok(has | has_limit(&of.field_type, at)?)),
        other => Ok(limit(other, at)?.is_some()),
    }
}

/// What a time has, as the kernels take it: a date, a time of day, a zone.
fn time_kind(ty: &Type) -> Option<i64> {
    match ty {
        Type::Date => Some(1),
        Type::Time => Some(2),
        Type::Datetime => Some(3),
        Type::Timestamp => Some(7),
        _ => None,
    }
}

/// A time in microseconds since 1970, a time of day in those since midnight.
fn micros_of(value: Typed) -> Expr {
    match value.ty {
        Type::Date => cast(cast(value.expr, Type::Timestamp.arrow()), DataType::Int64),
        _ => cast(value.expr, DataType::Int64),
    }
}

/// The limit that a type names.
fn limit(data_type: &AstType, at: Option<Position>) -> Result<Option<Limit>> {
    let (number, most_whole, most_scale) = match data_type {
        AstType::String(Some(most)) | AstType::Bytes(Some(most)) if *most > 0 => {
            return Ok(Some(Limit::Length(*most)));
        }
        AstType::String(Some(_)) | AstType::Bytes(Some(_)) => {
            return Err(invalid(format!("the length of {data_type} is 1 or more"), at));
        }
        AstType::Numeric(number) | AstType::Decimal(number) => (number, 29, 9),
        AstType::BigNumeric(number) | AstType::BigDecimal(number) => (number, 38, 38),
        _ => return Ok(None),
    };
    let (digits, scale) = match number {
        ExactNumberInfo::None => return Ok(None),
        ExactNumberInfo::Precision(digits) => (*digits, 0),
        ExactNumberInfo::PrecisionAndScale(digits, scale) => (*digits, u64::try_from(*scale).unwrap_or(u64::MAX)),
    };
    if digits == 0 || scale > most_scale || digits < scale || digits - scale > most_whole {
        let message = format!(
            "{data_type} has 1 to {most_whole} digits before the point and up to {most_scale} behind it, which count too"
        );
        return Err(invalid(message, at));
    }
    Ok(Some(Limit::Digits(digits, scale)))
}
