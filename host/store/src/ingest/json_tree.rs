//! The JSON of a part of an event as a tree of bounded size, for the formats that change it.

use serde_json::Value;
use tidegate_model::{EqualKeys, JsonTreeError, json_fault};

/// The most JSON values of an event: its fields, the elements of its arrays, and all values below them, the event
/// itself included.
pub const MAX_VALUES: usize = 100_000;

/// Reads the JSON text of one event.
///
/// # Errors
/// What is wrong with it, in words for the sender: not JSON, or more than [`MAX_VALUES`] values.
pub fn read_event(text: &str) -> Result<Value, String> {
    tidegate_model::json_tree(text, MAX_VALUES, EqualKeys::Last).map_err(|error| match error {
        JsonTreeError::TooManyValues => too_many_values(),
        JsonTreeError::NotJson(error) => format!("the event cannot be read: {}", json_fault(&error)),
    })
}

/// The reason for refusing an event of too many values.
pub fn too_many_values() -> String {
    format!(
        "the event has more than {MAX_VALUES} JSON values; send it as several events, or its large part as one text"
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_what_the_text_says() {
        let value = json!({"a": [1, -2, 0.5, u64::MAX, null, true], "b": {"c": "x\ny\u{1F600}"}, "": []});
        assert_eq!(read_event(&value.to_string()).unwrap(), value);
        assert_eq!(read_event(r#"{"a": 1, "a": 2}"#).unwrap(), json!({"a": 2}));
        for bad in ["", "{", "{} x", r#"{"a": 1e999}"#, r#"{"a": "\ud800"}"#] {
            assert!(read_event(bad).unwrap_err().starts_with("the event cannot be read: "), "{bad}");
        }
    }

    #[test]
    fn a_key_of_the_parser_is_an_ordinary_key() {
        let text = r#"{"$serde_json::private::RawValue":"[1"}"#;
        assert_eq!(read_event(text).unwrap(), json!({"$serde_json::private::RawValue": "[1"}));
    }

    #[test]
    fn values_are_counted() {
        let array = |elements: usize| format!("[{}]", vec!["0"; elements].join(","));
        assert!(read_event(&array(MAX_VALUES - 1)).is_ok());
        assert_eq!(read_event(&array(MAX_VALUES)), Err(too_many_values()));
        let arrays = format!("[{}]", vec!["[0]"; MAX_VALUES / 2].join(","));
        assert_eq!(read_event(&arrays), Err(too_many_values()));
    }
}
