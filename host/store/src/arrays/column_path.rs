//! Columns and their types by the names of the records that lead to them.

use datafusion::arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Schema},
};

/// The column at a path of records; `None` if there is none, or a list on the way.
pub(crate) fn column_at<'r>(rows: &'r RecordBatch, path: &[String]) -> Option<&'r ArrayRef> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(rows.column_by_name(first)?, |column, key| column.as_struct_opt()?.column_by_name(key))
}

/// The type of the column at a path of records; `None` as above.
pub(crate) fn type_at<'s>(schema: &'s Schema, path: &[impl AsRef<str>]) -> Option<&'s DataType> {
    let (first, rest) = path.split_first()?;
    type_below(schema.field_with_name(first.as_ref()).ok()?.data_type(), rest)
}

/// The same within the type of a column.
pub(crate) fn type_below<'s>(of: &'s DataType, path: &[impl AsRef<str>]) -> Option<&'s DataType> {
    path.iter().try_fold(of, |of, key| match of {
        DataType::Struct(fields) => fields.find(key.as_ref()).map(|(_, field)| field.data_type()),
        _ => None,
    })
}
