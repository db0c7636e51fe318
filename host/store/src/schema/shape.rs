//! The logical schema of a source: which paths have a column, and what each of them is.
//!
//! A leaf keeps the type of its first value, except that integers may widen to floats while none of
//! them would lose digits. Any other value that arrives marks the path as *mixed*: from then on it is
//! read as text, of the leaf or of the overflow (JSON text of arrays and records). A record that once
//! held two elements is a list for ever; a value in its place that is no record is kept beside it
//! ([`UNLIKE_FIELD`]). Fields without a column of their own (too many, too deep, too long a name) are
//! read from the overflow, as the rest of the record that they stand in ([`REST_FIELD`]). Segments keep
//! the narrower columns that they were written with, and are adapted when read.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use tidegate_model::{PRESENCE_FIELD, REST_FIELD, UNLIKE_FIELD};

use crate::{
    field_names::{ID, MESSAGE, METADATA, OVERFLOW, TIMESTAMP},
    schema::{
        arrow_fields::{field, top_field},
        join::join_fields,
        kind::{Fields, Kind, Scalar},
    },
};

/// The shape of a whole source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) fields: Fields,
}

impl Default for Shape {
    fn default() -> Self {
        let mut fields = Fields::default();
        fields.push(ID.to_owned(), Kind::scalar(Scalar::Text));
        fields.push(TIMESTAMP.to_owned(), Kind::scalar(Scalar::Time));
        fields.push(MESSAGE.to_owned(), Kind::scalar(Scalar::Text));
        Shape { fields }
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

    /// The schema that the source's table shows; `_overflow` comes last.
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.fields.iter().map(|(name, kind)| top_field(name, kind.logical_type()));
        let rest = self.fields.rest.then(|| field(REST_FIELD, DataType::Utf8View));
        let columns = columns.chain(rest).chain([field(OVERFLOW, DataType::Utf8View)]);
        Arc::new(Schema::new(columns.collect::<Vec<_>>()))
    }

    /// Grows by what another shape of the same source has, for segments that come back: what was
    /// written with either is read as one of the two, or as text.
    ///
    /// # Errors
    /// The path at which the two cannot both be read, such as a record here and a number there.
    pub(crate) fn join(&mut self, other: &Shape) -> Result<(), String> {
        let mut grown = self.fields.clone();
        join_fields(&mut grown, &other.fields, "")?;
        self.fields = grown;
        Ok(())
    }

    /// What stands at a column and the keys below it; nothing when a list is in the way.
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

    /// `metadata` is a record or nothing: one bad first event must not turn it into a text for
    /// ever, since every query goes through it.
    pub(crate) fn must_be_record(name: &str) -> bool {
        name == METADATA
    }
}

/// What a path of the table's schema names.
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
