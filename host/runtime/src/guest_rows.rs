//! Rows that a guest made: checked and converted to a record batch.
//!
//! Nothing is trusted. Lengths, offsets, UTF-8 and JSON are checked before an array is built, and the constructors of
//! arrays check again.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use futures::StreamExt;
use futures::stream;
use tidegate_model::Kind;

use crate::bindings::tidegate::endpoint::types as wit;
use crate::held_bytes::held_bytes;
use crate::rows::{CellJson, Column, MadeByGuest, Rows};
use crate::wit_convert::{json_fault, kind_in, shorten};

const MAX_COLUMNS: usize = 1000;
const MAX_NAME: usize = 1024;

/// Checks and converts. Returns the rows and their bytes in memory, or what is wrong with them.
pub(crate) fn guest_rows(columns: Vec<wit::Column>, batches: Vec<wit::Batch>) -> Result<(Rows, usize), String> {
    if columns.len() > MAX_COLUMNS {
        return Err(format!("there are {} columns; at most {MAX_COLUMNS} are allowed", columns.len()));
    }
    let mut names = BTreeSet::new();
    let mut fields = Vec::with_capacity(columns.len());
    for column in &columns {
        if column.name.is_empty() || column.name.len() > MAX_NAME || !names.insert(column.name.as_str()) {
            return Err(format!("the column name '{}' is empty, too long or there twice", brief(&column.name)));
        }
        fields.push(Field::new(&column.name, data_type(column.kind), column.nullable));
    }
    let schema = Arc::new(Schema::new(fields));
    let mut bytes = 0_usize;
    let mut record_batches = Vec::with_capacity(batches.len());
    for (number, batch) in batches.into_iter().enumerate() {
        let batch = record_batch(&columns, &schema, batch).map_err(|reason| format!("batch {number}: {reason}"))?;
        bytes = bytes.saturating_add(held_bytes(&batch));
        record_batches.push(Ok(batch));
    }
    let column = |column: wit::Column| Column {
        name: column.name,
        kind: kind_in(column.kind),
        nullable: column.nullable,
        origin: None,
    };
    let rows = Rows {
        columns: columns.into_iter().map(column).collect(),
        batches: stream::iter(record_batches).boxed(),
        context: Arc::new(MadeByGuest),
        json: text_cells(),
    };
    Ok((rows, bytes))
}

fn data_type(kind: wit::Kind) -> DataType {
    match kind_in(kind) {
        Kind::Boolean => DataType::Boolean,
        Kind::Int64 => DataType::Int64,
        Kind::Float64 => DataType::Float64,
        Kind::Text | Kind::Json => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    }
}

fn record_batch(columns: &[wit::Column], schema: &Arc<Schema>, batch: wit::Batch) -> Result<RecordBatch, String> {
    let rows = usize::try_from(batch.rows).map_err(|_| "too many rows".to_owned())?;
    if batch.columns.len() != columns.len() {
        return Err(format!("{} series for {} columns", batch.columns.len(), columns.len()));
    }
    if columns.is_empty() && rows > 0 {
        return Err("rows without columns".to_owned());
    }
    let mut arrays = Vec::with_capacity(columns.len());
    for (column, series) in columns.iter().zip(batch.columns) {
        let name = brief(&column.name);
        arrays.push(array(column, series, rows).map_err(|reason| format!("column '{name}': {reason}"))?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(|error| error.to_string())
}

fn array(column: &wit::Column, series: wit::Series, rows: usize) -> Result<ArrayRef, String> {
    let nulls = match series.validity {
        Some(validity) => {
            same_length("validity", validity.len(), rows)?;
            Some(NullBuffer::from_iter(validity.iter().map(|byte| *byte != 0)))
        }
        None => None,
    };
    if !column.nullable && nulls.as_ref().is_some_and(|nulls| nulls.null_count() > 0) {
        return Err("there are nulls in a column that is not nullable".to_owned());
    }
    let text = |error: datafusion::arrow::error::ArrowError| error.to_string();
    Ok(match (column.kind, series.data) {
        (wit::Kind::Boolean, wit::SeriesData::Booleans(values)) => {
            same_length("values", values.len(), rows)?;
            Arc::new(BooleanArray::new(values.iter().map(|byte| *byte != 0).collect(), nulls))
        }
        (wit::Kind::Int64, wit::SeriesData::Int64s(values)) => {
            same_length("values", values.len(), rows)?;
            Arc::new(Int64Array::try_new(values.into(), nulls).map_err(text)?)
        }
        (wit::Kind::Float64, wit::SeriesData::Float64s(values)) => {
            same_length("values", values.len(), rows)?;
            Arc::new(Float64Array::try_new(values.into(), nulls).map_err(text)?)
        }
        (wit::Kind::Timestamp, wit::SeriesData::Timestamps(values)) => {
            same_length("values", values.len(), rows)?;
            Arc::new(TimestampMicrosecondArray::try_new(values.into(), nulls).map_err(text)?.with_timezone("UTC"))
        }
        (wit::Kind::Text | wit::Kind::Json, wit::SeriesData::Texts(packed)) => {
            let (offsets, buffer) = unpack(packed, rows)?;
            let texts = StringArray::try_new(offsets, buffer, nulls).map_err(text)?;
            let fault = match column.kind {
                wit::Kind::Json => texts.iter().flatten().find_map(json_fault),
                _ => None,
            };
            if let Some(fault) = fault {
                return Err(format!("a cell is no JSON: {fault}"));
            }
            Arc::new(texts)
        }
        (wit::Kind::Bytes, wit::SeriesData::Bytes(packed)) => {
            let (offsets, buffer) = unpack(packed, rows)?;
            Arc::new(BinaryArray::try_new(offsets, buffer, nulls).map_err(text)?)
        }
        _ => return Err("the series is not of the column's kind".to_owned()),
    })
}

fn same_length(what: &str, found: usize, rows: usize) -> Result<(), String> {
    if found == rows { Ok(()) } else { Err(format!("{found} {what} for {rows} rows")) }
}

fn unpack(packed: wit::Packed, rows: usize) -> Result<(OffsetBuffer<i32>, Buffer), String> {
    same_length("offsets (one more is needed)", packed.offsets.len(), rows.saturating_add(1))?;
    let mut offsets = Vec::with_capacity(packed.offsets.len());
    let mut before = 0;
    for offset in packed.offsets {
        let offset = i32::try_from(offset).map_err(|_| "an offset is over 2 GiB".to_owned())?;
        if offset < before {
            return Err("the offsets decrease".to_owned());
        }
        before = offset;
        offsets.push(offset);
    }
    if usize::try_from(before).is_ok_and(|last| last > packed.buffer.len()) {
        return Err("the offsets go beyond the buffer".to_owned());
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(packed.buffer)))
}

fn brief(name: &str) -> &str {
    shorten(name, 80)
}

/// The encoder of nested cells for these rows: JSON columns contain JSON text already.
fn text_cells() -> CellJson {
    Arc::new(|_, array, row| {
        Ok(array.as_string_opt::<i32>().map_or_else(|| "null".to_owned(), |texts| texts.value(row).to_owned()))
    })
}
