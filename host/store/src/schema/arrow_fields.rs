//! Arrow fields and types in the form that all batches, segments and tables of the store use.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use tidegate_model::PRESENCE_FIELD;

use crate::field_names::{ID, TIMESTAMP};

/// The hidden field that is the last child of every record; see [`PRESENCE_FIELD`].
pub(crate) fn presence() -> FieldRef {
    field(PRESENCE_FIELD, DataType::Boolean)
}

/// A nullable field.
pub(crate) fn field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

/// A column of a batch, segment or table. `id` and `timestamp` are never NULL. Declaring that lets the planner use the
/// order of `timestamp` whatever NULL order a query asks for.
pub(crate) fn top_field(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, name != ID && name != TIMESTAMP))
}

/// A list of nullable elements.
pub(crate) fn list_of(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, true)))
}

/// The columns without fields of their own that a schema has, at any depth.
pub(crate) fn leaves(schema: &Schema) -> usize {
    fn below(data_type: &DataType) -> usize {
        match data_type {
            DataType::Struct(fields) => fields.iter().map(|field| below(field.data_type())).sum(),
            DataType::List(item) => below(item.data_type()),
            _ => 1,
        }
    }
    schema.fields().iter().map(|field| below(field.data_type())).sum()
}
