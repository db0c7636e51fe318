//! placeholder
use serde_json::Value;
/// r
pub fn redact_text(text: &str) -> std::borrow::Cow<'_, str> { text.into() }
/// r
pub fn redact_json(_value: &mut Value) {}
