//! The rows that a flush writes: batches in memory, in the columns of one segment.
//!
//! The batches are not joined. A segment is written in runs of tenants, a chunk at a time, so that its rows are copied
//! into another order anyway. A joined batch would be one more copy of all of them, and held beside them.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, RecordBatch},
        datatypes::SchemaRef,
        error::ArrowError,
    },
    error::Result,
};

use crate::{
    arrays::{interleave::interleave_rows, required_fields::with_required_fields},
    memory::mem_batch::{MemBatch, conformed, newest_first, seqs},
};

/// The rows of a segment that is to be written. They are numbered from 0, part after part.
#[derive(Debug)]
pub(crate) struct FlushRows {
    /// The columns as the catalog names them: all fields are optional.
    pub(crate) schema: SchemaRef,
    /// Batches of one schema, in which a field that no row lacks is required.
    parts: Vec<RecordBatch>,
    /// The number of the first row of each part.
    starts: Vec<usize>,
    /// The first and last write-ahead row that the rows came from.
    pub(crate) seqs: (i64, i64),
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

impl FlushRows {
    /// Of these batches, of which there is one at least. Columns with few values for their size are moved to the overflow.
    pub(crate) fn of(batches: &[Arc<MemBatch>]) -> Result<FlushRows> {
        let batches = newest_first(batches);
        let (schema, parts) = match batches.as_slice() {
            [one] => (one.rows.schema(), vec![one.rows.clone()]),
            many => conformed(many)?,
        };
        let parts = with_required_fields(&parts)?;
        let starts = parts.iter().scan(0, |next, part| {
            let start = *next;
            *next += part.num_rows();
            Some(start)
        });
        Ok(FlushRows {
            starts: starts.collect(),
            schema,
            parts,
            seqs: seqs(&batches),
            min_time: batches.iter().map(|batch| batch.min_time).min().unwrap_or(0),
            max_time: batches.iter().map(|batch| batch.max_time).max().unwrap_or(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.parts.iter().map(RecordBatch::num_rows).sum()
    }

    /// The parts, in the order of their numbers.
    pub(crate) fn parts(&self) -> &[RecordBatch] {
        &self.parts
    }

    /// The schema of the file: as [`Self::schema`], with required fields.
    pub(crate) fn file_schema(&self) -> SchemaRef {
        self.parts.first().map_or_else(|| Arc::clone(&self.schema), RecordBatch::schema)
    }

    /// Whether each row has a value in the column of this name.
    pub(crate) fn is_complete(&self, column: &str) -> bool {
        self.parts.iter().all(|part| part.column_by_name(column).is_some_and(|values| values.null_count() == 0))
    }

    /// The part of the row with this number, and its place there.
    pub(crate) fn place(&self, row: usize) -> (usize, usize) {
        let part = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        (part, row - self.starts.get(part).copied().unwrap_or(0))
    }

    /// The rows with these numbers, in this order.
    pub(crate) fn take(&self, rows: &[u32]) -> Result<RecordBatch, ArrowError> {
        let places: Vec<(usize, usize)> = rows.iter().map(|row| self.place(*row as usize)).collect();
        interleave_rows(&self.parts.iter().collect::<Vec<_>>(), &places)
    }
}
