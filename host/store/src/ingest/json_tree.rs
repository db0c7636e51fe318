//! The JSON of a part of an event as a tree of bounded size, for the formats that change it.
//!
//! A tree takes up to a hundred times the bytes of its text: `[0],` is four bytes of text, and an array with an
//! allocation in the tree. So values are counted during parsing, which ends at the first value too many. All keys are
//! ordinary keys: the tree of `serde_json` interprets one special key as a marker and parses the text behind it as
//! JSON.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use tidegate_model::json_fault;

/// The most JSON values of an event: its fields, the elements of its arrays, and all values below them, the event
/// itself included.
pub const MAX_VALUES: usize = 100_000;

/// Reads the JSON text of one event.
///
/// # Errors
/// What is wrong with it, in words for the sender: not JSON, or more than [`MAX_VALUES`] values.
pub fn read_event(text: &str) -> Result<Value, String> {
    let mut budget = ValueBudget { left: MAX_VALUES, exceeded: false };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = TreeReader(&mut budget).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(value) => Ok(value),
        Err(_) if budget.exceeded => Err(too_many_values()),
        Err(error) => Err(format!("the event cannot be read: {}", json_fault(&error))),
    }
}

/// The reason for refusing an event of too many values.
pub fn too_many_values() -> String {
    format!(
        "the event has more than {MAX_VALUES} JSON values; send it as several events, or its large part as one text"
    )
}

struct ValueBudget {
    left: usize,
    exceeded: bool,
}

struct TreeReader<'b>(&'b mut ValueBudget);

impl<'de> DeserializeSeed<'de> for TreeReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0.left.checked_sub(1) {
            Some(left) => self.0.left = left,
            None => {
                self.0.exceeded = true;
                return Err(D::Error::custom("too many values"));
            }
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = elements.next_element_seed(TreeReader(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(TreeReader(self.0))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
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
