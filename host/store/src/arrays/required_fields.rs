//! Declaring fields as required where no row lacks a value.
//!
//! All fields of a shape are optional, because the next event may lack any of them. In Parquet an optional field costs
//! something at each row: the reader decodes at which level of its path the value ends, and makes a bitmap for each
//! record around it. Most fields and nearly all records are there in every row of a segment. A segment declares these as
//! required, so that a field deep in records is read like a flat column, and that a record is there needs no test of rows.

use std::sync::Arc;

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray},
    datatypes::{DataType, FieldRef, Schema},
    error::Result,
};

/// The same rows under a schema in which a field is required if no row lacks it. What lies in a record that some row
/// lacks stays optional: the reader would give a value for such a row, and whoever takes the field out of the record does
/// not look whether the record is there. So do the elements of lists.
pub(crate) fn with_required_fields(rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema_ref();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        let (field, column) = declared(field, column)?;
        fields.push(field);
        columns.push(column);
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// A field and its column, in records that every row has.
fn declared(field: &FieldRef, column: &ArrayRef) -> Result<(FieldRef, ArrayRef)> {
    if column.null_count() > 0 {
        return Ok((Arc::clone(field), Arc::clone(column)));
    }
    let DataType::Struct(children) = field.data_type() else {
        return Ok((Arc::new(field.as_ref().clone().with_nullable(false)), Arc::clone(column)));
    };
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (child, values) in children.iter().zip(column.as_struct().columns()) {
        let (child, values) = declared(child, values)?;
        fields.push(child);
        columns.push(values);
    }
    let record = StructArray::try_new_with_length(fields.into(), columns, None, column.len())?;
    let field = field.as_ref().clone().with_data_type(record.data_type().clone()).with_nullable(false);
    Ok((Arc::new(field), Arc::new(record)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::{
        array::{Int64Array, StringViewArray},
        buffer::NullBuffer,
        datatypes::{Field, Fields},
    };

    use super::*;

    fn record(children: Vec<(&str, ArrayRef)>, there: Option<Vec<bool>>) -> ArrayRef {
        let field = |(name, values): &(&str, ArrayRef)| Field::new(*name, values.data_type().clone(), true);
        let fields: Fields = children.iter().map(field).collect();
        let columns = children.into_iter().map(|(_, values)| values).collect();
        Arc::new(StructArray::new(fields, columns, there.map(NullBuffer::from)))
    }

    fn nullable(data_type: &DataType, path: &[&str]) -> bool {
        let DataType::Struct(fields) = data_type else { unreachable!("no record") };
        let (name, rest) = path.split_first().unwrap();
        let (_, field) = fields.find(name).unwrap();
        if rest.is_empty() { field.is_nullable() } else { nullable(field.data_type(), rest) }
    }

    /// What is there in every row is required; what is there wherever its record is, is not, if some row lacks the record.
    #[test]
    fn what_no_row_lacks_is_required() {
        let numbers = |values: [Option<i64>; 3]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let user = record(
            vec![("id", numbers([Some(1), None, Some(3)])), ("age", numbers([Some(1), Some(2), None]))],
            Some(vec![true, false, true]),
        );
        let whole = record(vec![("status", numbers([Some(1), Some(2), Some(3)])), ("user", user)], None);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("c")]));
        let columns = [("metadata", Arc::clone(&whole)), ("text", texts), ("number", numbers([Some(1); 3]))];
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap();
        let declared = with_required_fields(&rows).unwrap();
        let field = |name: &str| declared.schema_ref().field_with_name(name).unwrap().clone();
        assert!(!field("metadata").is_nullable() && field("text").is_nullable() && !field("number").is_nullable());
        let metadata = field("metadata");
        for (path, expected) in
            [(vec!["status"], false), (vec!["user"], true), (vec!["user", "id"], true), (vec!["user", "age"], true)]
        {
            assert_eq!(nullable(metadata.data_type(), &path), expected, "{path:?}");
        }
        let again = crate::arrays::schema_evolution::adapt(declared.column(0), whole.data_type()).unwrap();
        assert_eq!(again.as_ref(), whole.as_ref());
        assert_eq!(declared.column(1), rows.column(1));
    }

    #[test]
    fn rows_without_columns_stay_as_many() {
        let options = RecordBatchOptions::new().with_row_count(Some(3));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
        assert_eq!(with_required_fields(&rows).unwrap().num_rows(), 3);
    }
}
