//! JSON text to a tape, by `serde_json`'s parser.
//!
//! A tape takes up to twenty times the bytes of its text, so values are counted during parsing, which ends at the first
//! one too many. All keys are ordinary keys: the tree of `serde_json` interprets one special key as a marker and parses
//! the text behind it as JSON.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tidegate_model::json_fault;

use crate::{
    error::{Result, StoreError},
    ingest::{
        json_tree::{MAX_VALUES, too_many_values},
        tape::Tape,
    },
};

/// About as many nodes as events have. A tape of more grows.
const NODES: usize = 128;

/// Reads the JSON text of one event.
///
/// # Errors
/// What is wrong with it, in words for the sender: not JSON, or more than [`MAX_VALUES`] values.
pub(crate) fn read_tape(text: &str) -> Result<Tape<'_>, String> {
    let mut tape = Tape::with_capacity(NODES);
    let mut left = MAX_VALUES;
    let mut exceeded = false;
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = ValueReader { tape: &mut tape, left: &mut left, exceeded: &mut exceeded };
    match seed.deserialize(&mut reader).and_then(|()| reader.end()) {
        Ok(()) => Ok(tape),
        Err(_) if exceeded => Err(too_many_values()),
        Err(error) => Err(format!("the event cannot be read: {}", json_fault(&error))),
    }
}

/// Reads the JSON value at the beginning of a text. Returns it and its length; none where there is no valid value, or
/// one of more than [`MAX_VALUES`] values.
pub(crate) fn read_leading(text: &str) -> Option<(Tape<'_>, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Whole<'_, MAX_VALUES>>();
    let Whole(tape) = values.next()?.ok()?;
    Some((tape, values.byte_offset()))
}

/// Iterates over the events in the body of a write-ahead row, parsing one at a time.
#[derive(Debug)]
pub(crate) struct StoredEvents<'b> {
    rest: &'b str,
    /// The body is no text.
    damage: Option<std::str::Utf8Error>,
    seq: i64,
}

/// The events in `body`, a JSON array of objects. `seq` is for the error.
pub(crate) fn stored_events(body: &[u8], seq: i64) -> StoredEvents<'_> {
    match std::str::from_utf8(body) {
        Ok(rest) => StoredEvents { rest, damage: None, seq },
        Err(error) => StoredEvents { rest: "", damage: Some(error), seq },
    }
}

impl<'b> Iterator for StoredEvents<'b> {
    type Item = Result<Tape<'b>>;

    fn next(&mut self) -> Option<Result<Tape<'b>>> {
        if let Some(error) = self.damage.take() {
            return self.fail(error);
        }
        // Each event follows a `[` or `,`; `]` is the end.
        let rest = match self.rest {
            "" | "]" => return None,
            "[]" => {
                self.rest = "";
                return None;
            }
            rest => match rest.strip_prefix(['[', ',']) {
                Some(rest) => rest,
                None => return self.fail("there is something between two events"),
            },
        };
        // What the store has written has no bound on its values.
        let mut events = serde_json::Deserializer::from_str(rest).into_iter::<Whole<'b, { usize::MAX }>>();
        match events.next() {
            Some(Ok(Whole(event))) => {
                self.rest = rest.get(events.byte_offset()..).unwrap_or_default();
                if self.rest.is_empty() {
                    return self.fail("it ends too early");
                }
                Some(Ok(event))
            }
            Some(Err(error)) => self.fail(error),
            None => self.fail("it ends too early"),
        }
    }
}

impl<'b> StoredEvents<'b> {
    fn fail(&mut self, reason: impl ToString) -> Option<Result<Tape<'b>>> {
        self.rest = "";
        Some(Err(StoreError::corrupt(format!("write-ahead row {}", self.seq), reason)))
    }
}

/// A value of at most so many values.
struct Whole<'t, const MOST: usize>(Tape<'t>);

impl<'de, const MOST: usize> Deserialize<'de> for Whole<'de, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tape = Tape::with_capacity(NODES);
        let (mut left, mut exceeded) = (MOST, false);
        ValueReader { tape: &mut tape, left: &mut left, exceeded: &mut exceeded }.deserialize(deserializer)?;
        Ok(Whole(tape))
    }
}

/// Appends one value to a tape.
struct ValueReader<'r, 't> {
    tape: &'r mut Tape<'t>,
    /// Values that may still come.
    left: &'r mut usize,
    exceeded: &'r mut bool,
}

impl<'t> ValueReader<'_, 't> {
    /// The same for the next value.
    fn again(&mut self) -> ValueReader<'_, 't> {
        ValueReader { tape: self.tape, left: self.left, exceeded: self.exceeded }
    }
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.left.checked_sub(1) {
            Some(left) => *self.left = left,
            None => {
                *self.exceeded = true;
                return Err(D::Error::custom("too many values"));
            }
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.tape.push_null();
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.tape.push_bool(value);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.tape.push_int(value);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.tape.push_unsigned(value);
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("a number is not finite"));
        }
        self.tape.push_float(value);
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<(), E> {
        // The parser lends what has no escape.
        self.tape.push_plain(value);
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.tape.push_unescaped(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let at = self.tape.open();
        let mut count = 0;
        while elements.next_element_seed(self.again())?.is_some() {
            count += 1;
        }
        self.tape.close_array(at, count);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let at = self.tape.open();
        let mut count = 0;
        while entries.next_key_seed(KeyReader(self.tape))?.is_some() {
            entries.next_value_seed(self.again())?;
            count += 1;
        }
        self.tape.close_object(at, count);
        Ok(())
    }
}

