//! Literals, parameters, and the types that casts name.

use datafusion::logical_expr::{Expr, lit};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    ArrayElemTypeDef, DataType as AstType, DateTimeField, Expr as Ast, Ident, Interval, Value, ValueWithSpan,
};
use tidegate_functions::context::planning;
use tidegate_functions::time::interval_range;
use tidegate_model::{Code, Failure, Position, nearest};

use crate::fail::{Result, fail, invalid, place, place_of, unsupported};
use crate::library::computed_interval;
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::text::range_of;
use crate::typed::{Digits, Typed};
use crate::types::{Field, Type};
use crate::typing::Conversion;

impl Resolver<'_> {
    pub(super) fn literal(&self, value: &ValueWithSpan) -> Result<Typed> {
        let at = place_of(value.span);
        Ok(match &value.value {
            Value::Null => Typed::null(),
            Value::Boolean(value) => Typed::new(lit(*value), Type::Bool),
            Value::Number(text, _) => number(text, at)?,
            Value::HexStringLiteral(digits) => match i64::from_str_radix(digits, 16) {
                Ok(value) => Typed::new(lit(value), Type::Int64),
                Err(_) => return Err(invalid(format!("0x{digits} is no INT64"), at)),
            },
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::TripleSingleQuotedString(text)
            | Value::TripleDoubleQuotedString(text)
            | Value::SingleQuotedRawStringLiteral(text)
            | Value::DoubleQuotedRawStringLiteral(text)
            | Value::TripleSingleQuotedRawStringLiteral(text)
            | Value::TripleDoubleQuotedRawStringLiteral(text) => {
                planning::charge(text.len());
                Typed::text(text.as_str())
            }
            Value::SingleQuotedByteStringLiteral(text)
            | Value::DoubleQuotedByteStringLiteral(text)
            | Value::TripleSingleQuotedByteStringLiteral(text)
            | Value::TripleDoubleQuotedByteStringLiteral(text) => {
                let bytes = ScalarValue::Binary(Some(crate::text::unescape_bytes(text)));
                Typed::new(Expr::Literal(bytes, None), Type::Bytes)
            }
            Value::Placeholder(name) if name == "?" => {
                return Err(unsupported("a positional parameter (?)", Some("write @name and send it by name"), at));
            }
            other => return Err(unsupported(format!("the literal {other}"), None, at)),
        })
    }

    /// `@name`: the value that the request sent, bound as a value. A declared parameter that was
    /// not sent is NULL; so is one that only this text uses.
    pub(super) fn parameter(&self, name: &str, ident: &Ident) -> Result<Typed> {
        use tidegate_model::Value as Sent;
        let at = place_of(ident.span);
        if name.starts_with('@') || name.is_empty() {
            return Err(unsupported(format!("the system variable @{name}"), None, at));
        }
        let sent = self.arguments.get(name).or_else(|| {
            self.arguments.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        });
        let relative = match sent {
            Some(Sent::Relative(time)) => Some(Sent::of_time(*time, self.now)),
            _ => None,
        };
        Ok(match relative.as_ref().or(sent) {
            None | Some(Sent::Null | Sent::Relative(_)) => Typed::null(),
            Some(Sent::Boolean(value)) => Typed::new(lit(*value), Type::Bool),
            Some(Sent::Int64(value)) => Typed::new(lit(*value), Type::Int64),
            Some(Sent::Float64(value)) => Typed::new(lit(*value), Type::Float64),
            Some(Sent::Text(text)) => {
                planning::charge(text.len());
                Typed::text(text.as_str())
            }
            Some(Sent::Bytes(bytes)) => {
                planning::charge(bytes.len());
                Typed::new(Expr::Literal(ScalarValue::Binary(Some(bytes.clone())), None), Type::Bytes)
            }
            Some(Sent::Timestamp(micros)) => timestamp(*micros),
        })
    }

    /// `TIMESTAMP '...'`, `DATE "..."` and the like.
    pub(super) fn typed_string(&self, data_type: &AstType, value: &ValueWithSpan) -> Result<Typed> {
        let at = place_of(value.span);
        self.literal(value)?.convert(&named_type(data_type, at)?, Conversion::implicit(at))
    }

    /// `INTERVAL n PART` as months, days and nanoseconds.
    pub(super) fn interval(&mut self, interval: &Interval, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(interval.value.as_ref());
        let value = self.expr(&interval.value, cx)?;
        if let (None, Some(text)) = (&interval.leading_field, value.literal_text()) {
            // Postgres: interval '1 hour'.
            let mut total = (0, 0, 0);
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.chunks(2) {
                let [count, part] = pair else { return Err(bad_interval(text, at)) };
                let count: i64 = count.parse().map_err(|_| bad_interval(text, at))?;
                let (months, days, nanos) = interval_unit(part).ok_or_else(|| bad_interval(text, at))?;
                total = add(total, scale((months, days, nanos), count, at)?, at)?;
            }
            return interval_literal(total, at);
        }
        let Some(field) = &interval.leading_field else {
            return Err(invalid("an INTERVAL needs a part, e.g. INTERVAL 1 HOUR", at));
        };
        if let Some(last) = &interval.last_field {
            let text = value.literal_text().unwrap_or_default();
            return match interval_range(text, &field.to_string(), &last.to_string()) {
                Some(parts) => interval_literal(parts, at),
                None => Err(invalid(format!("'{text}' is no interval from {field} to {last}"), at)),
            };
        }
        if let Some(text) = value.literal_text().filter(|text| text.contains('.'))
            && field.to_string() == "SECOND"
        {
            return match interval_range(text, "SECOND", "SECOND") {
                Some(parts) => interval_literal(parts, at),
                None => Err(invalid(format!("'{text}' is no number of seconds"), at)),
            };
        }
        if value.ty == Type::Float64 {
            return Err(invalid(
                format!("an INTERVAL has a whole number of parts; write a smaller part than {field}"),
                at,
            ));
        }
        let unit =
            interval_unit(&field.to_string()).ok_or_else(|| invalid(format!("an INTERVAL has no part {field}"), at))?;
        let count = value.convert(&Type::Int64, Conversion::implicit(at))?;
        match count.literal() {
            Some(ScalarValue::Int64(Some(count))) => {
                match scale(unit, *count, at).and_then(|parts| interval_literal(parts, at)) {
                    // In an arm that may not be taken and under SAFE, an interval that is too large is NULL.
                    Err(_) if cx.guarded => Typed::null().convert(&Type::Interval, Conversion::implicit(at)),
                    interval => interval,
                }
            }
            _ => Ok(computed_interval(count.expr, unit, cx.guarded)),
        }
    }
}

