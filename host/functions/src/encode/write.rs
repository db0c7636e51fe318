//! Writing the values of a prepared column as JSON text.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use datafusion::arrow::array::Array;

use super::{ColumnEncoder, Parts, Values};
use crate::conversion::text_of_float;

/// The INT64 that a FLOAT64 holds exactly, and so every reader of JSON.
const EXACT: std::ops::RangeInclusive<i64> = -(1 << 53)..=1 << 53;

impl ColumnEncoder {
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
            Values::PortableInt(array) => {
                let value = array.value(row);
                match EXACT.contains(&value) {
                    true => write_number(value, out),
                    false => write_text(&value.to_string(), out),
                }
            }
            Values::Float(array) | Values::PortableFloat(array) => {
                let value = array.value(row);
                if value.is_finite() && matches!(self.values, Values::PortableFloat(_)) {
                    out.extend_from_slice(text_of_float(value).as_bytes());
                } else if value.is_finite() {
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
            Values::Decimal(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Values::PortableDecimal(array) => {
                let text = array.value(row);
                match text.parse().is_ok_and(|whole: i64| EXACT.contains(&whole)) {
                    true => out.extend_from_slice(text.as_bytes()),
                    false => write_text(text, out),
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
            Values::Bytes(array) => write_text(&BASE64_STANDARD.encode(array.value(row)), out),
            Values::Datetime(array, short) => write_moment(array.value(row), "", *short, out),
            Values::Instant(array) => write_moment(array.value(row), "Z", true, out),
            Values::Date(array) => {
                let date = chrono::DateTime::from_timestamp(array.value(row).saturating_mul(86_400), 0);
                match date {
                    Some(date) => {
                        let _ = write!(out, "{}", date.format("\"%Y-%m-%d\""));
                    }
                    None => out.extend_from_slice(b"null"),
                }
            }
            Values::Time(array, short) => {
                let (seconds, micros) = (array.value(row) / 1_000_000, array.value(row) % 1_000_000);
                let _ = write!(out, "\"{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
                let _ = match micros {
                    0 => Ok(()),
                    _ if *short && micros % 1000 == 0 => write!(out, ".{:03}", micros / 1000),
                    _ => write!(out, ".{micros:06}"),
                };
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
                // One form for all rows: readers infer the form of a column from its first rows.
                if let Some(instant) = chrono::DateTime::from_timestamp_micros(array.value(row)) {
                    let _ = write!(out, "{}", instant.format("%Y-%m-%dT%H:%M:%S%.6fZ"));
                }
            }
            Values::Json(_) | Values::Struct(_) | Values::Record(_) | Values::List(..) => self.write(row, out),
            _ => {
                // The quoted values of these types contain no escapes.
                let mut value = Vec::new();
                self.write(row, &mut value);
                let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(&value);
                out.extend_from_slice(bare);
            }
        }
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

    /// Writes the value that stands in the place of the record, if there is one; `wrapped` as in [`write_kept`]. Returns
    /// whether there was one.
    fn write_unlike(&self, row: usize, wrapped: bool, out: &mut Vec<u8>) -> bool {
        let Some(unlike) = self.unlike.as_ref().filter(|unlike| unlike.is_valid(row)) else { return false };
        let Ok(value) = serde_json::from_str::<serde_json::Value>(unlike.value(row)) else { return false };
        write_kept(&value, wrapped, out);
        true
    }
}

/// Writes a value that was kept as JSON in the same form as values of columns: where `wrapped`, an object is an array of
/// one object. The elements of an array are not wrapped.
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

/// A point in time as ISO text. Of a second there are six digits or none; in a `short` one three, where they suffice.
fn write_moment(micros: i64, suffix: &str, short: bool, out: &mut Vec<u8>) {
    match chrono::DateTime::from_timestamp_micros(micros) {
        Some(instant) => {
            let format = match instant.timestamp_subsec_micros() {
                0 => "%Y-%m-%dT%H:%M:%S",
                micros if short && micros % 1000 == 0 => "%Y-%m-%dT%H:%M:%S%.3f",
                _ => "%Y-%m-%dT%H:%M:%S%.6f",
            };
            let _ = write!(out, "\"{}{suffix}\"", instant.format(format));
        }
        None => out.extend_from_slice(b"null"),
    }
}

pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, text);
}

fn write_number(number: impl serde::Serialize, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, &number);
}
