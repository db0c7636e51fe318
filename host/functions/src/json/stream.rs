//! Reading JSON without making a tree of it.
//!
//! A tree takes up to a hundred times the memory of its text: `[0],` is four bytes, and a list of one number takes two
//! hundred. Most functions need one scalar, or the kind of a value: they read the text with the same parser and keep
//! nothing else. Where a tree is needed, its memory is counted by reading the text once before.

use std::cell::RefCell;
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

/// The value at a path of a text: the first that is there in the order of the text, of which the rest is not read. So a
/// text that was cut off still has the values before its end. The outer `None` is a text that is not JSON as far as it was
/// read, the inner one a path without a value.
pub(super) fn at<E: End>(text: &str, steps: &[Step], end: E) -> Option<Option<E::Output>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    if steps.is_empty() {
        let whole = end.end(&mut parser).ok()?;
        parser.end().ok()?;
        return Some(Some(whole));
    }
    let found = RefCell::new(None);
    let read = At { steps, end, found: &found }.deserialize(&mut parser).and_then(|()| parser.end());
    let found = found.into_inner();
    if found.is_none() {
        read.ok()?;
    }
    Some(found)
}

/// The same for the whole of a text.
pub(super) fn whole<E: End>(text: &str, end: E) -> Option<E::Output> {
    at(text, &[], end).flatten()
}

/// Reads up to the value at a path. What is found goes to a place of its own, because reading then ends with an error.
struct At<'s, E: End> {
    steps: &'s [Step],
    end: E,
    found: &'s RefCell<Option<E::Output>>,
}

impl<'de, E: End> DeserializeSeed<'de> for At<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.steps.split_first() {
            None => {
                *self.found.borrow_mut() = Some(self.end.end(value)?);
                Err(D::Error::custom("found"))
            }
            Some((step, steps)) => value.deserialize_any(AtVisitor { step, steps, end: self.end, found: self.found }),
        }
    }
}

struct AtVisitor<'s, E: End> {
    step: &'s Step,
    steps: &'s [Step],
    end: E,
    found: &'s RefCell<Option<E::Output>>,
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
    type Value = ();

    scalars!(|_| ());

    fn visit_str<X: Error>(self, _: &str) -> Result<(), X> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let next = if matches!(self.step, Step::Index(wanted) if *wanted == index) {
                items.next_element_seed(At { steps: self.steps, end: self.end, found: self.found })?
            } else {
                items.next_element::<Skipped>()?.map(|_| ())
            };
            if next.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(here) = fields.next_key_seed(Is(self.step))? {
            if here {
                fields.next_value_seed(At { steps: self.steps, end: self.end, found: self.found })?;
            } else {
                fields.next_value::<Skipped>()?;
            }
        }
        Ok(())
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
            r#"{"a\u0062": [[], {}, -1, 18446744073709551615, 1e300]}"#.to_owned(),
            r#" [true, false, "a", {"b": 3}] "#.to_owned(),
            r#"{"a": 1e999}"#.to_owned(),
            r#"{"b": "\ud800", "a": 1}"#.to_owned(),
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
    fn the_first_value_at_a_path_is_found_and_nothing_behind_it_matters() {
        let found = |text: &str, keys: &[&str]| {
            let steps: Vec<Step> = keys.iter().map(|key| Step::Key((*key).to_owned())).collect();
            at(text, &steps, Tree).map(|found| found.map(|value| value.to_string()))
        };
        let value = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(found(r#"{"a": 1, "a": 2}"#, &["a"]), value("1"));
        assert_eq!(found(r#"{"a": null, "a": 2}"#, &["a"]), value("null"));
        assert_eq!(found(r#"{"a": 1, "a": {"b": 2}}"#, &["a", "b"]), value("2"));
        assert_eq!(found(r#"{"a": {"b": 2}, "a": {"b": 3}}"#, &["a", "b"]), value("2"));
        assert_eq!(found(r#"{"a": "x", "b"#, &["a"]), value("\"x\""));
        assert_eq!(found(r#"{"a": 1} x"#, &["a"]), value("1"));
        assert_eq!(found(r#"{"a": [1, 2"#, &["a"]), None);
        assert_eq!(found(r#"{"a": "x"#, &["a"]), None);
        assert_eq!(found(r#"{"a": 1} x"#, &["b"]), None);
        assert_eq!(found(r#"{"a": 1}"#, &["b"]), Some(None));
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