/// Months, days and nanoseconds.
type IntervalParts = (i64, i64, i64);

/// One unit, by its name in any case, in singular or plural.
fn interval_unit(part: &str) -> Option<IntervalParts> {
    let part = part.to_uppercase();
    Some(match part.strip_suffix('S').unwrap_or(&part) {
        "YEAR" => (12, 0, 0),
        "QUARTER" => (3, 0, 0),
        "MONTH" => (1, 0, 0),
        "WEEK" | "ISOWEEK" => (0, 7, 0),
        "DAY" => (0, 1, 0),
        "HOUR" => (0, 0, 3_600_000_000_000),
        "MINUTE" => (0, 0, 60_000_000_000),
        "SECOND" => (0, 0, 1_000_000_000),
        "MILLISECOND" => (0, 0, 1_000_000),
        "MICROSECOND" => (0, 0, 1_000),
        _ => return None,
    })
}

fn scale(unit: IntervalParts, count: i64, at: Option<Position>) -> Result<IntervalParts> {
    let times = |part: i64| part.checked_mul(count).ok_or_else(|| fail(Code::InvalidValue, TOO_LARGE, at));
    Ok((times(unit.0)?, times(unit.1)?, times(unit.2)?))
}

fn add(one: IntervalParts, other: IntervalParts, at: Option<Position>) -> Result<IntervalParts> {
    let sum = |a: i64, b: i64| a.checked_add(b).ok_or_else(|| fail(Code::InvalidValue, TOO_LARGE, at));
    Ok((sum(one.0, other.0)?, sum(one.1, other.1)?, sum(one.2, other.2)?))
}

fn interval_literal((months, days, nanos): IntervalParts, at: Option<Position>) -> Result<Typed> {
    let small = |part: i64| i32::try_from(part).map_err(|_| fail(Code::InvalidValue, TOO_LARGE, at));
    let scalar = ScalarValue::new_interval_mdn(small(months)?, small(days)?, nanos);
    Ok(Typed::new(Expr::Literal(scalar, None), Type::Interval))
}

const TOO_LARGE: &str = "the INTERVAL is too large";

fn bad_interval(text: &str, at: Option<Position>) -> Failure {
    invalid(format!("'{text}' is no interval; write e.g. INTERVAL 1 HOUR"), at)
}

