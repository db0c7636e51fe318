//! Declaring fields as required where no row lacks a value.
//!
//! All fields of a shape are optional, because the next event may lack any of them. In Parquet an optional field costs
//! something at each row: the reader decodes at which level of its path the value ends, and makes a bitmap for each
//! record around it. Most fields and nearly all records are there in every row of a segment. A segment declares these as
//! required, so that a field deep in records is read like a flat column, and that a record is there needs no test of rows.

use std::sync::Arc;

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray},
    datatypes::{DataType, FieldRef, Fields, Schema},
    error::Result,
};

/// The same rows, in parts of one schema, under a schema in which a field is required if no row lacks it. What lies in a
/// record that some row lacks stays optional: the reader would give a value for such a row, and whoever takes the field out
/// of the record does not look whether the record is there. So do the elements of lists.
pub(crate) fn with_required_fields(parts: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let Some(schema) = parts.first().map(RecordBatch::schema_ref) else { return Ok(Vec::new()) };
    let mut fields = Vec::new();
    let mut columns: Vec<Vec<ArrayRef>> = parts.iter().map(|_| Vec::new()).collect();
    for (at, field) in schema.fields().iter().enumerate() {
        let values: Vec<ArrayRef> = parts.iter().map(|part| Arc::clone(part.column(at))).collect();
        let (field, values) = declared(field, values)?;
        fields.push(field);
        columns.iter_mut().zip(values).for_each(|(columns, values)| columns.push(values));
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let with_schema = |(part, columns): (&RecordBatch, Vec<ArrayRef>)| {
        let options = RecordBatchOptions::new().with_row_count(Some(part.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
    };
    parts.iter().zip(columns).map(with_schema).collect()
}

/// A field and its column in each part, in records that every row has.
fn declared(field: &FieldRef, parts: Vec<ArrayRef>) -> Result<(FieldRef, Vec<ArrayRef>)> {
    if parts.iter().any(|column| column.null_count() > 0) {
        return Ok((Arc::clone(field), parts));
    }
    let DataType::Struct(children) = field.data_type() else {
        return Ok((Arc::new(field.as_ref().clone().with_nullable(false)), parts));
    };
    let mut fields = Vec::new();
    let mut columns: Vec<Vec<ArrayRef>> = parts.iter().map(|_| Vec::new()).collect();
    for (at, child) in children.iter().enumerate() {
        let values: Vec<ArrayRef> = parts.iter().map(|record| Arc::clone(record.as_struct().column(at))).collect();
        let (child, values) = declared(child, values)?;
        fields.push(child);
        columns.iter_mut().zip(values).for_each(|(columns, values)| columns.push(values));
    }
    let fields: Fields = fields.into();
    let record = |(record, columns): (&ArrayRef, Vec<ArrayRef>)| {
        let record = StructArray::try_new_with_length(fields.clone(), columns, None, record.len())?;
        Ok(Arc::new(record) as ArrayRef)
    };
    let records = parts.iter().zip(columns).map(record).collect::<Result<Vec<_>>>()?;
    let field = field.as_ref().clone().with_data_type(DataType::Struct(fields.clone())).with_nullable(false);
    Ok((Arc::new(field), records))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::{
        array::{Int64Array, StringViewArray},
        buffer::NullBuffer,
        compute::concat_batches,
        datatypes::Field,
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
        // In two parts: neither lacks a `user`, `text` or `age` where the other one does.
        let parts = with_required_fields(&[rows.slice(0, 1), rows.slice(1, 2)]).unwrap();
        let declared = concat_batches(parts[0].schema_ref(), &parts).unwrap();
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
        assert_eq!(with_required_fields(&[rows]).unwrap()[0].num_rows(), 3);
        assert!(with_required_fields(&[]).unwrap().is_empty());
    }
}
