//! Reading JSON without making a tree of it.
//!
//! A tree takes up to a hundred times the memory of its text: `[0],` is four bytes, and a list of one number takes two
//! hundred. Most functions need one scalar, or the kind of a value: they read the text with the same parser and keep
//! nothing else. Where a tree is needed, its memory is counted by reading the text once before.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::path::Step;

/// Bytes of a tree: of a value, of a list and an object without their values, of a key without its text, of the text of
/// a string. The spare capacity of lists and tables is included.
const VALUE: usize = 2 * size_of::<Value>();
const LIST: usize = 160;
const OBJECT: usize = 256;
const KEY: usize = 160;
const TEXT: usize = 32;

/// A form in which a value is read.
pub(super) trait End: Copy {
    type Output;
    fn end<'de, D: Deserializer<'de>>(self, value: D) -> Result<Self::Output, D::Error>;
}

/// The whole value.
#[derive(Clone, Copy)]
pub(super) struct Tree;

impl End for Tree {
    type Output = Value;
    fn end<'de, D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        Value::deserialize(value)
    }
}

/// A scalar; lists and objects are empty.
#[derive(Clone, Copy)]
pub(super) struct Shallow;

impl End for Shallow {
    type Output = Value;
    fn end<'de, D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(ShallowVisitor)
    }
}

/// The bytes that its tree would take.
#[derive(Clone, Copy)]
pub(super) struct Size;

impl End for Size {
    type Output = usize;
    fn end<'de, D: Deserializer<'de>>(self, value: D) -> Result<usize, D::Error> {
        value.deserialize_any(SizeVisitor)
    }
}

/// The text of a scalar, as it is written.
#[derive(Clone, Copy)]
pub(super) struct Written;

impl End for Written {
    type Output = String;
    fn end<'de, D: Deserializer<'de>>(self, value: D) -> Result<String, D::Error> {
        <&RawValue>::deserialize(value).map(|raw| raw.get().trim().to_owned())
    }
}

/// The value at a path of a text. The outer `None` is a text that is not JSON, the inner one a path without a value.
pub(super) fn at<E: End>(text: &str, steps: &[Step], end: E) -> Option<Option<E::Output>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = At { steps, end }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some(found)
}

/// The same for the whole of a text.
pub(super) fn whole<E: End>(text: &str, end: E) -> Option<E::Output> {
    at(text, &[], end).flatten()
}

struct At<'s, E> {
    steps: &'s [Step],
    end: E,
}

impl<'de, E: End> DeserializeSeed<'de> for At<'_, E> {
    type Value = Option<E::Output>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        match self.steps.split_first() {
            None => self.end.end(value).map(Some),
            Some((step, steps)) => value.deserialize_any(AtVisitor { step, steps, end: self.end }),
        }
    }
}

struct AtVisitor<'s, E> {
    step: &'s Step,
    steps: &'s [Step],
    end: E,
}

/// A visitor of scalars: each is handed to `made`.
macro_rules! scalars {
    ($made:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON value")
        }
        fn visit_bool<X: Error>(self, value: bool) -> Result<Self::Value, X> {
            Ok($made(Value::from(value)))
        }
        fn visit_i64<X: Error>(self, value: i64) -> Result<Self::Value, X> {
            Ok($made(Value::from(value)))
        }
        fn visit_u64<X: Error>(self, value: u64) -> Result<Self::Value, X> {
            Ok($made(Value::from(value)))
        }
        fn visit_f64<X: Error>(self, value: f64) -> Result<Self::Value, X> {
            Ok($made(Value::from(value)))
        }
        fn visit_unit<X: Error>(self) -> Result<Self::Value, X> {
            Ok($made(Value::Null))
        }
    };
}

