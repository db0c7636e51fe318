//! Values of a tape as JSON text: the body of a write-ahead row.

use std::io;

use crate::ingest::tape::{Item, View};

/// Appends a value as JSON without blanks.
///
/// # Errors
/// Those of `out`, which has none because it is memory.
pub(crate) fn write_json(value: Item<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    match value.view() {
        View::Text(text) if value.is_plain() => {
            out.reserve(text.len() + 3);
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        View::Text(text) => serde_json::to_writer(out, text)?,
        View::Int(int) => serde_json::to_writer(out, &int)?,
        View::Huge(int) => serde_json::to_writer(out, &int)?,
        View::Float(float) => serde_json::to_writer(out, &float)?,
        View::Null => out.extend_from_slice(b"null"),
        View::Bool(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        View::Array(items) => {
            out.push(b'[');
            for (nth, item) in items.enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                write_json(item, out)?;
            }
            out.push(b']');
        }
        View::Object(entries) => {
            out.push(b'{');
            for (nth, (key, value)) in entries.pairs().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                write_json(key, out)?;
                out.push(b':');
                write_json(value, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}
