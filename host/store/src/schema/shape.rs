//! The logical schema of a source as a whole.
//!
//! The crate calls it a shape, because `Schema` is the Arrow schema of one batch or table. The catalog stores the shape
//! of a source as JSON; each segment's footer repeats the shape at the time of writing. See [`crate::schema::kind`] for
//! what can stand at a path.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use tidegate_model::{PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

use crate::{
    field_names::{CALL, ID, MESSAGE, METADATA, OVERFLOW, PLACE, TIMESTAMP},
    schema::{
        arrow_fields::{field, top_field},
        join::join_fields,
        kind::{Fields, Kind, Scalar},
        senders::Senders,
        tenant_path::TenantPath,
    },
};

/// The logical schema of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) fields: Fields,
    /// Who has sent values of another kind than the first of their path.
    #[serde(default, skip_serializing_if = "Senders::is_nothing")]
    pub(crate) senders: Senders,
}

impl Default for Shape {
    fn default() -> Self {
        let mut fields = Fields::default();
        fields.push(ID.to_owned(), Kind::scalar(Scalar::Text));
        fields.push(TIMESTAMP.to_owned(), Kind::scalar(Scalar::Time));
        fields.push(MESSAGE.to_owned(), Kind::scalar(Scalar::Text));
        Shape { fields, senders: Senders::default() }
    }
}

impl Shape {
    /// What its paths count towards [`StoreOptions::max_fields`](crate::StoreOptions::max_fields).
    pub(crate) fn count(&self) -> usize {
        self.fields.count()
    }

    /// Whether some event has had fields without a column.
    pub(crate) fn overflows(&self) -> bool {
        self.fields.overflow()
    }

    /// Whether its rows may have places: releases that knew none gave columns to fields with the names of
    /// [`PLACE`], and such a source keeps them.
    pub(crate) fn is_placed(&self) -> bool {
        PLACE.iter().all(|name| self.fields.find(name).is_none())
    }

    /// The Arrow schema of the source's table. `_overflow` is the last column.
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.fields.iter().map(|(name, kind)| top_field(name, kind.logical_type()));
        let rest = self.fields.rest.then(|| field(REST_FIELD, DataType::Utf8View));
        let columns = columns.chain(rest).chain([field(OVERFLOW, DataType::Utf8View)]);
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }

    /// Adds what another schema of the same source has, for segments that come back. Readers see what was written with
    /// either schema in the type of one of the two, or as text.
    ///
    /// # Errors
    /// The path at which the two cannot be united, such as a record here and a number there.
    pub(crate) fn join(&mut self, other: &Shape) -> Result<(), String> {
        if self.is_placed() != other.is_placed() {
            return Err(CALL.to_owned());
        }
        let mut grown = self.fields.clone();
        join_fields(&mut grown, &other.fields, "")?;
        self.fields = grown;
        // Which of the two knows who sent what is not told.
        self.senders.forget();
        Ok(())
    }

    /// The schema as a tenant reads it of a source with tenant keys at these pointers; `None` if that is this one.
    pub(crate) fn of_tenant(&self, tenant: &str, keys: &[String]) -> Option<Shape> {
        if self.senders.is_empty() {
            return None;
        }
        let mut fields = self.fields.clone();
        let changes = self.senders.hide_others(tenant, keys, &mut fields);
        changes.then(|| Shape { fields, senders: self.senders.clone() })
    }

    /// What a column and the keys below it name; `None` if the path leads through a list.
    pub(crate) fn resolve<'k>(&self, column: &str, keys: impl IntoIterator<Item = &'k str>) -> Option<PathTarget<'_>> {
        let mut part = match column {
            REST_FIELD if self.fields.rest => PathTarget::Rest(&self.fields),
            column => PathTarget::Value(self.fields.get(column)?),
        };
        for key in keys {
            let PathTarget::Value(Kind::Record { many: false, unlike, fields }) = part else { return None };
            part = match key {
                PRESENCE_FIELD => PathTarget::Presence(fields),
                REST_FIELD if fields.rest => PathTarget::Rest(fields),
                UNLIKE_FIELD if *unlike => PathTarget::Unlike,
                key => PathTarget::Value(fields.get(key)?),
            };
        }
        Some(part)
    }

    /// Whether the value at a path is a text or none, of one record: there is no other kind of value, and no list on the way.
    pub(crate) fn has_text_at(&self, path: &TenantPath) -> bool {
        let (column, fields) = path.split();
        let found = self.resolve(column, fields);
        matches!(found, Some(PathTarget::Value(Kind::Scalar { ty: Scalar::Text, mixed: false, .. })))
    }

    /// Whether a record above this path, or the event itself, has had fields without a column.
    pub(crate) fn has_rest_above(&self, column: &str, keys: &[&str]) -> bool {
        let mut fields = &self.fields;
        for key in std::iter::once(&column).chain(keys) {
            if fields.rest {
                return true;
            }
            match fields.get(key) {
                Some(Kind::Record { fields: inner, .. }) => fields = inner,
                _ => return false,
            }
        }
        false
    }

    /// Whether a top-level field is a record whatever its first value is. This holds for `metadata`: nearly every query
    /// reads it, and one bad first event must not turn it into text for ever.
    pub(crate) fn must_be_record(name: &str) -> bool {
        name == METADATA
    }
}

/// What a path of the table names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathTarget<'s> {
    /// A leaf, list or record.
    Value(&'s Kind),
    /// The hidden [`PRESENCE_FIELD`] of a record.
    Presence(&'s Fields),
    /// The hidden [`REST_FIELD`] of a record with these fields.
    Rest(&'s Fields),
    /// The hidden [`UNLIKE_FIELD`] of a record.
    Unlike,
}
