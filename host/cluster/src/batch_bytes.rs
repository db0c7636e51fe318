//! Batches as bytes between machines: messages of Arrow IPC, each of which is a batch by itself.
//!
//! They are not its stream format: the reader of that format holds a message without a body back until another one
//! comes, and so the last batches of rows that have no columns, or only NULLs, would be lost. The reader knows the columns
//! from the plan. The number of rows is sent beside the message, and compared.
//!
//! A column of texts that was filtered refers to the buffers of all rows before; such a column is copied first, so that
//! only its own texts are sent.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, RecordBatch, RecordBatchOptions, StructArray,
};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::read_record_batch;
use datafusion::arrow::ipc::root_as_message;
use datafusion::arrow::ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
};

use crate::bounds::MAX_BATCH_ROWS;
use crate::ipc_check;

/// A batch as bytes.
#[derive(Debug, Clone)]
pub struct BatchBytes {
    /// The message: where the values of each column lie in the body.
    pub message: Vec<u8>,
    /// The values.
    pub body: Buffer,
    /// How many rows it has.
    pub rows: usize,
}

impl BatchBytes {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        self.message.len() + self.body.len()
    }

    /// Whether it holds none, which a batch never does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A batch in pieces that can be sent: one, unless it has very many rows.
    pub fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
        let rows = batch.num_rows();
        // A batch without rows is one too.
        (0..rows.max(1)).step_by(MAX_BATCH_ROWS).map(move |from| batch.slice(from, (rows - from).min(MAX_BATCH_ROWS)))
    }

    /// The bytes of a batch, of [`BatchBytes::pieces`].
    ///
    /// # Errors
    /// If the format has no such columns.
    pub fn of(batch: &RecordBatch) -> Result<Self, ArrowError> {
        let columns = batch.columns().iter().map(compact).collect::<Result<_, _>>()?;
        let rows = batch.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
        let mut dictionaries = DictionaryTracker::new(true);
        let (options, mut context) = (IpcWriteOptions::default(), IpcWriteContext::default());
        let encoded = IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut context)?;
        let (others, EncodedData { ipc_message, arrow_data }) = encoded;
        if !others.is_empty() {
            return Err(ArrowError::IpcError("rows with dictionaries are not sent".to_owned()));
        }
        Ok(Self { message: ipc_message, body: arrow_data.into(), rows })
    }

    /// The batch, which has these columns.
    ///
    /// # Errors
    /// If the bytes are not such a batch.
    pub fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        // Rows without columns, or of NULLs, have no bytes that bound their number.
        if self.rows > MAX_BATCH_ROWS {
            return Err(unread("there are too many"));
        }
        // The reader trusts its input, and fails without an error in many ways.
        let read = catch_unwind(AssertUnwindSafe(|| self.read(schema)));
        let batch = read.unwrap_or_else(|_| Err(unread("they are not whole")))?;
        if batch.num_rows() == self.rows { Ok(batch) } else { Err(unread("their number is another one")) }
    }

    fn read(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let message = root_as_message(&self.message).map_err(|error| unread(&error.to_string()))?;
        let Some(batch) = message.header_as_record_batch() else { return Err(unread("they are something else")) };
        ipc_check::bounded(batch, self.body.len()).map_err(unread)?;
        read_record_batch(&self.body, batch, Arc::clone(schema), &HashMap::new(), None, &message.version())
    }
}

fn unread(why: &str) -> ArrowError {
    ArrowError::IpcError(format!("rows cannot be read: {why}"))
}

