//! The type that records with different fields take together: in UNION, CASE, COALESCE and arrays.
//!
//! Fields of log records are as the data came, so two sources seldom have the same. What goes together is read
//! as if one source had held all of it: the record has the fields of both, each by its name, and is NULL in what
//! it never had. A field that is one kind here and another there is read as the store reads a path of several
//! kinds: as text, which of a list or record is its JSON; a plain value in the place of a record is kept beside
//! the record. Where one side keeps fields without a column, a field that only the other side has may be among
//! them, so it is text too and is looked up there. The values are made in `functions/unite.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::{PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

use crate::types::{Field, Type, has_hidden};

/// The fields of two records together: those of the first in their order, then what the other has more.
pub(super) fn united(one: &[Field], other: &[Field]) -> Arc<[Field]> {
    let (one_by_name, other_by_name) = (by_name(one), by_name(other));
    let (one_keeps, other_keeps) = (has_hidden(one, REST_FIELD), has_hidden(other, REST_FIELD));
    let missing = |field: &Field, keeps: bool| if keeps { kept(&field.ty) } else { field.ty.clone() };
    let mut fields = Vec::with_capacity(one.len().max(other.len()));
    for field in one.iter().filter(|field| !field.is_hidden()) {
        let ty = match other_by_name.get(field.name.as_str()) {
            Some(ty) => field_type(&field.ty, ty),
            None => missing(field, other_keeps),
        };
        fields.push(Field { name: field.name.clone(), ty });
    }
    let new = |field: &&Field| !field.is_hidden() && !one_by_name.contains_key(field.name.as_str());
    fields.extend(
        other.iter().filter(new).map(|field| Field { name: field.name.clone(), ty: missing(field, one_keeps) }),
    );
    let has = |name| has_hidden(one, name) || has_hidden(other, name);
    with_hidden(fields, has(REST_FIELD), has(UNLIKE_FIELD), has(PRESENCE_FIELD))
}

/// The fields, followed by hidden ones. A record with hidden fields always has the one that says that it is there.
fn with_hidden(mut fields: Vec<Field>, rest: bool, unlike: bool, presence: bool) -> Arc<[Field]> {
    let hidden = [
        (REST_FIELD, Type::Json, rest),
        (UNLIKE_FIELD, Type::Json, unlike),
        (PRESENCE_FIELD, Type::Bool, presence || rest || unlike),
    ];
    fields.extend(hidden.into_iter().filter(|(.., has)| *has).map(|(name, ty, _)| Field { name: name.to_owned(), ty }));
    fields.into()
}

fn by_name(fields: &[Field]) -> HashMap<&str, &Type> {
    fields.iter().map(|field| (field.name.as_str(), &field.ty)).collect()
}

/// The type of a field that has one type in one record and another in the other.
fn field_type(one: &Type, other: &Type) -> Type {
    use Type::{Array, Null, Record, String, Struct};
    match (one, other) {
        (one, other) if one == other => one.clone(),
        (Null, ty) | (ty, Null) => ty.clone(),
        (Record(one), Record(other)) => Record(united(one, other)),
        (Struct { fields: one, .. }, Struct { fields: other, .. }) => Struct { fields: united(one, other), open: true },
        // An empty list has no fields to add to the record.
        (record @ Record(_), Array(item)) | (Array(item), record @ Record(_)) if **item == Null => record.clone(),
        (Record(fields), Array(item)) | (Array(item), Record(fields)) if matches!(**item, Struct { .. }) => {
            Array(Box::new(field_type(&Struct { fields: Arc::clone(fields), open: true }, item)))
        }
        (Array(one), Array(other)) => Array(Box::new(field_type(one, other))),
        (Record(fields), plain) | (plain, Record(fields)) if plain.is_plain() && *plain != String => {
            let own = fields.iter().filter(|field| !field.is_hidden()).cloned().collect();
            Record(with_hidden(own, has_hidden(fields, REST_FIELD), true, true))
        }
        (one, other) if one.is_plain() && other.is_plain() => common_plain(one, other).unwrap_or(String),
        _ => String,
    }
}

/// The type of a field that one side has as a column and the other may keep without one.
fn kept(ty: &Type) -> Type {
    match ty {
        Type::Record(fields) => {
            let own = fields.iter().filter(|field| !field.is_hidden());
            let own = own.map(|field| Field { name: field.name.clone(), ty: kept(&field.ty) }).collect();
            Type::Record(with_hidden(own, true, true, true))
        }
        _ => Type::String,
    }
}

/// The type that two different numbers or two different times take together.
pub(super) fn common_plain(one: &Type, other: &Type) -> Option<Type> {
    use Type::{BigNumeric, Date, Datetime, Float64, Int64, Numeric, Timestamp};
    match (one, other) {
        (Int64 | Numeric | BigNumeric, Float64) | (Float64, Int64 | Numeric | BigNumeric) => Some(Float64),
        (Int64 | Numeric, BigNumeric) | (BigNumeric, Int64 | Numeric) => Some(BigNumeric),
        (Int64, Numeric) | (Numeric, Int64) => Some(Numeric),
        (Timestamp, Datetime | Date) | (Datetime | Date, Timestamp) => Some(Timestamp),
        (Datetime, Date) | (Date, Datetime) => Some(Datetime),
        _ => None,
    }
}
