//! The place of each row: the number of its call in the write-ahead log, and its number in the call.
//!
//! Batches and segments sort rows by tenant and time, and join them, so that their own order does not tell in which order
//! rows were committed. So each row keeps its place in two columns ([`PLACE`](crate::field_names::PLACE)), through memory,
//! flush and compaction. A follower that comes back reads by them what it missed ([`crate::scan::stored_calls`]). Rows of
//! segments that were written before there were places have NULL.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions},
        datatypes::{DataType, FieldRef, Schema},
    },
    error::Result,
};

use crate::{
    field_names::{CALL, OVERFLOW, PLACE},
    schema::arrow_fields::field,
};

/// The places of the rows of a batch, in their order.
#[derive(Debug, Default)]
pub(crate) struct Places {
    calls: Vec<i64>,
    rows: Vec<i64>,
}

impl Places {
    /// Adds the place of the next row: the `row`-th of a call, from 0.
    pub(crate) fn push(&mut self, call: i64, row: usize) {
        self.calls.push(call);
        self.rows.push(i64::try_from(row).unwrap_or(i64::MAX));
    }

    /// The columns of places of a table.
    pub(crate) fn fields() -> [FieldRef; 2] {
        PLACE.map(|name| field(name, DataType::Int64))
    }

    /// Rows of one call, which now gets its number.
    pub(crate) fn of_call(rows: &RecordBatch, call: i64) -> Result<RecordBatch> {
        let Ok(at) = rows.schema_ref().index_of(CALL) else { return Ok(rows.clone()) };
        let mut columns = rows.columns().to_vec();
        if let Some(column) = columns.get_mut(at) {
            *column = Arc::new(Int64Array::from_value(call, rows.num_rows()));
        }
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    }

    /// As many rows with their places, as the last columns before the overflow.
    pub(crate) fn put(self, rows: &RecordBatch) -> Result<RecordBatch> {
        let (schema, before) = (rows.schema(), rows.schema().index_of(OVERFLOW).unwrap_or(rows.num_columns()));
        let mut fields: Vec<FieldRef> = schema.fields().to_vec();
        fields.splice(before..before, Self::fields());
        let mut columns = rows.columns().to_vec();
        let places = [self.calls, self.rows].map(|mut numbers| {
            numbers.shrink_to_fit();
            Arc::new(Int64Array::from(numbers)) as ArrayRef
        });
        columns.splice(before..before, places);
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}
