//! One filter as a SQL condition on a column or an element of a list: the operators, and literals in the type of what
//! they are compared with.
//!
//! Log data is irregular. So a value that does not have the type of its column is not an error; it is compared as text,
//! and rows for which the comparison is false do not match. Only for a time the value must be a time.

use sqlparser::ast::{BinaryOperator, Expr};

use crate::cast::cast;
use crate::error::{LqlError, excerpt};
use crate::rules::{Filter, Literal, Operand, Operator, Value};
use crate::schema::{Field, FieldType};
use crate::tree;

/// The condition under which `column` matches the filter. `field` is its type if known. Negation is left to the caller.
/// A list as a whole is compared only by `:` and `:@>`.
pub(crate) fn condition(filter: &Filter, field: Option<Field>, column: Expr) -> Result<Expr, LqlError> {
    let low = match &filter.operand {
        Operand::Levels(levels) => {
            let list = levels.iter().map(|level| tree::text(level.name())).collect();
            return Ok(Expr::InList { expr: Box::new(column), list, negated: false });
        }
        Operand::Range(low, high) => {
            return Ok(Expr::Between {
                expr: Box::new(column),
                negated: false,
                low: Box::new(literal(filter, field, low)?),
                high: Box::new(literal(filter, field, high)?),
            });
        }
        Operand::One(one) => one,
    };
    let list = field.map(|field| field.list);
    let compare = |op| Ok(tree::binary(column.clone(), op, literal(filter, field, low)?));
    match filter.operator {
        // A single value is treated like a list of one.
        Operator::ListIncludes if list == Some(false) => compare(BinaryOperator::Eq),
        Operator::Equal if list == Some(true) => includes(filter, field, column, low),
        Operator::ListIncludes => includes(filter, field, column, low),
        Operator::Equal | Operator::Range => compare(BinaryOperator::Eq),
        Operator::Greater => compare(BinaryOperator::Gt),
        Operator::GreaterOrEqual => compare(BinaryOperator::GtEq),
        Operator::Less => compare(BinaryOperator::Lt),
        Operator::LessOrEqual => compare(BinaryOperator::LtEq),
        Operator::Regex | Operator::ListIncludesRegex => {
            Ok(tree::call("REGEXP_CONTAINS", vec![column, tree::text(low.text.clone())]))
        }
        Operator::Contains => {
            let place = tree::call("STRPOS", vec![column, tree::text(low.text.clone())]);
            Ok(tree::binary(place, BinaryOperator::Gt, tree::integer(0)))
        }
    }
}

/// Whether a list contains the value. Text is never contained in a list of numbers, nor a fraction in one of integers;
/// the result is then NULL, because the elements of a list are not converted one by one.
fn includes(filter: &Filter, field: Option<Field>, list: Expr, value: &Literal) -> Result<Expr, LqlError> {
    let kind = field.filter(|field| field.list).map(|field| field.kind);
    let wanted = match (kind, in_type(filter, field, value)?) {
        (Some(FieldType::Boolean | FieldType::Float | FieldType::Integer), Value::Text(_)) => Value::Null,
        (Some(FieldType::Integer), Value::Float(_)) => Value::Null,
        (_, wanted) => wanted,
    };
    Ok(Expr::InUnnest { expr: Box::new(written(wanted, kind)), array_expr: Box::new(list), negated: false })
}

/// Whether the condition may be NULL although the column is not, because its value or an element is NULL.
pub(crate) fn may_be_null(filter: &Filter, field: Option<Field>) -> bool {
    let null = |literal: &Literal| literal.value == Value::Null;
    filter.operator == Operator::ListIncludes
        || field.is_some_and(|field| field.list)
        || match &filter.operand {
            Operand::One(one) => null(one),
            Operand::Range(low, high) => null(low) || null(high),
            Operand::Levels(_) => false,
        }
}

fn literal(filter: &Filter, field: Option<Field>, literal: &Literal) -> Result<Expr, LqlError> {
    Ok(written(in_type(filter, field, literal)?, field.map(|field| field.kind)))
}

