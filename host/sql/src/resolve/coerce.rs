//! Conversions between types: what CAST does, and what the dialect does on its own.
//!
//! Log data is dirty: the same field is a number in one record and text in the next. So the
//! implicit conversions are wider than BigQuery's (text that is numeric compares with numbers,
//! microseconds compare with timestamps) and never fail on a row: a value that does not convert
//! is NULL there. A *literal* that does not convert is an error of the query, with its place.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use datafusion::scalar::ScalarValue;
use tidegate_model::{Code, Position};

use super::overflow::{is_mixed, text_of_mixed};
use super::unite::united;
use super::{Typed, folded};
use crate::engine::planning;
use crate::fail::{Planning, Result, fail, invalid};
use crate::functions::{self, kernel, raised_as};
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
            return Ok(self);
        }
        if let Some(error) = raised_as(&self, target) {
            return Ok(error);
        }
        if self.ty == Type::Null {
            let null = ScalarValue::try_from(&target.arrow()).planned()?;
            return Ok(Typed::new(Expr::Literal(null, None), target.clone()));
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

    /// The text of a string literal.
    pub(crate) fn literal_text(&self) -> Option<&str> {
        match self.literal()? {
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) if self.ty == Type::String => Some(text),
            _ => None,
        }
    }
}

fn convert_value(value: Typed, target: &Type, how: Conversion) -> Result<Typed> {
    // A path that holds records and other values is read as text wherever it is not unnested.
    if target.is_plain()
        && let Some(text) = text_of_mixed(&value)?
    {
        return Typed::new(text, Type::String).convert(target, how);
    }
    let Typed { expr, ty } = value;
    let named = |name: &'static str, expr: Expr| kernel(name, how.safe, vec![expr]);
    let to = target.arrow();
    let expr = match (&ty, target) {
        (Type::Int64 | Type::Bool | Type::Time, Type::String) => cast(expr, DataType::Utf8View),
        (Type::Bytes, Type::String) => named("bytes_text", expr),
        (Type::Interval, Type::String) => named("interval_text", expr),
        (Type::Float64, Type::String) => named("float_text", expr),
        (Type::Timestamp, Type::String) => named("timestamp_text", expr),
        (Type::Datetime, Type::String) => named("datetime_text", expr),
        (Type::Date, Type::String) => cast(expr, DataType::Utf8View),
        (Type::Json, Type::String) | (Type::String, Type::Json) => expr,
        (Type::String | Type::Json, Type::Int64) => named("parse_int64", expr),
        (Type::String | Type::Json, Type::Float64) => named("parse_float64", expr),
        (Type::String | Type::Json, Type::Bool) => named("parse_bool", expr),
        (Type::String, Type::Timestamp | Type::Datetime) => named("parse_timestamp", expr),
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
        // People compare timestamps with the microseconds that results show them as.
        (Type::Int64, Type::Timestamp) if how.implicit => cast(expr, to),
        (Type::Record(fields), Type::Array(item))
            if Type::Struct { fields: Arc::clone(fields), open: true }.arrow() == item.arrow() =>
        {
            list_of_record(expr)?
        }
        _ if how.implicit && is_united(&ty, target) => functions::united(expr, &ty, target),
        (Type::Array(from), Type::Array(item))
            if matches!((&**from, &**item), (Type::Struct { .. }, Type::Struct { .. })) && from != item =>
        {
            // Element by element, as one struct becomes another.
            let name = "item".to_owned();
            let element = Typed::new(datafusion::logical_expr::col(&name), (**from).clone()).convert(item, how)?;
            let made = super::of_row::elements(expr.clone(), name, element.expr)?;
            when(expr.is_not_null(), made).end().planned()?
        }
        (Type::Array(from), Type::Array(item)) => {
            let castable = |ty: &Type| ty.is_plain();
            if **from == Type::Null || (castable(from) && castable(item)) {
                cast(expr, to)
            } else if from.arrow() == item.arrow() {
                expr
            } else {
                return Err(no_conversion(&ty, target, how));
            }
        }
        (Type::Array(item), Type::Record(_)) if **item == Type::Null => {
            let null = ScalarValue::try_from(&to).planned()?;
            Expr::Literal(null, None)
        }
        (Type::Struct { fields: from, .. }, Type::Struct { fields: into, .. }) if from.len() == into.len() => {
            let mut parts = Vec::with_capacity(2 * into.len());
            for (from, into) in from.iter().zip(into.iter()) {
                let part = super::access::stored_field(&Typed::new(expr.clone(), ty.clone()), from);
                parts.extend([lit(into.name.as_str()), part.convert(&into.ty, how)?.expr]);
            }
            let rebuilt = datafusion::functions::core::expr_fn::named_struct(parts);
            when(expr.is_not_null(), rebuilt).end().planned()?
        }
        _ => return Err(no_conversion(&ty, target, how)),
    };
    Ok(Typed::new(expr, target.clone()))
}

