//! CAST and SAFE_CAST: the type that they name, and its parameters, by which a value may be too long or too large.

use datafusion::logical_expr::lit;
use sqlparser::ast::{CastKind, DataType as AstType, ExactNumberInfo, Expr as Ast};
use tidegate_model::Position;

use super::literal::named_type;
use crate::fail::{Result, invalid};
use crate::library::Argument;
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, folded, kernel};

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
        let value = self.expr(value, cx)?.convert(&target, Conversion::cast(at, safe))?;
        let Some(limit) = limit(data_type, at)? else { return Ok(value) };
        let value = match limit {
            Limit::Digits(_, scale) if value.ty != Type::Null => {
                let places = Typed::new(lit(i64::try_from(scale).unwrap_or_default()), Type::Int64);
                self.build("ROUND", vec![Argument::Value(value), Argument::Value(places)], at, cx)?
            }
            _ => value,
        };
        let whole = |n: u64| lit(i64::try_from(n).unwrap_or(i64::MAX));
        let (name, arguments) = match limit {
            Limit::Length(most) if value.ty == Type::Bytes => ("bounded_bytes", vec![whole(most)]),
            Limit::Length(most) => ("bounded_text", vec![whole(most)]),
            Limit::Digits(digits, scale) => ("bounded_number", vec![whole(digits), whole(scale)]),
        };
        let arguments = std::iter::once(value.expr).chain(arguments).collect();
        Ok(folded(Typed::new(kernel(name, safe, arguments), value.ty)))
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
