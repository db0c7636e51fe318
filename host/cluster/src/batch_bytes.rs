//! Batches as bytes between machines: the stream format of Arrow IPC.
//!
//! A column of texts that was filtered refers to the buffers of all rows before; such a column is copied first, so that
//! only its own texts are sent.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamEncoder;

/// Makes bytes of batches.
pub(crate) struct BatchEncoder {
    encoder: StreamEncoder,
}

impl BatchEncoder {
    /// Of batches with these columns.
    ///
    /// # Errors
    /// If the format has no such columns.
    pub(crate) fn new(schema: &Schema) -> Result<Self, ArrowError> {
        Ok(Self { encoder: StreamEncoder::try_new(schema)? })
    }

    /// The next bytes of the stream. They are read with all those before.
    ///
    /// # Errors
    /// If the batch has other columns.
    pub(crate) fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<Buffer>, ArrowError> {
        let columns = batch.columns().iter().map(compact).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
        self.encoder.encode(&batch)
    }
}

/// Makes batches of bytes, which are checked.
pub(crate) struct BatchDecoder {
    decoder: StreamDecoder,
    schema: SchemaRef,
}

impl BatchDecoder {
    /// Of batches with these columns.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self { decoder: StreamDecoder::new(), schema }
    }

    /// The batches in the next bytes of the stream.
    ///
    /// # Errors
    /// If the bytes cannot be read, or the batches have other columns.
    pub(crate) fn decode(&mut self, bytes: Vec<Buffer>) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut batches = Vec::new();
        for mut buffer in bytes {
            while !buffer.is_empty() {
                batches.extend(self.decoder.decode(&mut buffer)?);
            }
        }
        let types = |schema: &Schema| -> Vec<DataType> {
            schema.fields().iter().map(|field| field.data_type().clone()).collect()
        };
        if batches.iter().any(|batch| types(batch.schema_ref()) != types(&self.schema)) {
            return Err(ArrowError::SchemaError("the rows of a worker have other columns".to_owned()));
        }
        // With the schema of the plan, whose metadata operators compare.
        batches.into_iter().map(|batch| batch.with_schema(Arc::clone(&self.schema))).collect()
    }
}

/// The bytes that buffers hold together.
pub(crate) fn held_by(buffers: &[Buffer]) -> usize {
    buffers.iter().map(Buffer::len).sum()
}

/// The same values without texts of other rows.
fn compact(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) if has_views(array.data_type()) => {
            let record = array.as_struct();
            let columns = record.columns().iter().map(compact).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, record.nulls().cloned(), record.len())?)
        }
        DataType::List(item) if has_views(array.data_type()) => {
            let list = array.as_list::<i32>();
            let (first, last) = (list.offsets().first().copied(), list.offsets().last().copied());
            let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
            // Of a slice of lists, only its own values.
            let own = list.values().slice(first as usize, (last - first) as usize);
            let lengths = list.offsets().lengths();
            let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths(lengths);
            Arc::new(GenericListArray::<i32>::try_new(
                Arc::clone(item),
                offsets,
                compact(&own)?,
                list.nulls().cloned(),
            )?)
        }
        _ => Arc::clone(array),
    })
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::List(item) => has_views(item.data_type()),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListBuilder, StringViewArray, StringViewBuilder};
    use datafusion::arrow::compute::filter_record_batch;

    use super::*;

    fn batch(rows: usize) -> RecordBatch {
        let texts = StringViewArray::from_iter_values((0..rows).map(|n| format!("a text of its own, number {n}")));
        let texts: ArrayRef = Arc::new(texts);
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for n in 0..rows {
            lists.append_value((0..n % 3).map(|item| Some(format!("an item that is not short, {n} {item}"))));
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let record = StructArray::try_from(vec![("text", Arc::clone(&texts)), ("list", Arc::clone(&lists))]).unwrap();
        let record: ArrayRef = Arc::new(record);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..rows as i64).map(|n| (n % 7 > 0).then_some(n))));
        RecordBatch::try_from_iter_with_nullable([
            ("t", texts, true),
            ("l", lists, true),
            ("r", record, true),
            ("n", numbers, true),
        ])
        .unwrap()
    }

    #[test]
    fn batches_are_the_same_again() {
        let all = batch(1000);
        let few = (0..1000).map(|n| Some(n % 97 == 5)).collect();
        let filtered = filter_record_batch(&all, &few).unwrap();
        let mut encoder = BatchEncoder::new(&all.schema()).unwrap();
        let mut decoder = BatchDecoder::new(all.schema());
        for batch in [all.clone(), filtered, all.slice(500, 3), all.slice(7, 0)] {
            let bytes = encoder.encode(&batch).unwrap();
            assert_eq!(decoder.decode(bytes).unwrap(), [batch]);
        }
    }

    #[test]
    fn texts_of_other_rows_are_not_sent() {
        let all = batch(10_000);
        let mut encoder = BatchEncoder::new(&all.schema()).unwrap();
        let whole = held_by(&encoder.encode(&all).unwrap());
        let some = held_by(&encoder.encode(&all.slice(4000, 10)).unwrap());
        assert!(some * 100 < whole, "{some} of {whole}");
    }

    #[test]
    fn other_columns_are_refused() {
        let all = batch(10);
        let bytes = BatchEncoder::new(&all.schema()).unwrap().encode(&all).unwrap();
        let other = all.project(&[0, 1]).unwrap();
        assert!(BatchDecoder::new(other.schema()).decode(bytes.clone()).is_err());
        let cut: Vec<Buffer> = bytes.iter().map(|buffer| buffer.slice_with_length(0, buffer.len() / 2)).collect();
        assert!(BatchDecoder::new(all.schema()).decode(cut).map_or(true, |batches| batches.is_empty()));
        assert_eq!(BatchDecoder::new(all.schema()).decode(bytes).unwrap()[0], all);
    }
}