/// A stored record as the real list of one element that it stands for.
pub(crate) fn list_of_record(expr: Expr) -> Result<Expr> {
    when(expr.clone().is_not_null(), nested::make_array(vec![expr])).end().planned()
}

fn no_conversion(from: &Type, to: &Type, how: Conversion) -> tidegate_model::Failure {
    let hint = match (from, to) {
        (Type::Record(_) | Type::Array(_) | Type::Struct { .. }, Type::String) => "; TO_JSON_STRING gives its text",
        (Type::Int64, Type::Timestamp) => "; use TIMESTAMP_MICROS, TIMESTAMP_MILLIS or TIMESTAMP_SECONDS",
        (Type::Timestamp, Type::Int64) => "; use UNIX_MICROS, UNIX_MILLIS or UNIX_SECONDS",
        _ => "",
    };
    invalid(format!("a value of type {from} cannot be used as {to}{hint}"), how.at)
}

/// The type that values of different types take together (CASE arms, set operations, arrays).
pub(crate) fn common(types: impl IntoIterator<Item = Type>, at: Option<Position>) -> Result<Type> {
    types.into_iter().try_fold(Type::Null, |one, other| pair(one, other, at))
}

fn pair(one: Type, other: Type, at: Option<Position>) -> Result<Type> {
    use Type::{Array, Date, Datetime, Float64, Int64, Json, Null, Record, String, Struct, Timestamp};
    Ok(match (one, other) {
        (one, other) if one == other => one,
        (Null, other) => other,
        (one, Null) => one,
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Timestamp, Datetime | Date) | (Datetime | Date, Timestamp) => Timestamp,
        (Datetime, Date) | (Date, Datetime) => Datetime,
        (Record(one), Record(other)) => Record(together(&one, &other)?),
        // An empty array literal beside a record is the record that is not there.
        (record @ Record(_), Array(item)) | (Array(item), record @ Record(_)) if *item == Null => record,
        (Record(fields), Array(item)) | (Array(item), Record(fields)) => {
            Array(Box::new(pair(Struct { fields, open: true }, *item, at)?))
        }
        (Array(one), Array(other)) => Array(Box::new(pair(*one, *other, at)?)),
        // Of log records: by name. Of others, as BigQuery has it: by place, with the names of the first.
        (Struct { fields, open }, Struct { fields: others, open: other_open }) if open || other_open => {
            Struct { fields: together(&fields, &others)?, open: true }
        }
        (Struct { fields, .. }, Struct { fields: others, .. }) if fields.len() == others.len() => {
            let both = fields.iter().zip(others.iter());
            let fields = both.map(|(field, other)| {
                let ty =
                    pair(field.ty.clone(), other.ty.clone(), at).map_err(|failure| in_field(failure, &field.name))?;
                Ok(Field { name: field.name.clone(), ty })
            });
            Struct { fields: fields.collect::<Result<_>>()?, open: false }
        }
        (Struct { fields, .. }, Struct { fields: others, .. }) => {
            let names =
                |fields: &[Field]| fields.iter().map(|f| f.name.as_str()).take(20).collect::<Vec<_>>().join(", ");
            let message = format!(
                "a STRUCT of the fields {} and one of {} do not go together here; give both the same fields",
                names(&fields),
                names(&others)
            );
            return Err(invalid(message, at));
        }
        (String, other) | (other, String) if other.is_plain() || other == Json || is_mixed(&other) => String,
        (one, other) => {
            return Err(invalid(format!("values of the types {one} and {other} do not go together here"), at));
        }
    })
}