fn timestamp(micros: i64) -> Typed {
    Typed::new(Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), None), Type::Timestamp)
}

fn number(text: &str, at: Option<Position>) -> Result<Typed> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Typed::new(lit(value), Type::Int64));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // As a FLOAT64 it would be another number.
        return Err(invalid(format!("{text} is beyond INT64; write {text}.0 for a FLOAT64"), at));
    }
    match text.parse::<f64>() {
        Ok(value) => {
            Ok(Typed { digits: Some(Digits::Number(text.to_owned())), ..Typed::new(lit(value), Type::Float64) })
        }
        Err(_) => Err(invalid(format!("{text} is no number"), at)),
    }
}

/// The type that a CAST or a typed literal names.
pub(super) fn named_type(data_type: &AstType, at: Option<Position>) -> Result<Type> {
    Ok(match data_type {
        AstType::Bool | AstType::Boolean => Type::Bool,
        AstType::Int64
        | AstType::Int(_)
        | AstType::Integer(_)
        | AstType::BigInt(_)
        | AstType::SmallInt(_)
        | AstType::TinyInt(_)
        | AstType::Int2(_)
        | AstType::Int4(_)
        | AstType::Int8(_)
        | AstType::Int16
        | AstType::Int32 => Type::Int64,
        AstType::Float64
        | AstType::Float32
        | AstType::Float(_)
        | AstType::Float4
        | AstType::Float8
        | AstType::Real
        | AstType::Double(_)
        | AstType::DoublePrecision => Type::Float64,
        AstType::Numeric(_) | AstType::Decimal(_) => Type::Numeric,
        AstType::BigNumeric(_) | AstType::BigDecimal(_) => Type::BigNumeric,
        AstType::String(_) | AstType::Text | AstType::Varchar(_) | AstType::CharVarying(_) | AstType::Char(_) => {
            Type::String
        }
        AstType::Bytes(_) | AstType::Bytea => Type::Bytes,
        AstType::Timestamp(..) => Type::Timestamp,
        AstType::Datetime(_) => Type::Datetime,
        AstType::Date => Type::Date,
        AstType::Time(..) => Type::Time,
        AstType::Interval { .. } => Type::Interval,
        AstType::JSON | AstType::JSONB => Type::Json,
        AstType::Array(
            ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => Type::Array(Box::new(named_type(item, at)?)),
        AstType::Struct(fields, _) => Type::Struct {
            fields: fields
                .iter()
                .enumerate()
                .map(|(i, field)| {
                    let name =
                        field.field_name.as_ref().map_or_else(|| format!("_field_{}", i + 1), |n| n.value.clone());
                    Ok(Field { name, ty: named_type(&field.field_type, at)? })
                })
                .collect::<Result<_>>()?,
            open: false,
        },
        other if let Some(of) = range_of(other) => match of {
            "DATE" => Type::Range(Box::new(Type::Date)),
            "DATETIME" => Type::Range(Box::new(Type::Datetime)),
            "TIMESTAMP" => Type::Range(Box::new(Type::Timestamp)),
            of => return Err(invalid(format!("a RANGE is of DATE, DATETIME or TIMESTAMP, not of {of}"), at)),
        },
        other => {
            let known = [
                "BOOL",
                "INT64",
                "FLOAT64",
                "NUMERIC",
                "BIGNUMERIC",
                "STRING",
                "BYTES",
                "TIMESTAMP",
                "DATETIME",
                "DATE",
                "TIME",
                "JSON",
                "INTERVAL",
                "RANGE<DATE>",
            ];
            let name = other.to_string();
            let message = match nearest(&name, known) {
                Some(near) => format!("there is no type {name}; did you mean {near}?"),
                None => format!("there is no type {name}; there are {}", known.join(", ")),
            };
            return Err(invalid(message, at));
        }
    })
}

/// A date part as functions take it: its name in capitals, `WEEK(MONDAY)` included.
pub(super) fn date_part(ast: &Ast) -> Option<String> {
    match ast {
        Ast::Identifier(name) => Some(name.value.to_uppercase()),
        // Postgres quotes the part.
        Ast::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text) | Value::DoubleQuotedString(text), ..
        }) => Some(text.to_uppercase()),
        Ast::Function(call) => Some(call.to_string().to_uppercase()),
        _ => None,
    }
}

pub(super) fn field_part(field: &DateTimeField) -> String {
    field.to_string().to_uppercase()
}
