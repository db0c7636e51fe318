//! Values as JSON, as results show them (the rules are those of the HTTP interface).
//!
//! TIMESTAMP is an integer of microseconds, DATETIME is ISO text without zone, a stored record
//! is a one-element array at every level, INT64 is a number, NULL stays.

use std::io::Write;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, StringViewArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::error::Result;

use tidegate_model::{REST_FIELD, UNLIKE_FIELD};

use crate::types::Type;

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As results: timestamps are integers.
    Result,
    /// As `TO_JSON_STRING`: timestamps are ISO text.
    Text,
}

/// Writes the values of one array as JSON.
#[derive(Debug)]
pub struct ColumnEncoder {
    nulls: Option<NullBuffer>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    Float(Float64Array),
    Text(StringViewArray),
    /// Text that is JSON itself.
    Json(StringViewArray),
    Bytes(BinaryArray),
    Timestamp(Int64Array),
    Instant(Int64Array),
    Datetime(Int64Array),
    Date(Int64Array),
    Time(Int64Array),
    /// Fields with their names as they are written, `"name":`.
    Struct(Parts),
    /// A record: `[{...}]`, and `[]` for none.
    Record(Parts),
    List(OffsetBuffer<i32>, Box<ColumnEncoder>),
}

/// The fields of a struct, and what a stored one keeps beside them, as JSON.
#[derive(Debug)]
struct Parts {
    fields: Vec<(Vec<u8>, ColumnEncoder)>,
    rest: Option<StringViewArray>,
    unlike: Option<StringViewArray>,
}