impl<'de, E: End> Visitor<'de> for AtVisitor<'_, E> {
    type Value = Option<E::Output>;

    scalars!(|_| None);

    fn visit_str<X: Error>(self, _: &str) -> Result<Self::Value, X> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut index) = (None, 0);
        loop {
            if matches!(self.step, Step::Index(wanted) if *wanted == index) {
                match items.next_element_seed(At { steps: self.steps, end: self.end })? {
                    Some(made) => found = made,
                    None => return Ok(found),
                }
            } else if items.next_element::<Skipped>()?.is_none() {
                return Ok(found);
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(here) = fields.next_key_seed(Is(self.step))? {
            // Of equal keys the last one is used.
            if here {
                found = fields.next_value_seed(At { steps: self.steps, end: self.end })?;
            } else {
                fields.next_value::<Skipped>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a key is that of a step.
struct Is<'s>(&'s Step);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<bool, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<X: Error>(self, key: &str) -> Result<bool, X> {
        Ok(matches!(self.0, Step::Key(wanted) if wanted == key))
    }
}

/// The length of a key.
struct Length;

impl<'de> DeserializeSeed<'de> for Length {
    type Value = usize;
    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<usize, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Length {
    type Value = usize;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<X: Error>(self, key: &str) -> Result<usize, X> {
        Ok(key.len())
    }
}

/// Skips a value, but checks it as strictly as one that is kept.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(SizeVisitor).map(|_| Self)
    }
}

struct Sized(usize);

impl<'de> Deserialize<'de> for Sized {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(SizeVisitor).map(Self)
    }
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = usize;

    scalars!(|_| VALUE);

    fn visit_str<X: Error>(self, text: &str) -> Result<usize, X> {
        Ok(VALUE + TEXT + text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut size = VALUE + LIST;
        while let Some(Sized(item)) = items.next_element()? {
            size = size.saturating_add(item);
        }
        Ok(size)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let mut size = VALUE + OBJECT;
        while let Some(key) = fields.next_key_seed(Length)? {
            let Sized(value) = fields.next_value()?;
            size = size.saturating_add(KEY + key + value);
        }
        Ok(size)
    }
}

struct ShallowVisitor;

impl<'de> Visitor<'de> for ShallowVisitor {
    type Value = Value;

    scalars!(|value| value);

    fn visit_str<X: Error>(self, text: &str) -> Result<Value, X> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<Skipped>()?.is_some() {}
        Ok(Value::Array(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value::<Skipped>()?;
        }
        Ok(Value::Object(Map::new()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// The result by way of a tree, which that of the stream must equal.
    fn of_tree(text: &str, steps: &[Step]) -> Option<Option<Value>> {
        let mut value = serde_json::from_str::<Value>(text).ok()?;
        for step in steps {
            let next = match step {
                Step::Key(key) => value.get_mut(key.as_str()),
                Step::Index(index) => value.get_mut(*index),
            };
            let Some(next) = next else { return Some(None) };
            value = next.take();
        }
        Some(Some(value))
    }

    #[test]
    fn a_stream_finds_what_the_tree_has() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let texts = [
            r#"{"a": {"b": [1, {"c": "x\u00e9\n"}, null]}, "d": 1.50}"#.to_owned(),
            r#"{"a": 1, "a": {"b": 2}}"#.to_owned(),
            r#"{"a": {"b": 2}, "a": 1}"#.to_owned(),
            r#"{"a\u0062": [[], {}, -1, 18446744073709551615, 1e300]}"#.to_owned(),
            r#" [true, false, "a", {"b": 3}] "#.to_owned(),
            r#"{"a": 1e999}"#.to_owned(),
            r#"{"b": "\ud800", "a": 1}"#.to_owned(),
            r#"{"a": 1} x"#.to_owned(),
            r#"{"a": [1, 2"#.to_owned(),
            r#"{"\ud800": 1, "a": 2}"#.to_owned(),
            "1.10".to_owned(),
            "nothing".to_owned(),
            deep(127),
            deep(128),
        ];
        let key = |text: &str| Step::Key(text.to_owned());
        let paths = [
            vec![],
            vec![key("a")],
            vec![key("a"), key("b")],
            vec![key("a"), key("b"), Step::Index(1), key("c")],
            vec![key("ab"), Step::Index(3)],
            vec![Step::Index(0)],
            vec![Step::Index(3), key("b")],
            vec![key("d")],
        ];
        for text in &texts {
            for steps in &paths {
                let tree = of_tree(text, steps);
                assert_eq!(at(text, steps, Tree), tree, "{text} {steps:?}");
                let shallow = tree.clone().map(|found| {
                    found.map(|value| match value {
                        Value::Array(_) => Value::Array(Vec::new()),
                        Value::Object(_) => Value::Object(Map::new()),
                        scalar => scalar,
                    })
                });
                assert_eq!(at(text, steps, Shallow), shallow, "{text} {steps:?}");
                assert_eq!(at(text, steps, Size).map(|found| found.is_some()), tree.map(|found| found.is_some()));
            }
        }
        assert_eq!(at(&texts[0], &[key("d")], Written), Some(Some("1.50".to_owned())));
    }

    #[test]
    fn what_a_tree_takes_is_counted_before_it_is_made() {
        let lists = format!("[{}0]", "[0],".repeat(1_000));
        assert!(whole(&lists, Size).unwrap() > 40 * lists.len());
        let text = format!("\"{}\"", "x".repeat(10_000));
        assert!(whole(&text, Size).unwrap() < 2 * text.len());
        assert!(whole("[1", Size).is_none());
    }
}
