//! Record batches in the form in which a guest reads them: column by column, within what is left of its limits.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use tidegate_model::{Code, Failure, Kind, Quota};

use crate::bindings::tidegate::endpoint::types as wit;
use crate::rows::{CellJson, Column};
use crate::wit_convert::exhausted;

/// What the guest may still read.
pub(crate) struct ReadBudget {
    pub(crate) rows: u64,
    pub(crate) bytes: usize,
}

/// A batch in the types of the WIT package, and its size in bytes.
pub(crate) struct BatchOut {
    pub(crate) batch: wit::Batch,
    pub(crate) bytes: usize,
}

/// Converts a batch.
pub(crate) fn batch_out(
    batch: &RecordBatch,
    columns: &[Column],
    json: &CellJson,
    budget: &ReadBudget,
) -> Result<BatchOut, Failure> {
    let mut bytes = 0_usize;
    let mut series = Vec::with_capacity(columns.len());
    for (index, (column, array)) in columns.iter().zip(batch.columns()).enumerate() {
        let left = budget.bytes.saturating_sub(bytes);
        let data = match column.kind {
            Kind::Json => wit::SeriesData::Texts(json_cells(array, column.origin.unwrap_or(index), json, left)?),
            kind => plain(array, kind, &column.name, left)?,
        };
        let validity = (array.logical_null_count() > 0).then(|| validity(array));
        bytes = bytes.saturating_add(size(&data)).saturating_add(validity.as_ref().map_or(0, Vec::len));
        if bytes > budget.bytes {
            return Err(full());
        }
        series.push(wit::Series { validity, data });
    }
    if series.len() != columns.len() {
        return Err(Failure::new(Code::Internal, "the result does not have the columns that it announced"));
    }
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    Ok(BatchOut { batch: wit::Batch { rows, columns: series }, bytes })
}

/// The first cell of a batch.
pub(crate) fn scalar_out(batch: wit::Batch) -> wit::Value {
    let Some(series) = batch.columns.into_iter().next() else { return wit::Value::Null };
    if series.validity.is_some_and(|validity| validity.first() == Some(&0)) {
        return wit::Value::Null;
    }
    let value = match series.data {
        wit::SeriesData::Booleans(values) => values.first().map(|value| wit::Value::Boolean(*value != 0)),
        wit::SeriesData::Int64s(values) => values.first().copied().map(wit::Value::Int64),
        wit::SeriesData::Float64s(values) => values.first().copied().map(wit::Value::Float64),
        wit::SeriesData::Timestamps(values) => values.first().copied().map(wit::Value::Timestamp),
        wit::SeriesData::Texts(packed) => String::from_utf8(packed.buffer).ok().map(wit::Value::Text),
        wit::SeriesData::Bytes(packed) => Some(wit::Value::Bytes(packed.buffer)),
    };
    value.unwrap_or(wit::Value::Null)
}

fn plain(array: &ArrayRef, kind: Kind, name: &str, left: usize) -> Result<wit::SeriesData, Failure> {
    let broken = |error: &dyn std::fmt::Display| {
        tracing::error!(column = name, kind = ?kind, from = %array.data_type(), %error, "a column is not of its kind");
        Failure::new(Code::Internal, format!("the column '{name}' cannot be read as {kind:?}")).about(name)
    };
    let target = match kind {
        Kind::Boolean => DataType::Boolean,
        Kind::Int64 => DataType::Int64,
        Kind::Float64 => DataType::Float64,
        Kind::Text | Kind::Json => DataType::Utf8,
        Kind::Bytes => DataType::Binary,
        // A time zone only affects the display; the number is the same.
        Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
    };
    let array = if *array.data_type() == target {
        array.clone()
    } else {
        cast(array, &target).map_err(|error| broken(&error))?
    };
    let lost = || broken(&"another array type than the cast promised");
    Ok(match kind {
        Kind::Boolean => {
            let values: &BooleanArray = array.as_boolean_opt().ok_or_else(lost)?;
            wit::SeriesData::Booleans((0..values.len()).map(|row| u8::from(values.value(row))).collect())
        }
        Kind::Int64 => {
            let values: &Int64Array = array.as_primitive_opt::<Int64Type>().ok_or_else(lost)?;
            wit::SeriesData::Int64s(values.values().to_vec())
        }
        Kind::Float64 => {
            let values: &Float64Array = array.as_primitive_opt::<Float64Type>().ok_or_else(lost)?;
            wit::SeriesData::Float64s(values.values().to_vec())
        }
        Kind::Timestamp => {
            let values: &TimestampMicrosecondArray =
                array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(lost)?;
            wit::SeriesData::Timestamps(values.values().to_vec())
        }
        Kind::Text | Kind::Json => {
            let values: &StringArray = array.as_string_opt::<i32>().ok_or_else(lost)?;
            wit::SeriesData::Texts(packed(values.value_offsets(), values.value_data(), left)?)
        }
        Kind::Bytes => {
            let values: &BinaryArray = array.as_binary_opt::<i32>().ok_or_else(lost)?;
            wit::SeriesData::Bytes(packed(values.value_offsets(), values.value_data(), left)?)
        }
    })
}

/// Offsets shifted to begin at 0, and the part of the buffer that they span.
fn packed(offsets: &[i32], data: &[u8], left: usize) -> Result<wit::Packed, Failure> {
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    let span = usize::try_from(first).ok().zip(usize::try_from(last).ok());
    let used = span.and_then(|(first, last)| data.get(first..last)).unwrap_or_default();
    if used.len() > left {
        return Err(full());
    }
    let offsets = offsets.iter().map(|offset| offset.wrapping_sub(first).cast_unsigned()).collect();
    Ok(wit::Packed { offsets, buffer: used.to_vec() })
}

fn json_cells(array: &ArrayRef, origin: usize, json: &CellJson, left: usize) -> Result<wit::Packed, Failure> {
    let nulls = array.logical_nulls();
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut buffer = Vec::new();
    offsets.push(0);
    for row in 0..array.len() {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            buffer.extend_from_slice(json(origin, array, row)?.as_bytes());
        }
        if buffer.len() > left {
            return Err(full());
        }
        offsets.push(u32::try_from(buffer.len()).map_err(|_| full())?);
    }
    Ok(wit::Packed { offsets, buffer })
}

fn validity(array: &ArrayRef) -> Vec<u8> {
    let nulls = array.logical_nulls();
    (0..array.len()).map(|row| u8::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))).collect()
}

fn size(data: &wit::SeriesData) -> usize {
    match data {
        wit::SeriesData::Booleans(values) => values.len(),
        wit::SeriesData::Int64s(values) | wit::SeriesData::Timestamps(values) => values.len() * 8,
        wit::SeriesData::Float64s(values) => values.len() * 8,
        wit::SeriesData::Texts(packed) | wit::SeriesData::Bytes(packed) => {
            packed.buffer.len() + packed.offsets.len() * 4
        }
    }
}

fn full() -> Failure {
    exhausted(
        Quota::Bytes,
        "the component read more bytes of rows into its memory than it may; select fewer columns or rows".to_owned(),
    )
}