/// Appends a key to a tape.
struct KeyReader<'r, 't>(&'r mut Tape<'t>);

impl<'de> DeserializeSeed<'de> for KeyReader<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<(), E> {
        self.0.push_plain_key(key);
        Ok(())
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        self.0.push_unescaped_key(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::ingest::json_tree::read_event;

    fn read(text: &str) -> Result<Value, String> {
        read_tape(text).map(|tape| tape.root().to_value())
    }

    #[test]
    fn a_tape_is_what_the_text_says() {
        let value = json!({"a": [1, -2, 0.5, u64::MAX, null, true], "b": {"c": "x\ny\u{1F600}"}, "": [], "\n": {}});
        assert_eq!(read(&value.to_string()).unwrap(), value);
        for bad in ["", "{", "{} x", r#"{"a": 1e999}"#, r#"{"a": "\ud800"}"#] {
            assert!(read(bad).unwrap_err().starts_with("the event cannot be read: "), "{bad}");
        }
        assert_eq!(
            read_leading(r#"{"a": 1}, 2"#).map(|(tape, end)| (tape.root().to_value(), end)),
            Some((json!({"a": 1}), 8))
        );
        assert!(read_leading(r#"{"a": 1"#).is_none());
    }

    #[test]
    fn of_repeated_keys_the_last_value_counts() {
        let many: String = (0..100).map(|key| format!(r#","k{}":{{"x":[{key}]}}"#, key % 60)).collect();
        for text in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": {"x": [1, {"y": 2}]}, "b": [3, {"c": 4}], "a": [{"z": {}}, {"d": [5]}], "e": {"f": 6}}"#,
            r#"{"a": [{"b": 1, "c": {"d": 2, "d": {"e": [3]}}, "b": [4]}], "a\n": 1, "a\u000a": 2}"#,
            &format!(r#"{{"k0":1{many}}}"#),
        ] {
            assert_eq!(read(text), read_event(text), "{text}");
        }
    }

    #[test]
    fn a_key_of_the_parser_is_an_ordinary_key() {
        let text = r#"{"$serde_json::private::RawValue":"[1"}"#;
        assert_eq!(read(text).unwrap(), json!({"$serde_json::private::RawValue": "[1"}));
    }

    #[test]
    fn values_are_counted() {
        let array = |elements: usize| format!("[{}]", vec!["0"; elements].join(","));
        assert!(read(&array(MAX_VALUES - 1)).is_ok());
        assert_eq!(read(&array(MAX_VALUES)), Err(too_many_values()));
        let arrays = format!("[{}]", vec!["[0]"; MAX_VALUES / 2].join(","));
        assert_eq!(read(&arrays), Err(too_many_values()));
        assert!(read_leading(&arrays).is_none());
    }

    #[test]
    fn stored_events_are_read_one_by_one() {
        let read = |body: &[u8]| {
            stored_events(body, 7).map(|event| event.map(|tape| tape.root().to_value())).collect::<Result<Vec<_>>>()
        };
        assert_eq!(read(b"[]").unwrap(), [] as [Value; 0]);
        assert_eq!(read(br#"[{"a":1}]"#).unwrap(), [json!({"a": 1})]);
        assert_eq!(read(br#"[{"a":"],["},{"b":[{}]},{}]"#).unwrap().len(), 3);
        for bad in [
            &b"["[..],
            b"[{}",
            b"[{}{}]",
            b"[{},",
            b"[{},]",
            b"{}",
            b"[{\"a\":]",
            b"[{}]x",
            b"x",
            b"[{\"a\":\"\xff\"}]",
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.starts_with("write-ahead row 7 is corrupt: "), "{bad:?}: {error}");
        }
    }

    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|flag| flag.to_string()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
            "[a-z\\n\"\\\\é]{0,4}".prop_map(|text| Value::from(text).to_string()),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let key = "[a-c\\n]{0,2}".prop_map(|key| Value::from(key).to_string());
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" ,"))),
                prop::collection::vec((key, inner), 0..6).prop_map(|entries| {
                    let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key} :{value}")).collect();
                    format!("{{{}}}", entries.join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tape_is_the_tree(text in any_json()) {
            let tree = read_event(&text);
            let text_of = |read: &Result<Value, String>| read.as_ref().map(Value::to_string).map_err(String::clone);
            prop_assert_eq!(text_of(&read(&text)), text_of(&tree));
            if let Ok(tree) = tree {
                prop_assert_eq!(Tape::of_value(&tree).root().to_value().to_string(), tree.to_string());
            }
        }
    }
}