/// The fields of two records together. A thousand queries of a UNION may each have thousands.
fn together(one: &[Field], other: &[Field]) -> Result<Arc<[Field]>> {
    let fields = united(one, other);
    planning::charge(fields.len().saturating_mul(planning::COLUMN));
    planning::check()?;
    Ok(fields)
}

/// The failure, with the field of a STRUCT in which it is. Fields around it are put before it.
fn in_field(failure: tidegate_model::Failure, field: &str) -> tidegate_model::Failure {
    let message = match failure.message.strip_prefix(IN_FIELD) {
        Some(inner) => format!("{IN_FIELD}{field}.{inner}"),
        None => format!("{IN_FIELD}{field}: {}", failure.message),
    };
    tidegate_model::Failure { message, ..failure }
}

const IN_FIELD: &str = "in the field ";

/// Whether values of a type become another by what they hold under each name: records, and lists of such.
fn is_united(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Record(_), Type::Record(_)) => true,
        (Type::Record(_), Type::Array(item)) => matches!(**item, Type::Struct { open: true, .. }),
        (Type::Struct { .. }, Type::Struct { open, .. }) => *open,
        (Type::Array(from), Type::Array(to)) => is_united(from, to),
        _ => false,
    }
}

/// All values in their common type.
pub(crate) fn unify(values: Vec<Typed>, at: Option<Position>) -> Result<(Vec<Typed>, Type)> {
    // A literal's text takes the type of what it stands beside, where it can be read as it.
    let firm = common(values.iter().filter(|v| v.literal_text().is_none()).map(|v| v.ty.clone()), at)?;
    let ty = match firm {
        Type::Timestamp | Type::Datetime | Type::Date if values.iter().all(|v| reads_as(v, &firm)) => firm,
        _ => common(values.iter().map(|v| v.ty.clone()), at)?,
    };
    // An error beside nothing but NULL is a value all the same.
    let ty = if ty == Type::Null && values.iter().any(|v| raised_as(v, &ty).is_some()) { Type::String } else { ty };
    let values =
        values.into_iter().map(|value| value.convert(&ty, Conversion::implicit(at))).collect::<Result<Vec<_>>>()?;
    Ok((values, ty))
}

fn reads_as(value: &Typed, ty: &Type) -> bool {
    value.literal_text().is_none() || value.clone().convert(ty, Conversion::implicit(None)).is_ok()
}

/// Brings the two sides of a comparison to one type.
pub(crate) fn comparable(left: Typed, right: Typed, at: Option<Position>) -> Result<(Typed, Typed)> {
    let (left, right) = (plain_text(left)?, plain_text(right)?);
    let target = match (&left.ty, &right.ty) {
        (one, other) if one == other => one.clone(),
        (Type::Null, other) => other.clone(),
        (one, Type::Null) => one.clone(),
        (Type::String, other) if other.is_number() => text_against_number(&left, other),
        (one, Type::String) if one.is_number() => text_against_number(&right, one),
        (Type::String, other @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time)) => other.clone(),
        (one @ (Type::Timestamp | Type::Datetime | Type::Date | Type::Time), Type::String) => one.clone(),
        (Type::Timestamp, Type::Int64) | (Type::Int64, Type::Timestamp) => Type::Timestamp,
        // A day beside a midnight stays a day, which conditions on stored times are pruned by.
        (Type::Date, Type::Datetime) if is_midnight(&right) => Type::Date,
        (Type::Datetime, Type::Date) if is_midnight(&left) => Type::Date,
        (one, other) => pair(one.clone(), other.clone(), at)
            .map_err(|_| invalid(format!("values of the types {one} and {other} cannot be compared"), at))?,
    };
    if matches!(target, Type::Array(_) | Type::Record(_)) {
        return Err(invalid(format!("values of type {target} cannot be compared; unnest them first"), at));
    }
    let how = Conversion::implicit(at);
    let (left, right) = (left.convert(&target, how)?, right.convert(&target, how)?);
    if target == Type::Interval {
        return Ok((crate::functions::interval_length(left), crate::functions::interval_length(right)));
    }
    Ok((left, right))
}

