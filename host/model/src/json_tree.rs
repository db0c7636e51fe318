//! JSON text as a tree, with a bound on its values and a rule for equal keys.
//!
//! A tree takes up to a hundred times the bytes of its text: `[0],` is four bytes of text, and an array with an
//! allocation in the tree. So values are counted during parsing, which ends at the first value too many. All keys are
//! ordinary keys: the tree of `serde_json` interprets one special key as a marker and parses the text behind it as
//! JSON.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Which of the values of equal keys counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualKeys {
    /// The first one.
    First,
    /// The last one, at the place of the first.
    Last,
    /// None: the text is not read.
    Refused,
}

/// Why a text is not read as a tree.
#[derive(Debug)]
pub enum JsonTreeError {
    /// It has more values than allowed.
    TooManyValues,
    /// It is not JSON, or has equal keys where these are refused.
    NotJson(serde_json::Error),
}

/// Reads a text of at most `most` values: itself, fields, elements, and all values below them.
///
/// # Errors
/// It is not JSON, or has more values.
pub fn json_tree(text: &str, most: usize, equal_keys: EqualKeys) -> Result<Value, JsonTreeError> {
    let mut state = State { left: most, exceeded: false, equal_keys };
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = TreeReader(&mut state).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| if state.exceeded { JsonTreeError::TooManyValues } else { JsonTreeError::NotJson(error) })
}

struct State {
    /// Values that may still come.
    left: usize,
    exceeded: bool,
    equal_keys: EqualKeys,
}

struct TreeReader<'s>(&'s mut State);

impl<'de> DeserializeSeed<'de> for TreeReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.left = self.0.left.checked_sub(1).ok_or_else(|| {
            self.0.exceeded = true;
            D::Error::custom("too many values")
        })?;
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
            match self.0.equal_keys {
                EqualKeys::First if map.contains_key(&key) => {}
                EqualKeys::Refused if map.contains_key(&key) => {
                    return Err(A::Error::custom("a key stands there twice"));
                }
                _ => drop(map.insert(key, value)),
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn of_equal_keys_the_first_or_the_last_counts_at_any_depth() {
        for (text, first, last) in [
            (r#"{"a": 1, "b": 0, "a": 2}"#, r#"{"a":1,"b":0}"#, r#"{"a":2,"b":0}"#),
            (
                r#"[{"b": {"a": [1], "\u0061": 2, "c": null}}]"#,
                r#"[{"b":{"a":[1],"c":null}}]"#,
                r#"[{"b":{"a":2,"c":null}}]"#,
            ),
            ("\"x\"", "\"x\"", "\"x\""),
        ] {
            for (rule, expected) in [(EqualKeys::First, first), (EqualKeys::Last, last)] {
                assert_eq!(json_tree(text, 10, rule).unwrap().to_string(), expected);
            }
        }
        for text in ["", "{\"a\": 1} x", "{\"a\": 1, \"a\": soon}", "1e999", &"[".repeat(200)] {
            assert!(matches!(json_tree(text, 200, EqualKeys::First), Err(JsonTreeError::NotJson(_))), "{text}");
        }
        assert!(matches!(json_tree("[1, 2]", 2, EqualKeys::First), Err(JsonTreeError::TooManyValues)));
    }
}
