//! The expression for a path whose stored form differs from what the table shows: the stored column is converted, and
//! values of the overflow are inserted.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{FieldRef, Schema},
    },
    common::ScalarValue,
    error::Result,
    logical_expr::ColumnarValue,
    physical_expr::PhysicalExpr,
};

use crate::{
    arrays::schema_evolution::adapt,
    overflow::cache::OverflowCache,
    schema::kind::{Fields, Kind},
};

/// What an expression reads.
#[derive(Debug, PartialEq)]
pub(crate) enum PathRead {
    /// The value of this kind.
    Value(Kind),
    /// Whether a record is there.
    Presence,
    /// The fields of the record that are not among these.
    Rest(Fields),
    /// A value in the place of a record.
    Unlike,
}

/// The value of a path, converted to the type that the table shows, with the values of the overflow inserted.
#[derive(Debug)]
pub(crate) struct AdaptedPath {
    /// The stored column, if the file has one, then the overflow column, if the path needs it.
    pub(crate) children: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) has_source: bool,
    pub(crate) reading: Arc<PathRead>,
    pub(crate) pointer: String,
    pub(crate) target: FieldRef,
    /// Shared by all expressions over one segment or batch.
    pub(crate) cache: Arc<OverflowCache>,
}

impl PhysicalExpr for AdaptedPath {
    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.target))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut children = self.children.iter();
        let data_type = self.target.data_type();
        let source = if self.has_source { children.next() } else { None };
        let array = match source {
            Some(source) => adapt(&source.evaluate(batch)?.into_array(batch.num_rows())?, data_type)?,
            None => ScalarValue::try_new_null(data_type)?.to_array_of_size(batch.num_rows())?,
        };
        let Some(overflow) = children.next() else { return Ok(ColumnarValue::Array(array)) };
        let overflow = overflow.evaluate(batch)?.into_array(batch.num_rows())?;
        if overflow.null_count() == overflow.len() {
            return Ok(ColumnarValue::Array(array));
        }
        let spilled = self.cache.of_column(&overflow)?;
        Ok(ColumnarValue::Array(match self.reading.as_ref() {
            PathRead::Value(kind) => spilled.patch(array, kind, &self.pointer)?,
            PathRead::Presence => spilled.presence(&array, &self.pointer),
            PathRead::Rest(fields) => spilled.rest(&array, fields, &self.pointer),
            PathRead::Unlike => spilled.unlike(&array, &self.pointer),
        }))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.children.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(AdaptedPath {
            children,
            has_source: self.has_source,
            reading: Arc::clone(&self.reading),
            pointer: self.pointer.clone(),
            target: Arc::clone(&self.target),
            cache: Arc::clone(&self.cache),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for AdaptedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "adapted({})", self.pointer)
    }
}

impl PartialEq for AdaptedPath {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
            && self.has_source == other.has_source
            && self.target == other.target
            && self.children == other.children
            && self.reading == other.reading
    }
}

impl Eq for AdaptedPath {}

impl Hash for AdaptedPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pointer.hash(state);
        self.has_source.hash(state);
        self.target.hash(state);
        self.children.hash(state);
    }
}
