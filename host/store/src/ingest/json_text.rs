//! Values of a tape as JSON text: the body of a write-ahead row.

use std::io;

use crate::ingest::tape::{Entries, Item, Node};

/// Appends a value as JSON without blanks.
///
/// # Errors
/// Those of `out`, which has none because it is memory.
pub(crate) fn write_json(value: Item<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    match value.node() {
        Node::Plain(text) => {
            out.reserve(text.len() + 3);
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        Node::Text(_) | Node::Unescaped { .. } => serde_json::to_writer(out, value.text().unwrap_or_default())?,
        Node::Int(int) => serde_json::to_writer(out, int)?,
        Node::Huge(int) => serde_json::to_writer(out, int)?,
        Node::Float(float) => serde_json::to_writer(out, float)?,
        Node::Null => out.extend_from_slice(b"null"),
        Node::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Node::Array(extent) => {
            out.push(b'[');
            for (nth, item) in value.children(extent.count).enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                write_json(item, out)?;
            }
            out.push(b']');
        }
        Node::Object(extent) => {
            out.push(b'{');
            for (nth, (key, value)) in Entries(value.children(extent.count * 2)).pairs().enumerate() {
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

/// The reason for refusing an event of so many bytes.
pub fn too_long(bytes: usize, max_bytes: usize) -> String {
    format!("the event has {bytes} bytes as JSON, {max_bytes} are allowed; send less with it, or in several events")
}
