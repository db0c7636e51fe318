//! Encodes batches of rows in any format, within the limits of rows and bytes.
//!
//! The size of a batch is estimated before it is encoded, because a text that many rows share is small in memory and
//! large in every format. The batch is cut into chunks of bounded size, and refused if it exceeds the limit of bytes.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use csv::{Terminator, WriterBuilder};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::ipc::writer::StreamWriter;
use tidegate_model::Failure;
use tidegate_runtime::{MadeByGuest, Rows};
use tidegate_sql::{ColumnEncoder, Style, Type, shown_array, shown_type};

use super::columns::{StatementContext, type_of};
use super::format::Format;
use super::options::{EncodingOptions, lost, too_large};
use super::redaction::redact_array;

/// The approximate size of an encoded chunk, in bytes.
const CHUNK: usize = 1 << 20;
/// The estimated size of an encoded value besides its text, in bytes. Keys and the digits of numbers are not counted.
const VALUE: usize = 8;

/// Encodes the rows of one answer.
pub(super) struct Writer {
    options: EncodingOptions,
    columns: Vec<(String, Type)>,
    /// The names of the columns as JSON strings, each with its colon.
    keys: Vec<Vec<u8>>,
    output: Output,
    /// The number of rows written, and the number of bytes taken out of the output.
    rows: usize,
    taken: usize,
    truncated: bool,
}

enum Output {
    Json(Vec<u8>),
    NdJson(Vec<u8>),
    Csv(Box<csv::Writer<Sink>>, Sink),
    Arrow(Box<StreamWriter<Vec<u8>>>, Arc<Schema>),
}

/// The output buffer of the CSV writer, which gives no access to a buffer that it owns.
#[derive(Debug, Default, Clone)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Some rows of a batch, with the estimated size of their encoding.
pub(super) struct RowChunk {
    arrays: Vec<ArrayRef>,
    rows: usize,
    size: usize,
}