/// The value in the type of the column.
fn in_type(filter: &Filter, field: Option<Field>, literal: &Literal) -> Result<Value, LqlError> {
    match field {
        Some(field) if literal.guessed => typed(filter, field.kind, literal),
        None if literal.guessed && filter.modifiers.quoted_string => Ok(Value::Text(literal.text.clone())),
        _ => Ok(literal.value.clone()),
    }
}

/// Times are written as text without zone, which BigQuery reads as TIMESTAMP or DATETIME, whichever the column is. For
/// an integer column they are microseconds.
fn written(value: Value, kind: Option<FieldType>) -> Expr {
    let micros = kind == Some(FieldType::Integer);
    match value {
        Value::Null => tree::null(),
        Value::Boolean(value) => tree::boolean(value),
        Value::Integer(value) => tree::integer(value),
        Value::Float(value) => tree::float(value),
        Value::Text(value) => tree::text(value),
        Value::Date(value) if micros => {
            let midnight = value.and_time(chrono::NaiveTime::MIN);
            tree::integer(midnight.and_utc().timestamp_micros())
        }
        Value::Date(value) => tree::text(value.to_string()),
        Value::Datetime(value) if micros => tree::integer(value.utc().and_utc().timestamp_micros()),
        Value::Datetime(value) => tree::text(value.exact()),
    }
}

/// A value whose type was guessed, in the type of the column.
fn typed(filter: &Filter, kind: FieldType, literal: &Literal) -> Result<Value, LqlError> {
    let number = matches!(literal.value, Value::Integer(_) | Value::Float(_)) && !filter.modifiers.quoted_string;
    let ordered = matches!(
        filter.operator,
        Operator::Greater | Operator::GreaterOrEqual | Operator::Less | Operator::LessOrEqual | Operator::Range
    );
    // `code:>=500` on a text column with numbers compares by their values, not by their digits.
    if kind == FieldType::String && ordered && number {
        return Ok(literal.value.clone());
    }
    match cast(kind, &literal.text) {
        Ok(value) => Ok(value),
        Err((error, expected)) if kind == FieldType::Datetime => {
            let (path, text) = (excerpt(&filter.path), excerpt(&literal.text));
            let message = format!("column `{path}` takes {expected}; `{text}` is not");
            Err(LqlError::new(error, message, filter.position))
        }
        Err(_) if kind == FieldType::Integer && number => Ok(literal.value.clone()),
        Err(_) => Ok(Value::Text(literal.text.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, parse};

    /// The literal of `x:VALUE` over a column of that type.
    fn shown(kind: FieldType, clause: &str) -> String {
        let query = parse(clause, Mode::Schemaless, None, &[]).unwrap();
        let filter = query.filters.first().unwrap();
        let Operand::One(one) = &filter.operand else { panic!("one value") };
        literal(filter, Some(Field { kind, list: false }), one).map_or_else(|e| e.kind.to_string(), |e| e.to_string())
    }

    #[test]
    fn literals_take_the_type_of_the_column_or_are_text() {
        use FieldType::{Boolean, Datetime, Float, Integer, Other, String};
        for (kind, clause, wanted) in [
            (String, "x:007", "'007'"),
            (String, "x:true", "'true'"),
            (String, "x:>=7", "7"),
            (String, "x:>=\"7\"", "'7'"),
            (String, "x:>=b", "'b'"),
            (Integer, "x:7", "7"),
            (Integer, "x:\"-7\"", "-7"),
            (Integer, "x:7.5", "7.5"),
            (Integer, "x:\"7.5\"", "'7.5'"),
            (Integer, "x:seven", "'seven'"),
            (Integer, "x:true", "'true'"),
            (Integer, "x:99999999999999999999", "'99999999999999999999'"),
            (Float, "x:7", "7.0"),
            (Float, "x:seven", "'seven'"),
            (Boolean, "x:true", "true"),
            (Boolean, "x:1", "'1'"),
            (Datetime, "x:1000000000", "'2001-09-09T01:46:40'"),
            (Datetime, "x:2031-02-03", "'2031-02-03'"),
            (Datetime, "x:soon", "type_datetime"),
            (Datetime, "x:NULL", "NULL"),
            (Other, "x:7", "7"),
        ] {
            assert_eq!(shown(kind, clause), wanted, "{kind:?} {clause}");
        }
    }
}
