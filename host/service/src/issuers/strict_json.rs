//! JSON that has one meaning only: no key twice, no deep nesting.
//!
//! Parsers differ in which of two equal keys they take. Where the issuer's parser takes one and ours the other, somebody
//! who can write into a claim would choose it. So such a text is refused.

use serde_json::{Map, Value};
use tidegate_model::{EqualKeys, json_tree};

/// The most levels of lists and objects.
const MOST_NESTING: u8 = 16;

/// The text is no JSON, has a key twice, or nests too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotStrict;

/// The object that a JSON text is. The caller has bounded the length of the text, and so its values.
///
/// # Errors
/// Anything else than one object without duplicate keys, of at most 16 levels.
pub(super) fn object(text: &[u8]) -> Result<Map<String, Value>, NotStrict> {
    let text = std::str::from_utf8(text).map_err(|_| NotStrict)?;
    match json_tree(text, usize::MAX, EqualKeys::Refused) {
        Ok(value) if !is_within(&value, MOST_NESTING) => Err(NotStrict),
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(NotStrict),
    }
}

/// Whether a value has at most so many levels. It was parsed, so it has no more than the parser allows.
fn is_within(value: &Value, levels: u8) -> bool {
    let within = levels.checked_sub(1);
    match value {
        Value::Array(items) => within.is_some_and(|levels| items.iter().all(|item| is_within(item, levels))),
        Value::Object(fields) => within.is_some_and(|levels| fields.values().all(|field| is_within(field, levels))),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_two_meanings_is_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":1}x"#,
            r#"{"a":1}{}"#,
            r#"{"a":1e999}"#,
            "[1]",
            "1",
            "",
            "{",
            r#"{"a":NaN}"#,
        ] {
            assert_eq!(object(text.as_bytes()), Err(NotStrict), "{text}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), Err(NotStrict));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(object(nested(16).as_bytes()).is_ok());
        assert_eq!(object(nested(17).as_bytes()), Err(NotStrict));
        assert_eq!(object(nested(100_000).as_bytes()), Err(NotStrict));
    }

    #[test]
    fn values_are_what_they_were() {
        let text = r#"{"a":[1,-2,0.5,true,null,"x"],"b":{"c":{}},"d":18446744073709551615}"#;
        let plain: Result<Map<String, Value>, _> = serde_json::from_str(text);
        assert_eq!(object(text.as_bytes()).ok(), plain.ok());
    }
}
