//! JSON that has one meaning only: no key twice, no deep nesting.
//!
//! Parsers differ in which of two equal keys they take. Where the issuer's parser takes one and ours the other, somebody
//! who can write into a claim would choose it. So such a text is refused.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most levels of lists and objects.
const MOST_NESTING: u8 = 16;

/// The text is no JSON, has a key twice, or nests too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotStrict;

/// The object that a JSON text is.
///
/// # Errors
/// Anything else than one object without duplicate keys, of at most 16 levels.
pub(super) fn object(text: &[u8]) -> Result<Map<String, Value>, NotStrict> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict { levels: MOST_NESTING }.deserialize(&mut deserializer).map_err(|_| NotStrict)?;
    deserializer.end().map_err(|_| NotStrict)?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(NotStrict),
    }
}

/// Reads a value that may have so many levels.
#[derive(Clone, Copy)]
struct Strict {
    levels: u8,
}

impl Strict {
    /// What reads the values within this one.
    fn within<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| E::custom("it nests too deeply"))?;
        Ok(Self { levels })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
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
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("it is no number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let (within, mut list) = (self.within()?, Vec::new());
        while let Some(item) = items.next_element_seed(within)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let (within, mut object) = (self.within()?, Map::new());
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(within)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands there twice"));
            }
        }
        Ok(Value::Object(object))
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
