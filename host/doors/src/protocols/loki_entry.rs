//! An entry of Loki as an event: the line is the message, labels and structured metadata are the fields of `metadata`.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::Failure;

use super::fields::{Fields, event};
use crate::batch::Batch;

/// The labels of a stream.
#[derive(Debug, Default, Clone)]
pub(super) struct Labels {
    pub(super) values: Arc<Fields>,
    /// Their size as they were sent.
    pub(super) bytes: usize,
    /// Why none of its entries is taken.
    pub(super) refused: Option<Arc<str>>,
}

impl Labels {
    /// The labels of a stream of which no entry is taken.
    pub(super) fn refused(reason: String) -> Self {
        Self { refused: Some(reason.into()), ..Self::default() }
    }
}

/// An entry of a stream.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// As the store reads it; what is no time is sent on as it came.
    pub(super) time: Option<Value>,
    pub(super) line: String,
    pub(super) structured: Fields,
}

/// Adds an entry of `bytes` bytes to a batch. `read` is called only if it is not too long.
///
/// # Errors
/// [`Code::TooLarge`](tidegate_model::Code::TooLarge) when the entries of the request come to too many bytes.
pub(super) fn add(
    batch: &mut Batch,
    labels: &Labels,
    bytes: usize,
    read: impl FnOnce() -> Result<Entry, String>,
) -> Result<(), Failure> {
    if let Some(reason) = &labels.refused {
        batch.refuse(reason.to_string());
        return Ok(());
    }
    batch.take_sharing(bytes, (labels.bytes, "entries", "labels"), || Ok(read()?.into_event(labels)))
}

impl Entry {
    fn into_event(self, labels: &Labels) -> Value {
        let mut metadata = Fields::clone(&labels.values);
        for (name, value) in self.structured {
            // Loki names it so, too.
            let name = if metadata.contains_key(&name) { format!("{name}_extracted") } else { name };
            metadata.insert(name, value);
        }
        let project = metadata.get("project").cloned();
        let own = [("timestamp", self.time), ("event_message", Some(self.line.into())), ("project", project)];
        event(own, metadata)
    }
}

/// The labels of a stream as Protocol Buffers have them: `{name="value", ...}`, with values quoted as in Go.
///
/// # Errors
/// Why the labels cannot be read.
pub(super) fn labels(text: &str) -> Result<Labels, String> {
    let bad = || {
        let shown: String = text.chars().take(100).collect();
        format!("the labels {shown:?} cannot be read; they are {{name=\"value\", ...}}")
    };
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(bad)?;
    let mut values = Fields::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').ok_or_else(bad)?;
        let (value, after) = quoted(value.trim_start().strip_prefix('"').ok_or_else(bad)?).ok_or_else(bad)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(bad());
        }
        values.insert(name.to_owned(), Value::String(value));
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => {}
            None => return Err(bad()),
        }
    }
    Ok(Labels { values: Arc::new(values), bytes: text.len(), refused: None })
}

/// A text up to its closing quote, with the escapes of Go, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(['"', '\\'])?;
        bytes.extend_from_slice(rest.get(..end)?.as_bytes());
        if let Some(after) = rest.get(end..)?.strip_prefix('"') {
            return Some((String::from_utf8(bytes).ok()?, after));
        }
        let escape = rest.get(end + 1..)?;
        let kind = escape.chars().next()?;
        rest = escape.get(kind.len_utf8()..)?;
        let digits = |count: usize| u32::from_str_radix(rest.get(..count)?, 16).ok();
        let (plain, length) = match kind {
            'a' => (0x07, 0),
            'b' => (0x08, 0),
            'f' => (0x0c, 0),
            'n' => (b'\n', 0),
            'r' => (b'\r', 0),
            't' => (b'\t', 0),
            'v' => (0x0b, 0),
            '\\' | '"' | '\'' => (u8::try_from(kind).ok()?, 0),
            'x' => (u8::try_from(digits(2)?).ok()?, 2),
            'u' | 'U' => {
                let count = if kind == 'u' { 4 } else { 8 };
                let character = char::from_u32(digits(count)?)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = rest.get(count..)?;
                continue;
            }
            '0'..='7' => {
                let octal = escape.get(..3)?;
                (u8::from_str_radix(octal, 8).ok()?, 2)
            }
            _ => return None,
        };
        bytes.push(plain);
        rest = rest.get(length..)?;
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(text: &str) -> Option<Value> {
        labels(text).ok().map(|labels| Value::Object(Fields::clone(&labels.values)))
    }

    #[test]
    fn labels_are_read_with_their_escapes() {
        assert_eq!(values("{}"), Some(json!({})));
        assert_eq!(values(r#"{job="a", env = "b" ,}"#), Some(json!({"job": "a", "env": "b"})));
        let escaped = r#"{a="q\"\\\n\t\x41\u20ac\U0001F600\101\xe2\x82\xac}{,="}"#;
        assert_eq!(values(escaped), Some(json!({"a": "q\"\\\n\tA\u{20ac}\u{1f600}A\u{20ac}}{,="})));
        for bad in [
            "",
            "{",
            "{a}",
            "{a=}",
            "{a=\"}",
            "{=\"b\"}",
            "{a=\"\\",
            "{a=\"\\x\"}",
            "{a=\"\\q\"}",
            "{a=\"\\xff\"}",
            "{a=\"b\" c=\"d\"}",
            "{a=\"\\\u{20ac}\"}",
        ] {
            assert_eq!(values(bad), None, "{bad}");
        }
    }

    #[test]
    fn structured_metadata_stands_beside_labels() {
        let labels = labels(r#"{job="a", project="p"}"#).unwrap();
        let structured = json!({"trace_id": "t", "job": "b"}).as_object().cloned().unwrap();
        let entry =
            Entry { time: crate::nanoseconds::of_nanos(1_763_633_702_123_456_789), line: "m".to_owned(), structured };
        let expected = json!({
            "timestamp": 1_763_633_702_123_456_789_u64, "event_message": "m", "project": "p",
            "metadata": {"job": "a", "project": "p", "trace_id": "t", "job_extracted": "b"},
        });
        assert_eq!(entry.into_event(&labels), expected);
    }
}
