//! Masks IP addresses in the texts of an answer, so that an endpoint can show logs without the addresses of visitors.
//!
//! The rules for what counts as an address are in [`scan`]. Masking is idempotent.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use scan::Scan;

/// The text that replaces an address.
const MASK: &str = "REDACTED";

/// Masks every text in a JSON value, at any depth. Keys, numbers and booleans are not changed.
pub fn redact_json(value: &mut Value) {
    // An explicit stack instead of recursion, so that a deep value cannot overflow the thread's stack.
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = redact_text(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => waiting.extend(items.iter_mut()),
            Value::Object(fields) => waiting.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// The text with every IPv4 and IPv6 address replaced by `REDACTED`. A text without addresses is returned unchanged.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let mut scan = Scan { bytes: text.as_bytes(), done: 0 };
    let mut masked = String::new();
    while let Some(address) = scan.find() {
        // An address begins and ends with an ASCII character, so the cuts are at character boundaries.
        masked.push_str(text.get(scan.done..address.start).unwrap_or_default());
        masked.push_str(MASK);
        scan.done = address.end;
    }
    if scan.done == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(text.get(scan.done..).unwrap_or_default());
    Cow::Owned(masked)
}
