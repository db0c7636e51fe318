//! Types of the dialect as messages.

use std::sync::Arc;

use tidegate_functions::types::{Field, Type};

use crate::error::PlanError;
use crate::function_message::{FieldMessage, TypeMessage};

/// The types without parts, by their numbers in a message; types with parts follow.
const PLAIN: [Type; 12] = [
    Type::Null,
    Type::Bool,
    Type::Int64,
    Type::Float64,
    Type::String,
    Type::Bytes,
    Type::Timestamp,
    Type::Datetime,
    Type::Date,
    Type::Time,
    Type::Interval,
    Type::Json,
];
const ARRAY: u32 = 12;
const STRUCT: u32 = 13;
const RECORD: u32 = 14;
const RANGE: u32 = 15;
const NUMERIC: u32 = 20;
const BIGNUMERIC: u32 = 21;

/// A type as a message.
pub(crate) fn encoded(ty: &Type) -> TypeMessage {
    let plain = |kind| TypeMessage { kind, item: None, fields: Vec::new(), open: false };
    match ty {
        Type::Array(item) => TypeMessage { item: Some(Box::new(encoded(item))), ..plain(ARRAY) },
        Type::Range(of) => TypeMessage { item: Some(Box::new(encoded(of))), ..plain(RANGE) },
        Type::Struct { fields, open } => TypeMessage { fields: encoded_fields(fields), open: *open, ..plain(STRUCT) },
        Type::Record(fields) => TypeMessage { fields: encoded_fields(fields), ..plain(RECORD) },
        Type::Numeric => plain(NUMERIC),
        Type::BigNumeric => plain(BIGNUMERIC),
        // Numbers start with 0, so that the place of each type is its number. One that is not there is no plain type.
        other => plain(PLAIN.iter().zip(0..).find(|(known, _)| *known == other).map_or(u32::MAX, |(_, kind)| kind)),
    }
}

fn encoded_fields(fields: &[Field]) -> Vec<FieldMessage> {
    fields.iter().map(|field| FieldMessage { name: field.name.clone(), ty: Some(encoded(&field.ty)) }).collect()
}

/// A type from a message.
///
/// # Errors
/// If there is no such type.
pub(crate) fn decoded(message: Option<&TypeMessage>) -> Result<Type, PlanError> {
    let Some(message) = message else { return Err(PlanError::Refused("a type is missing".to_owned())) };
    Ok(match message.kind {
        ARRAY => Type::Array(Box::new(decoded(message.item.as_deref())?)),
        RANGE => Type::Range(Box::new(decoded(message.item.as_deref())?)),
        STRUCT => Type::Struct { fields: decoded_fields(&message.fields)?, open: message.open },
        RECORD => Type::Record(decoded_fields(&message.fields)?),
        NUMERIC => Type::Numeric,
        BIGNUMERIC => Type::BigNumeric,
        kind => match usize::try_from(kind).ok().and_then(|kind| PLAIN.get(kind)) {
            Some(plain) => plain.clone(),
            None => return Err(PlanError::Refused(format!("there is no type {kind}"))),
        },
    })
}

fn decoded_fields(fields: &[FieldMessage]) -> Result<Arc<[Field]>, PlanError> {
    fields.iter().map(|field| Ok(Field { name: field.name.clone(), ty: decoded(field.ty.as_ref())? })).collect()
}