impl ColumnEncoder {
    /// An encoder for the values of `array`, which are of type `ty`.
    ///
    /// # Errors
    /// If the array cannot hold values of the type: a bug of the resolver.
    pub fn new(array: &ArrayRef, ty: &Type, style: Style) -> Result<Self> {
        let as_int = |via: DataType| -> Result<Int64Array> {
            Ok(cast(&cast(array, &via)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        };
        let micros = || as_int(DataType::Timestamp(TimeUnit::Microsecond, None));
        let values = match ty {
            _ if *array.data_type() == DataType::Null => Values::Null,
            Type::Null => Values::Null,
            Type::Bool => Values::Bool(cast(array, &DataType::Boolean)?.as_boolean().clone()),
            Type::Int64 => Values::Int(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            Type::Float64 => Values::Float(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
            Type::String => Values::Text(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
            Type::Interval => Values::Text(crate::functions::interval_texts(array)?),
            Type::Json => Values::Json(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
            Type::Bytes => Values::Bytes(cast(array, &DataType::Binary)?.as_binary().clone()),
            Type::Timestamp if style == Style::Text => Values::Instant(micros()?),
            Type::Timestamp => Values::Timestamp(micros()?),
            Type::Datetime => Values::Datetime(micros()?),
            Type::Date => {
                let days = cast(array, &DataType::Date32)?;
                Values::Date(
                    cast(&cast(&days, &DataType::Int32)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
                )
            }
            Type::Time => Values::Time(as_int(DataType::Time64(TimeUnit::Microsecond))?),
            Type::Struct { fields, .. } => Values::Struct(Self::parts(array, fields, style)?),
            Type::Record(fields) => Values::Record(Self::parts(array, fields, style)?),
            Type::Array(item) => {
                let list = as_list(array, ty)?;
                Values::List(list.offsets().clone(), Box::new(Self::new(list.values(), item, style)?))
            }
        };
        Ok(Self { nulls: array.nulls().cloned(), values })
    }

    fn parts(array: &ArrayRef, fields: &[crate::types::Field], style: Style) -> Result<Parts> {
        let Some(parts) = array.as_struct_opt() else {
            return Err(mismatch(array, &Type::Record(fields.into())));
        };
        let hidden = |name: &str| -> Result<Option<StringViewArray>> {
            if !crate::types::has_hidden(fields, name) {
                return Ok(None);
            }
            let Some(column) = parts.column_by_name(name) else { return Ok(None) };
            Ok(Some(cast(column, &DataType::Utf8View)?.as_string_view().clone()))
        };
        let (rest, unlike) = (hidden(REST_FIELD)?, hidden(UNLIKE_FIELD)?);
        let fields = fields
            .iter()
            .filter(|field| !field.is_hidden())
            .filter_map(|field| parts.column_by_name(&field.name).map(|column| (field, column)))
            .map(|(field, column)| {
                let mut key = Vec::new();
                write_text(&field.name, &mut key);
                key.push(b':');
                Ok((key, Self::new(column, &field.ty, style)?))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Parts { fields, rest, unlike })
    }

    /// Whether the value of a row is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// How many bytes of text and bytes the value of a row holds: its JSON is at most six times as
    /// long, apart from names and numbers. Found without reading the text.
    pub fn text_size(&self, row: usize) -> usize {
        if self.is_null(row) {
            return 0;
        }
        let all = |parts: &Parts| {
            let kept = [&parts.rest, &parts.unlike].into_iter().flatten().filter(|kept| kept.is_valid(row));
            // Each nested record of it is shown with a bracket on either side.
            let kept = kept.map(|kept| kept.value(row).len().saturating_mul(2));
            let fields = parts.fields.iter().map(|(key, field)| field.text_size(row).saturating_add(key.len()));
            fields.chain(kept).fold(0, usize::saturating_add)
        };
        match &self.values {
            Values::Text(array) | Values::Json(array) => array.value(row).len(),
            Values::Bytes(array) => array.value(row).len(),
            Values::Struct(fields) | Values::Record(fields) => all(fields),
            Values::List(offsets, items) => {
                let Some((start, end)) = offsets.get(row).zip(offsets.get(row + 1)) else { return 0 };
                let sizes = (*start..*end).map(|at| items.text_size(usize::try_from(at).unwrap_or_default()) + 1);
                sizes.fold(0, usize::saturating_add)
            }
            _ => 8,
        }
    }

    /// Appends the value of a row.
    ///
    /// # Panics
    /// If the array has no such row.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.values {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Bool(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
            Values::Int(array) | Values::Timestamp(array) => write_number(array.value(row), out),
            Values::Float(array) => {
                let value = array.value(row);
                if value.is_finite() {
                    write_number(value, out);
                } else {
                    // JSON has no such numbers; BigQuery writes them as text.
                    let text = if value.is_nan() {
                        "NaN"
                    } else if value > 0.0 {
                        "Infinity"
                    } else {
                        "-Infinity"
                    };
                    write_text(text, out);
                }
            }
            Values::Text(array) => write_text(array.value(row), out),
            Values::Json(array) => {
                let text = array.value(row);
                if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
                    out.extend_from_slice(text.as_bytes());
                } else {
                    write_text(text, out);
                }
            }
            Values::Bytes(array) => write_text(&base64(array.value(row)), out),
            Values::Datetime(array) => write_moment(array.value(row), "", out),
            Values::Instant(array) => write_moment(array.value(row), "Z", out),
            Values::Date(array) => {
                let date = chrono::DateTime::from_timestamp(array.value(row).saturating_mul(86_400), 0);
                match date {
                    Some(date) => {
                        let _ = write!(out, "{}", date.format("\"%Y-%m-%d\""));
                    }
                    None => out.extend_from_slice(b"null"),
                }
            }
            Values::Time(array) => {
                let (seconds, micros) = (array.value(row) / 1_000_000, array.value(row) % 1_000_000);
                let _ = write!(out, "\"{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
                if micros != 0 {
                    let _ = write!(out, ".{micros:06}");
                }
                out.push(b'"');
            }
            Values::Struct(parts) => {
                if !parts.write_unlike(row, false, out) {
                    parts.write_object(row, out);
                }
            }
            Values::Record(parts) => {
                if !parts.write_unlike(row, true, out) {
                    out.push(b'[');
                    parts.write_object(row, out);
                    out.push(b']');
                }
            }
            Values::List(offsets, items) => {
                out.push(b'[');
                let bounds = offsets.get(row).zip(offsets.get(row + 1));
                if let Some((start, end)) = bounds {
                    for (i, at) in (*start..*end).enumerate() {
                        if i > 0 {
                            out.push(b',');
                        }
                        items.write(usize::try_from(at).unwrap_or_default(), out);
                    }
                }
                out.push(b']');
            }
        }
    }

    /// Appends the value of a row as a cell of a table of texts: a text as it is, a TIMESTAMP as ISO
    /// text, always with microseconds, what is nested as its JSON, NULL as nothing.
    ///
    /// # Panics
    /// If the array has no such row.
    pub fn write_cell(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            return;
        }
        match &self.values {
            Values::Text(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::Timestamp(array) | Values::Instant(array) => {
                // One form for all rows: readers take the form of a column from its first rows.
                if let Some(instant) = chrono::DateTime::from_timestamp_micros(array.value(row)) {
                    let _ = write!(out, "{}", instant.format("%Y-%m-%dT%H:%M:%S%.6fZ"));
                }
            }
            Values::Json(_) | Values::Struct(_) | Values::Record(_) | Values::List(..) => self.write(row, out),
            _ => {
                // What is quoted here has nothing in it that is escaped.
                let mut value = Vec::new();
                self.write(row, &mut value);
                let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(&value);
                out.extend_from_slice(bare);
            }
        }
    }
}

/// An array of lists in the one form that is read here.
pub(crate) fn as_list(array: &ArrayRef, ty: &Type) -> Result<ListArray> {
    match array.data_type() {
        DataType::List(_) => Ok(array.as_list::<i32>().clone()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(cast(array, &DataType::List(item.clone()))?.as_list::<i32>().clone())
        }
        _ => Err(mismatch(array, ty)),
    }
}

impl Parts {
    fn write_object(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut first = true;
        let mut separate = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
        };
        for (key, field) in &self.fields {
            separate(out);
            out.extend_from_slice(key);
            field.write(row, out);
        }
        let rest = self.rest.as_ref().filter(|rest| rest.is_valid(row));
        if let Some(rest) = rest
            && let Ok(rest) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(rest.value(row))
        {
            for (key, value) in &rest {
                separate(out);
                write_text(key, out);
                out.push(b':');
                write_kept(value, true, out);
            }
        }
        out.push(b'}');
    }

    /// What stands in the place of the record, if something does; `wrapped` as in [`write_kept`].
    fn write_unlike(&self, row: usize, wrapped: bool, out: &mut Vec<u8>) -> bool {
        let Some(unlike) = self.unlike.as_ref().filter(|unlike| unlike.is_valid(row)) else { return false };
        let Ok(value) = serde_json::from_str::<serde_json::Value>(unlike.value(row)) else { return false };
        write_kept(&value, wrapped, out);
        true
    }
}

/// A value that was kept as JSON, shown as values with columns are: a record is an array of one, where it is
/// `wrapped` and no element of an array already.
fn write_kept(value: &serde_json::Value, wrapped: bool, out: &mut Vec<u8>) {
    match value {
        serde_json::Value::Object(fields) => {
            out.extend_from_slice(if wrapped { b"[{" } else { b"{" });
            for (i, (key, value)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_kept(value, true, out);
            }
            out.extend_from_slice(if wrapped { b"}]" } else { b"}" });
        }
        serde_json::Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_kept(item, false, out);
            }
            out.push(b']');
        }
        plain => {
            let _ = serde_json::to_writer(out, plain);
        }
    }
}

/// A point in time as ISO text: microseconds only where there are some.
fn write_moment(micros: i64, suffix: &str, out: &mut Vec<u8>) {
    match chrono::DateTime::from_timestamp_micros(micros) {
        Some(instant) => {
            let whole = instant.timestamp_subsec_micros() == 0;
            let format = if whole { "%Y-%m-%dT%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S%.6f" };
            let _ = write!(out, "\"{}{suffix}\"", instant.format(format));
        }
        None => out.extend_from_slice(b"null"),
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, text);
}

fn write_number(number: impl serde::Serialize, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, &number);
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = ALPHABET.get((word >> (18 - 6 * i)) as usize & 63).copied().unwrap_or(b'A');
            out.push(if i <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

pub(crate) fn mismatch(array: &ArrayRef, ty: &Type) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::Internal(format!("{} cannot hold values of type {ty}", array.data_type()))
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_pads_to_whole_groups() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
