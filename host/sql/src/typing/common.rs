//! The type that values of different types take together: in CASE, COALESCE, arrays and set operations.

use std::sync::Arc;

use tidegate_functions::context::planning;
use tidegate_model::{Failure, Position};

use super::record_union::{common_plain, united};
use super::records::is_mixed;
use crate::fail::{Result, invalid};
use crate::types::{Field, Type};

/// The type that values of different types take together; `at` is the place for the message.
///
/// # Errors
/// If there is none.
pub(crate) fn common(types: impl IntoIterator<Item = Type>, at: Option<Position>) -> Result<Type> {
    types.into_iter().try_fold(Type::Null, |one, other| pair(one, other, at))
}

/// The same of two types.
pub(super) fn pair(one: Type, other: Type, at: Option<Position>) -> Result<Type> {
    use Type::{Array, Json, Null, Record, String, Struct};
    if let Some(ty) = common_plain(&one, &other) {
        return Ok(ty);
    }
    Ok(match (one, other) {
        (one, other) if one == other => one,
        (Null, other) => other,
        (one, Null) => one,
        (Record(one), Record(other)) => Record(together(&one, &other)?),
        // An empty array literal is a missing record.
        (record @ Record(_), Array(item)) | (Array(item), record @ Record(_)) if *item == Null => record,
        (Record(fields), Array(item)) | (Array(item), Record(fields)) => {
            Array(Box::new(pair(Struct { fields, open: true }, *item, at)?))
        }
        (Array(one), Array(other)) => Array(Box::new(pair(*one, *other, at)?)),
        // Fields of log records are matched by name. Others are matched by position, as in BigQuery, with the names
        // of the first.
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

/// The fields of two records together, counted as a part of the plan: a thousand queries of a UNION may each have
/// thousands of fields.
fn together(one: &[Field], other: &[Field]) -> Result<Arc<[Field]>> {
    let fields = united(one, other);
    planning::charge(fields.len().saturating_mul(planning::COLUMN));
    planning::check()?;
    Ok(fields)
}

/// The failure, with the name of the STRUCT's field that it is about in front; the fields around that one come first.
fn in_field(failure: Failure, field: &str) -> Failure {
    let message = match failure.message.strip_prefix(IN_FIELD) {
        Some(inner) => format!("{IN_FIELD}{field}.{inner}"),
        None => format!("{IN_FIELD}{field}: {}", failure.message),
    };
    Failure { message, ..failure }
}

const IN_FIELD: &str = "in the field ";
