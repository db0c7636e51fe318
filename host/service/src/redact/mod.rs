//! Masking of IP addresses in the texts of an answer, so that an endpoint can show logs without the addresses of visitors.
//!
//! The rules for what is an address are in [`scan`]. Masking a text twice gives the same as masking it once.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use scan::Scan;

/// The replacement of an address.
const MASK: &str = "REDACTED";

/// Masks every text of the value, at any depth. Keys, numbers and booleans stay.
pub fn redact_json(value: &mut Value) {
    // A stack of our own: the depth of a value must not decide over the thread's.
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

/// The text with `REDACTED` for every IPv4 and IPv6 address; the text itself if there is none.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let mut scan = Scan { bytes: text.as_bytes(), done: 0 };
    let mut masked = String::new();
    while let Some(address) = scan.find() {
        // Addresses begin and end with ASCII, so the cuts are between characters.
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
