//! Operators: arithmetic, comparison, AND and OR, and the Postgres spellings whose meaning is clear.

use datafusion::logical_expr::{Operator, binary_expr, lit};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{BinaryOperator, Expr as Ast, Ident, UnaryOperator};
use tidegate_model::{Failure, Position};

use super::negate_if;
use crate::fail::{Result, invalid, unsupported};
use crate::library::{self, Argument};
use crate::resolve::context::{Context, Decides};
use crate::resolve::resolver::Resolver;
use crate::text;
use crate::typed::{Digits, Typed};
use crate::types::Type;
use crate::typing::{Conversion, compare, folded};
use crate::typing::{kernel, to_json_string};

impl Resolver<'_> {
    pub(super) fn binary(
        &mut self,
        left: &Ast,
        op: &BinaryOperator,
        right: &Ast,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        use BinaryOperator as B;
        let (left, right) = (self.expr(left, cx)?, self.expr(right, cx)?);
        match op {
            B::Eq => compare(left, Operator::Eq, right, at),
            B::NotEq => compare(left, Operator::NotEq, right, at),
            B::Lt => compare(left, Operator::Lt, right, at),
            B::LtEq => compare(left, Operator::LtEq, right, at),
            B::Gt => compare(left, Operator::Gt, right, at),
            B::GtEq => compare(left, Operator::GtEq, right, at),
            B::Plus | B::Minus if is_time(&left.ty) || is_time(&right.ty) || left.ty == Type::Interval => {
                library::time_arithmetic(left, matches!(op, B::Minus), right, cx.guarded, at)
            }
            B::Multiply if left.ty == Type::Interval || right.ty == Type::Interval => {
                library::interval_times(left, right, at)
            }
            B::Plus => library::arithmetic(left, Operator::Plus, right, cx.guarded, at),
            B::Minus => library::arithmetic(left, Operator::Minus, right, cx.guarded, at),
            B::Multiply => library::arithmetic(left, Operator::Multiply, right, cx.guarded, at),
            B::Modulo => library::arithmetic(left, Operator::Modulo, right, cx.guarded, at),
            B::Divide if left.ty == Type::Interval => library::interval_over(left, right, cx.guarded, at),
            B::Divide => library::division(left, right, cx.guarded, at),
            B::StringConcat => {
                let is_list = |value: &Typed| matches!(value.ty, Type::Array(_) | Type::Record(_));
                let name = if is_list(&left) || is_list(&right) { "ARRAY_CONCAT" } else { "CONCAT" };
                self.build(name, vec![Argument::Value(left), Argument::Value(right)], at, cx)
            }
            B::BitwiseAnd
            | B::BitwiseOr
            | B::BitwiseXor
            | B::PGBitwiseXor
            | B::PGBitwiseShiftLeft
            | B::PGBitwiseShiftRight => {
                let how = Conversion::implicit(at);
                let (left, right) = (left.convert(&Type::Int64, how)?.expr, right.convert(&Type::Int64, how)?.expr);
                // The engine shifts as the processor does, by the distance modulo 64.
                let expr = match op {
                    B::PGBitwiseShiftLeft => kernel("shift_left", cx.guarded, vec![left, right]),
                    B::PGBitwiseShiftRight => kernel("shift_right", cx.guarded, vec![left, right]),
                    B::BitwiseAnd => binary_expr(left, Operator::BitwiseAnd, right),
                    B::BitwiseOr => binary_expr(left, Operator::BitwiseOr, right),
                    // The engine makes 0 of its own `x ^ x`, also where x is NULL (DataFusion 55.2.0, `expr_simplifier`).
                    _ => kernel("bitwise_xor", cx.guarded, vec![left, right]),
                };
                Ok(folded(Typed::new(expr, Type::Int64)))
            }
            // Postgres spellings whose meaning is clear.
            B::PGRegexMatch => library::regexp_contains(left, right, false, at),
            B::PGRegexIMatch => library::regexp_contains(left, right, true, at),
            B::PGRegexNotMatch => Ok(negate_if(true, library::regexp_contains(left, right, false, at)?.expr)),
            B::PGRegexNotIMatch => Ok(negate_if(true, library::regexp_contains(left, right, true, at)?.expr)),
            B::Arrow | B::LongArrow => self.arrow(left, right, matches!(op, B::LongArrow), at),
            other => Err(foreign_operator(&other.to_string(), at)),
        }
    }

    /// AND and OR, in a loop: chains of hundreds are common and must not recurse.
    pub(super) fn connect(
        &mut self,
        left: &Ast,
        op: &BinaryOperator,
        right: &Ast,
        decides: Decides,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let decides = match (op, decides) {
            (BinaryOperator::Or, Decides::Row) => Decides::RowOrOther,
            (_, decides) => decides,
        };
        let mut rights = vec![right];
        let mut first = left;
        while let Ast::BinaryOp { left, op: inner, right } = first {
            if inner != op {
                break;
            }
            rights.push(right);
            first = left;
        }
        cx.decides = decides;
        let mut expr = self.condition(first, cx)?;
        for right in rights.into_iter().rev() {
            cx.decides = decides;
            let right = self.condition(right, cx)?;
            expr = if *op == BinaryOperator::And { expr.and(right) } else { expr.or(right) };
        }
        Ok(folded(Typed::new(expr, Type::Bool)))
    }

    pub(super) fn unary(
        &mut self,
        op: UnaryOperator,
        inner: &Ast,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        match op {
            UnaryOperator::Not => Ok(negate_if(true, self.condition(inner, cx)?)),
            UnaryOperator::BitwiseNot => {
                let value = self.expr(inner, cx)?.convert(&Type::Int64, Conversion::implicit(at))?;
                let flipped = binary_expr(value.expr, Operator::BitwiseXor, lit(-1_i64));
                Ok(folded(Typed::new(flipped, Type::Int64)))
            }
            UnaryOperator::Minus | UnaryOperator::Plus => {
                // The smallest INT64 cannot be read as a positive number and negated.
                if let (UnaryOperator::Minus, Ast::Value(value)) = (op, inner)
                    && let sqlparser::ast::Value::Number(digits, _) = &value.value
                    && let Ok(number) = format!("-{digits}").parse::<i64>()
                {
                    return Ok(Typed::new(lit(number), Type::Int64));
                }
                let value = self.expr(inner, cx)?;
                let digits = value.digits.as_ref().and_then(Digits::negated);
                let value = if value.ty.is_number() || value.ty == Type::Interval {
                    value
                } else {
                    value.convert(&Type::Float64, Conversion::implicit(at))?
                };
                if op == UnaryOperator::Plus {
                    return Ok(value);
                }
                // The engine's own negation turns the smallest INT64 into itself, and the engine loses track of orders
                // by negated keys.
                let minus_one = Typed::new(lit(-1_i64), Type::Int64);
                match value.ty {
                    Type::Interval => library::interval_times(value, minus_one, at),
                    Type::Numeric | Type::BigNumeric => {
                        let ty = value.ty.clone();
                        Ok(folded(Typed::new(kernel("decimal_negate", cx.guarded, vec![value.expr]), ty)))
                    }
                    _ => {
                        let value = library::arithmetic(value, Operator::Multiply, minus_one, cx.guarded, at)?;
                        Ok(Typed { digits, ..value })
                    }
                }
            }
            other => Err(foreign_operator(&other.to_string(), at)),
        }
    }

    /// Postgres's `value -> 'key'` and `value ->> 'key'`, on records and on JSON text.
    fn arrow(&mut self, left: Typed, right: Typed, as_text: bool, at: Option<Position>) -> Result<Typed> {
        let sign = if as_text { "->>" } else { "->" };
        let key = match (right.literal_text(), right.literal()) {
            (Some(name), _) => name.to_owned(),
            // To the dialect a record is a list of one: its element is the record.
            (None, Some(ScalarValue::Int64(Some(n))))
                if matches!(left.ty, Type::Record(_) | Type::Struct { .. } | Type::Array(_)) =>
            {
                let message = format!(
                    "{sign} {n} reads an element, which of a list is list[SAFE_OFFSET({n})]; {sign} takes the name of a field"
                );
                return Err(invalid(message, at));
            }
            (None, Some(ScalarValue::Int64(Some(n)))) => n.to_string(),
            _ => {
                let instead = Some("write JSON_QUERY(text, '$.key')");
                return Err(unsupported(format!("{sign} with a computed key"), instead, at));
            }
        };
        let found = match left.ty {
            Type::Record(fields) => {
                let element = Type::Struct { fields, open: true };
                self.field(&Typed::new(left.expr, element), &Ident::new(key))?
            }
            Type::Struct { .. } | Type::Null => self.field(&left, &Ident::new(key))?,
            Type::String | Type::Json => {
                let step = if right.ty == Type::Int64 { format!("$[{key}]") } else { format!("$.\"{key}\"") };
                let name = if as_text { "json_value" } else { "json_query" };
                let ty = if as_text { Type::String } else { Type::Json };
                return Ok(Typed::new(kernel(name, true, vec![left.expr, Typed::text(step).expr]), ty));
            }
            Type::Array(item) if matches!(*item, Type::Struct { .. }) => {
                let message = format!(
                    "{sign} reads a field of a record, and this is a list of records; write x.{} after CROSS JOIN UNNEST(...) AS x",
                    text::written(&key)
                );
                return Err(invalid(message, at));
            }
            ty => {
                let message = format!(
                    "{sign} reads a field of a record or of JSON, and this is a value of type {ty}; write JSON_VALUE(text, '$.{key}') of a text"
                );
                return Err(invalid(message, at));
            }
        };
        Ok(match found.ty {
            Type::Record(_) | Type::Array(_) | Type::Struct { .. } if as_text => to_json_string(&found),
            _ if as_text => found.convert(&Type::String, Conversion::implicit(at))?,
            _ => found,
        })
    }
}

fn is_time(ty: &Type) -> bool {
    matches!(ty, Type::Timestamp | Type::Datetime | Type::Date | Type::Time)
}

/// The failure of an operator that the parser reads and the dialect does not have.
fn foreign_operator(operator: &str, at: Option<Position>) -> Failure {
    match text::foreign_operator(operator) {
        Some((what, instead)) => unsupported(what, Some(instead), at),
        None => unsupported(format!("the operator {operator}"), None, at),
    }
}
