//! Rows as single lines of JSON, for readers who take them one at a time.

use datafusion::arrow::array::RecordBatch;
use futures::StreamExt;
use futures::stream::empty;
use tidegate_model::Failure;
use tidegate_sql::Type;

use super::columns::{RowLimit, rows_with};
use super::format::Format;
use super::options::EncodingOptions;
use super::rows::Writer;

/// Encodes batches of rows, each row as a JSON object in a line of its own, with personal data masked if wanted.
pub(crate) struct LineWriter {
    writer: Writer,
    columns: usize,
    options: EncodingOptions,
}

impl LineWriter {
    /// For rows of these columns. There is no limit of rows and bytes: the caller bounds what it passes.
    ///
    /// # Errors
    /// The encoder's.
    pub(crate) fn new(columns: &[(String, Type)], redact: bool) -> Result<Self, Failure> {
        let options = EncodingOptions { format: Format::NdJson, rows: usize::MAX, bytes: usize::MAX, redact };
        let writer = Writer::new(&rows_with(columns, RowLimit::new(usize::MAX), empty().boxed()), options)?;
        Ok(Self { writer, columns: columns.len(), options })
    }

    /// Encodes the rows of a batch. Columns after those of the writer are left out. `take` gets the number of each row in
    /// the batch and its JSON.
    ///
    /// # Errors
    /// The encoder's.
    pub(crate) fn write(&mut self, batch: &RecordBatch, mut take: impl FnMut(usize, &[u8])) -> Result<(), Failure> {
        let own: Vec<usize> = (0..self.columns.min(batch.num_columns())).collect();
        let batch = batch.project(&own).map_err(super::options::lost)?;
        let mut row = 0;
        for part in self.writer.parts(&batch)? {
            self.writer.write(&part)?;
            let lines = self.writer.take()?;
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                take(row, line);
                row += 1;
            }
        }
        Ok(())
    }

    /// Redacts a failure if the rows would be redacted.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        self.options.failure(failure)
    }
}
