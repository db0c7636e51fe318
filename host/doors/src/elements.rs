//! Reads the frame of a body in JSON: the elements of an array, without keeping them in memory, and the fields of an object.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

/// Calls `work` with the text of each element of an array until it returns false.
///
/// # Errors
/// The parse error, if the text is not a valid array. A text that was parsed successfully before has none.
pub(crate) fn each_element<'t>(text: &'t str, mut work: impl FnMut(&'t str) -> bool) -> Result<(), serde_json::Error> {
    let mut stopped = false;
    let read = Elements(|element: &'t str| {
        stopped = !work(element);
        !stopped
    })
    .deserialize(&mut serde_json::Deserializer::from_str(text));
    if stopped { Ok(()) } else { read }
}

/// An object as a struct. Of its own, serde takes an array for a struct, too: its elements for the fields, in their order.
///
/// # Errors
/// The parse error.
pub(crate) fn object<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, serde_json::Error> {
    if text.trim_start().starts_with('[') {
        return Err(serde_json::Error::invalid_type(Unexpected::Seq, &"an object"));
    }
    serde_json::from_str(text)
}

struct Elements<F>(F);

impl<'de, F: FnMut(&'de str) -> bool> DeserializeSeed<'de> for Elements<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de str) -> bool> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            if !(self.0)(element.get()) {
                return Err(A::Error::custom("no more is read"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_until_the_end_or_until_enough() {
        let read = |text: &str, most: usize| {
            let mut seen = Vec::new();
            each_element(text, |element| {
                seen.push(element.to_owned());
                seen.len() < most
            })
            .map(|()| seen)
        };
        assert_eq!(read(r#"[1, {"a": [2]} ,"x"]"#, 9).unwrap(), ["1", r#"{"a": [2]}"#, r#""x""#]);
        assert_eq!(read("[1, 2, x]", 2).unwrap(), ["1", "2"]);
        assert!(read("[1, 2, x]", 9).is_err());
        assert!(read("{}", 9).is_err());
    }
}