impl RowChunk {
    /// The estimated size of its encoding, in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Writer {
    pub(super) fn new(rows: &Rows, options: EncodingOptions) -> Result<Self, Failure> {
        let columns = columns_of(rows)?;
        if let Some(statement) = rows.context.downcast_ref::<StatementContext>() {
            // One more than the answer has room for, so that it is told when there are more.
            statement.limit.lower(options.rows.saturating_add(1));
        }
        let mut keys = Vec::with_capacity(columns.len());
        for (name, _) in &columns {
            let mut key = serde_json::to_vec(name).map_err(lost)?;
            key.push(b':');
            keys.push(key);
        }
        let output = match options.format {
            Format::Json => Output::Json(b"{\"result\":[".to_vec()),
            Format::NdJson => Output::NdJson(Vec::new()),
            Format::Csv => {
                let sink = Sink::default();
                let mut csv = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(sink.clone());
                csv.write_record(columns.iter().map(|(name, _)| name)).map_err(lost)?;
                Output::Csv(Box::new(csv), sink)
            }
            Format::Arrow => {
                let fields = columns.iter().map(|(name, ty)| Field::new(name, shown_type(ty), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                Output::Arrow(Box::new(StreamWriter::try_new(Vec::new(), &schema).map_err(lost)?), schema)
            }
        };
        Ok(Self { options, columns, keys, output, rows: 0, taken: 0, truncated: false })
    }

    /// Whether there are more rows than the limit. Then no further rows are needed.
    pub(super) fn is_full(&self) -> bool {
        self.truncated
    }

    /// Cuts the rows of a batch that are within the limit into chunks for [`Writer::write`].
    pub(super) fn parts(&mut self, batch: &RecordBatch) -> Result<Vec<RowChunk>, Failure> {
        let wanted = self.options.rows.saturating_sub(self.rows);
        let rows = batch.num_rows().min(wanted);
        self.truncated = batch.num_rows() > wanted;
        let encoders = self.encoders(batch.columns())?;
        let least = VALUE.saturating_mul(batch.num_columns());
        let (mut parts, mut start, mut size, mut total) = (Vec::new(), 0, 0_usize, self.written());
        let mut cut = |rows: Range<usize>, size: usize| {
            let arrays = batch.columns().iter().map(|array| array.slice(rows.start, rows.len())).collect();
            parts.push(RowChunk { arrays, rows: rows.len(), size });
        };
        for row in 0..rows {
            let text = encoders.iter().map(|encoder| encoder.text_size(row)).fold(0, usize::saturating_add);
            total = total.saturating_add(text);
            if total > self.options.bytes {
                return Err(too_large(self.options.bytes));
            }
            let most = text.saturating_add(least);
            if row > start && size.saturating_add(most) > CHUNK {
                cut(start..row, size);
                (start, size) = (row, 0);
            }
            size = size.saturating_add(most);
        }
        if rows > start {
            cut(start..rows, size);
        }
        Ok(parts)
    }

    /// Encodes the rows of a chunk.
    pub(super) fn write(&mut self, part: &RowChunk) -> Result<(), Failure> {
        let redacted: Vec<ArrayRef>;
        let arrays = if self.options.redact {
            let masked = part.arrays.iter().zip(&self.columns).map(|(array, (_, ty))| redact_array(array, ty));
            redacted = masked.collect::<Result<_, _>>().map_err(lost)?;
            &redacted
        } else {
            &part.arrays
        };
        if let Output::Arrow(writer, schema) = &mut self.output {
            let shown = arrays.iter().zip(&self.columns).map(|(array, (_, ty))| shown_array(array, ty));
            let shown = shown.collect::<Result<Vec<_>, _>>().map_err(lost)?;
            let batch = RecordBatch::try_new(Arc::clone(schema), shown).map_err(lost)?;
            writer.write(&batch).map_err(lost)?;
            self.rows += part.rows;
            return self.check();
        }
        let encoders = self.encoders(arrays)?;
        if let Output::Json(out) | Output::NdJson(out) = &mut self.output {
            out.reserve(part.size);
        }
        for row in 0..part.rows {
            match &mut self.output {
                Output::Json(out) => {
                    if self.rows > 0 {
                        out.push(b',');
                    }
                    write_object(&self.keys, &encoders, row, out);
                }
                Output::NdJson(out) => {
                    write_object(&self.keys, &encoders, row, out);
                    out.push(b'\n');
                }
                Output::Csv(csv, _) => {
                    let mut cell = Vec::new();
                    for encoder in &encoders {
                        cell.clear();
                        encoder.write_cell(row, &mut cell);
                        csv.write_field(&cell).map_err(lost)?;
                    }
                    csv.write_record(None::<&[u8]>).map_err(lost)?;
                }
                Output::Arrow(..) => {}
            }
            self.rows += 1;
            self.check()?;
        }
        Ok(())
    }

    /// Takes the bytes that were written since the last call.
    pub(super) fn take(&mut self) -> Result<Vec<u8>, Failure> {
        let taken = match &mut self.output {
            Output::Json(out) | Output::NdJson(out) => std::mem::take(out),
            Output::Csv(csv, sink) => {
                csv.flush().map_err(lost)?;
                std::mem::take(&mut *sink.bytes())
            }
            Output::Arrow(writer, _) => std::mem::take(writer.get_mut()),
        };
        self.taken += taken.len();
        Ok(taken)
    }

    /// Ends the output. Returns the bytes that were not taken yet, and whether there were more rows than the limit.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, bool), Failure> {
        match &mut self.output {
            Output::Json(out) => out.extend_from_slice(b"]}"),
            Output::Arrow(writer, _) => writer.finish().map_err(lost)?,
            Output::NdJson(_) | Output::Csv(..) => {}
        }
        Ok((self.take()?, self.truncated))
    }

    fn encoders(&self, arrays: &[ArrayRef]) -> Result<Vec<ColumnEncoder>, Failure> {
        let encoder = |(array, (_, ty)): (&ArrayRef, &(String, Type))| ColumnEncoder::new(array, ty, Style::Result);
        arrays.iter().zip(&self.columns).map(encoder).collect::<Result<_, _>>().map_err(lost)
    }

    /// The number of bytes that are written and not taken. With CSV, the writer may still buffer a few more.
    pub(super) fn held(&self) -> usize {
        match &self.output {
            Output::Json(out) | Output::NdJson(out) => out.len(),
            Output::Csv(_, sink) => sink.bytes().len(),
            Output::Arrow(writer, _) => writer.get_ref().len(),
        }
    }

    fn written(&self) -> usize {
        self.taken + self.held()
    }

    fn check(&self) -> Result<(), Failure> {
        if self.written() > self.options.bytes { Err(too_large(self.options.bytes)) } else { Ok(()) }
    }
}

fn write_object(keys: &[Vec<u8>], encoders: &[ColumnEncoder], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (key, encoder)) in keys.iter().zip(encoders).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(key);
        encoder.write(row, out);
    }
    out.push(b'}');
}

/// The columns with their types in the dialect.
fn columns_of(rows: &Rows) -> Result<Vec<(String, Type)>, Failure> {
    let known = rows.context.downcast_ref::<StatementContext>();
    let made = rows.context.is::<MadeByGuest>();
    let ty = |column: &tidegate_runtime::Column| match known {
        _ if made => Some(type_of(column.kind)),
        Some(statement) => statement.types.get(column.origin?).cloned(),
        None => None,
    };
    let columns = rows.columns.iter().map(|column| Some((column.name.clone(), ty(column)?)));
    columns.collect::<Option<_>>().ok_or_else(|| lost("a column without a type"))
}