/// Whether rows with such a column can be sent.
pub(crate) fn is_sendable(field: &Field) -> bool {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().all(|field| is_sendable(field)),
        DataType::List(item) => is_sendable(item),
        data_type => !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..)),
    }
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
            let offsets = OffsetBuffer::from_lengths(lengths);
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
    use datafusion::arrow::array::{Int64Array, ListBuilder, NullArray, StringViewArray, StringViewBuilder};
    use datafusion::arrow::compute::filter_record_batch;
    use datafusion::arrow::ipc::CompressionType;

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
        let nulls: ArrayRef = Arc::new(NullArray::new(5));
        let nulls = RecordBatch::try_from_iter([("n", nulls)]).unwrap();
        let none = all.project(&[]).unwrap();
        assert_eq!(none.num_rows(), 1000);
        for batch in [all.clone(), filtered, all.slice(500, 3), all.slice(7, 0), nulls, none] {
            assert_eq!(BatchBytes::of(&batch).unwrap().batch(&batch.schema()).unwrap(), batch);
        }
    }

    #[test]
    fn texts_of_other_rows_are_not_sent() {
        let all = batch(10_000);
        let whole = BatchBytes::of(&all).unwrap().len();
        let some = BatchBytes::of(&all.slice(4000, 10)).unwrap().len();
        assert!(some * 100 < whole, "{some} of {whole}");
    }

    #[test]
    fn many_rows_are_sent_in_pieces() {
        let all = batch(MAX_BATCH_ROWS + 3);
        for batch in [all.project(&[]).unwrap(), all.project(&[3]).unwrap()] {
            let rows = |batch| BatchBytes::of(&batch).unwrap().batch(&batch.schema()).unwrap().num_rows();
            assert_eq!(BatchBytes::pieces(&batch).map(rows).collect::<Vec<_>>(), [MAX_BATCH_ROWS, 3]);
            assert!(BatchBytes::of(&batch).unwrap().batch(&batch.schema()).is_err());
        }
        let none = all.slice(0, 0);
        assert_eq!(BatchBytes::pieces(&none).map(|batch| batch.num_rows()).collect::<Vec<_>>(), [0]);
    }

    /// The numbers in a message are those of the bytes that came. Each of these would allocate what it says, and a failed
    /// allocation would end the process.
    #[test]
    fn rows_that_say_more_than_came_are_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 1000]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let why = |bytes: BatchBytes, schema: &SchemaRef| bytes.batch(schema).unwrap_err().to_string();
        for says in [1_u64 << 46, 8000] {
            let compression = Some(CompressionType::LZ4_FRAME);
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let mut context = IpcWriteContext::default();
            let mut dictionaries = DictionaryTracker::new(true);
            let encoded =
                IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut context).unwrap().1;
            let mut body = encoded.arrow_data;
            let length = body.windows(8).position(|bytes| bytes == 8000_u64.to_le_bytes()).unwrap();
            body[length..length + 8].copy_from_slice(&says.to_le_bytes());
            let bytes = BatchBytes { message: encoded.ipc_message, body: body.into(), rows: 1000 };
            assert!(why(bytes, &batch.schema()).contains("compressed"));
        }
        let nulls: ArrayRef = Arc::new(NullArray::new(1 << 40));
        let nulls = RecordBatch::try_from_iter([("n", nulls)]).unwrap();
        let bytes = BatchBytes::of(&nulls).unwrap();
        assert!(why(bytes.clone(), &nulls.schema()).contains("too many"));
        assert!(why(BatchBytes { rows: 5, ..bytes }, &nulls.schema()).contains("more of them than bytes"));
        // The body is shorter than its columns together, each of which lies in it.
        let twice = batch.project(&[0, 0]).unwrap();
        let bytes = BatchBytes::of(&twice).unwrap();
        let half = BatchBytes { body: bytes.body.slice_with_length(0, bytes.body.len() / 2), ..bytes };
        assert!(why(half, &twice.schema()).contains("outside of their bytes"));
    }

    #[test]
    fn other_rows_are_refused() {
        let all = batch(10);
        let bytes = BatchBytes::of(&all).unwrap();
        let more = all.project(&[0, 1, 2, 3, 3]).unwrap();
        assert!(bytes.batch(&more.schema()).is_err());
        let swapped = all.project(&[3, 0, 1, 2]).unwrap();
        assert!(bytes.batch(&swapped.schema()).is_err());
        let less = BatchBytes { rows: 9, ..bytes.clone() };
        assert!(less.batch(&all.schema()).is_err());
        let cut = BatchBytes { body: bytes.body.slice_with_length(0, bytes.body.len() / 2), ..bytes.clone() };
        assert!(cut.batch(&all.schema()).is_err());
        let cut = BatchBytes { message: bytes.message[..bytes.message.len() / 2].to_vec(), ..bytes };
        assert!(cut.batch(&all.schema()).is_err());
    }
}