/// A record in whose place something else may stand, as its text.
fn plain_text(value: Typed) -> Result<Typed> {
    Ok(match text_of_mixed(&value)? {
        Some(text) => Typed::new(text, Type::String),
        None => value,
    })
}

fn is_midnight(value: &Typed) -> bool {
    const DAY: i64 = 86_400_000_000;
    matches!(value.literal(), Some(ScalarValue::TimestampMicrosecond(Some(micros), _)) if micros % DAY == 0)
}

/// Text beside a number: a literal that is no number is compared as text, so that
/// `status = 'abc'` is false instead of an error; everything else as numbers.
fn text_against_number(text: &Typed, number: &Type) -> Type {
    match text.literal_text() {
        Some(literal) if literal.trim().parse::<i64>().is_ok() => number.clone(),
        Some(literal) if literal.trim().parse::<f64>().is_ok() => Type::Float64,
        Some(_) => Type::String,
        // A column of text may hold both integers and fractions.
        None => Type::Float64,
    }
}

/// `left op right` for the six comparison operators.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    let nan = (may_be_nan(&left), may_be_nan(&right));
    let (left, right) = comparable(left, right, at)?;
    let expr = match left.ty {
        Type::Float64 => compared(left.expr, op, right.expr, nan),
        _ => binary_expr(left.expr, op, right.expr),
    };
    Ok(folded(Typed::new(expr, Type::Bool)))
}

fn may_be_nan(value: &Typed) -> bool {
    match value.literal() {
        Some(ScalarValue::Float64(value)) => value.is_some_and(f64::is_nan),
        Some(ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)) => {
            value.literal_text().is_some_and(|text| text.trim().parse().is_ok_and(f64::is_nan))
        }
        Some(_) => false,
        None => matches!(value.ty, Type::Float64 | Type::String | Type::Json),
    }
}

/// A comparison of floats. To the engine NaN is above all numbers and equals itself; in the dialect
/// it compares with nothing. `nan` tells which sides may be one.
///
/// What is added is a comparison with infinity, so that a condition on a column is still one that
/// the storage prunes by. It repeats a side, so it is made of columns only; of what is computed, a function
/// compares the order, and NaN equals itself.
fn compared(left: Expr, op: Operator, right: Expr, nan: (bool, bool)) -> Expr {
    let short = is_short(&left) && is_short(&right);
    // NULL beside NaN is NULL.
    let number = |expr: Expr, other: &Expr| match other {
        Expr::Literal(value, _) if !value.is_null() => expr.lt_eq(lit(f64::INFINITY)),
        other => expr.lt_eq(lit(f64::INFINITY)).or(other.clone().is_null()),
    };
    let beyond = |expr: Expr| expr.gt(lit(f64::INFINITY));
    match op {
        Operator::Gt | Operator::GtEq if nan.0 => {
            if !short {
                let name = if op == Operator::Gt { "float_above" } else { "float_not_below" };
                return kernel(name, false, vec![left, right]);
            }
            binary_expr(left.clone(), op, right.clone()).and(number(left, &right))
        }
        Operator::Lt if nan.1 => compared(right, Operator::Gt, left, (true, nan.0)),
        Operator::LtEq if nan.1 => compared(right, Operator::GtEq, left, (true, nan.0)),
        Operator::Eq if nan == (true, true) && short => {
            // Of the two, the one of this query: a subquery can be joined by = alone.
            let (one, other) = if right.contains_outer() { (&left, &right) } else { (&right, &left) };
            let number = match other.contains_outer() {
                true => one.clone().lt_eq(lit(f64::INFINITY)),
                false => number(one.clone(), other),
            };
            left.clone().eq(right.clone()).and(number)
        }
        Operator::NotEq if nan == (true, true) && short => {
            left.clone().not_eq(right.clone()).or(beyond(left).and(beyond(right)))
        }
        op => binary_expr(left, op, right),
    }
}

/// Whether an expression may stand twice: a column, a field of one, a literal.
fn is_short(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) => true,
        Expr::Cast(cast) => is_short(&cast.expr),
        Expr::ScalarFunction(call) => call.func.name() == "get_field" && call.args.iter().all(is_short),
        _ => false,
    }
}
