//! Logs as JSON, in every form that shippers send: one event, an array, `{"batch": [...]}`, one
//! event a line, or one behind the other.
//!
//! A body is cut into its events before any of them is read, so an event that is too long, too
//! deep or not readable costs only itself. A body may hold several of these forms; where it breaks
//! off in the middle, it is read by line, and only the lines that are broken are refused.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tidegate_model::{Code, Failure};
use tidegate_store::too_long;

use super::batch::Batch;

/// The keys of an object that say more than an event does, as they stand in its text.
const ENVELOPE_KEYS: [&str; 5] =
    ["\"batch\"", "\"source_name\"", "\"collection_name\"", "\"source\"", "\"collection\""];

/// What a body holds.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) batch: Batch,
    /// The source that the body names.
    pub(super) source: Option<String>,
}

/// Reads a body. `by_line` says that its sender declared one event a line, `max_event` how many
/// bytes an event may have.
///
/// # Errors
/// [`Code::InvalidBody`] for what is no JSON, [`Code::TooLarge`] for too many events.
pub(super) fn parse(body: &[u8], by_line: bool, max_event: usize) -> Result<Parsed, Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(bad("the body is empty; send an event as a JSON object, or an array of them".to_owned()));
    }
    let error = match read(body, max_event) {
        Ok(reader) => return reader.parsed(),
        Err(error) => error,
    };
    let lines = || body.split(|byte| *byte == b'\n');
    let first = lines().find(|line| !line.iter().all(u8::is_ascii_whitespace)).unwrap_or_default();
    if !by_line && (first.len() == body.len() || read(first, max_event).is_err()) {
        return Err(bad(format!("the body is not valid JSON: {error}; nothing of it was stored")));
    }
    let mut reader = Reader::new(max_event);
    for (i, line) in lines().enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        // Tried first, because a line that breaks off in the middle is refused whole.
        match read(line, max_event) {
            Ok(read) => reader.join(read),
            Err(error) => reader.batch.refuse(format!("line {} is not valid JSON: {error}", i + 1)),
        }
        if reader.batch.is_full() {
            break;
        }
    }
    reader.parsed()
}

/// Reads JSON values that stand behind each other.
fn read(text: &[u8], max_event: usize) -> Result<Reader, serde_json::Error> {
    let text = std::str::from_utf8(text).map_err(serde_json::Error::custom)?;
    let mut reader = Reader::new(max_event);
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        reader.document(value?.get());
        if reader.batch.is_full() {
            break;
        }
    }
    Ok(reader)
}

/// Collects the events of a body.
struct Reader {
    batch: Batch,
    source: Option<String>,
    max_event: usize,
}

impl Reader {
    fn new(max_event: usize) -> Self {
        Self { batch: Batch::default(), source: None, max_event }
    }

    fn join(&mut self, other: Self) {
        self.batch.append(other.batch);
        self.source = self.source.take().or(other.source);
    }

    fn parsed(self) -> Result<Parsed, Failure> {
        Ok(Parsed { batch: self.batch.checked()?, source: self.source })
    }

    /// A value at the top of the body: events in one of their forms.
    fn document(&mut self, text: &str) {
        if text.starts_with('[') {
            self.elements(text);
            return;
        }
        if text.starts_with('{')
            && let Some(envelope) = Envelope::of(text)
        {
            self.source = self.source.take().or_else(|| envelope.source());
            if let Some(batch) = envelope.batch.filter(|batch| batch.get().starts_with('[')) {
                self.elements(batch.get());
                return;
            }
        }
        self.event(text);
    }

    fn elements(&mut self, text: &str) {
        // The array is known to be well-formed; it only ends early when there are too many.
        let _ = Elements(self).deserialize(&mut serde_json::Deserializer::from_str(text));
    }

    fn event(&mut self, text: &str) {
        if text.len() > self.max_event {
            self.batch.refuse(too_long(text.len(), self.max_event));
            return;
        }
        match serde_json::from_str(text) {
            Ok(event) => self.batch.take(event),
            Err(error) => self.batch.refuse(format!("the event cannot be read: {error}")),
        }
    }
}

/// The elements of an array, read one after the other.
struct Elements<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&RawValue>()? {
            self.0.event(element.get());
            if self.0.batch.is_full() {
                return Err(A::Error::custom("too many"));
            }
        }
        Ok(())
    }
}

/// What an object may be besides an event.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Envelope<'a> {
    #[serde(borrow)]
    batch: Option<&'a RawValue>,
    #[serde(borrow)]
    source_name: Option<&'a RawValue>,
    #[serde(borrow)]
    collection_name: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    collection: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    /// Nothing if none of the keys can be there: most events are read once only.
    fn of(text: &'a str) -> Option<Self> {
        if !ENVELOPE_KEYS.iter().any(|key| text.contains(key)) {
            return None;
        }
        Self::deserialize(&mut serde_json::Deserializer::from_str(text)).ok()
    }

    fn source(&self) -> Option<String> {
        [self.source_name, self.collection_name, self.source, self.collection]
            .into_iter()
            .flatten()
            .find_map(|value| serde_json::from_str::<String>(value.get()).ok())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn good(body: &str) -> usize {
        let batch = parse(body.as_bytes(), false, 1000).unwrap().batch;
        assert_eq!(batch.refused(), [], "{body}");
        batch.events().len()
    }

    #[test]
    fn every_form_of_body_is_taken() {
        for (body, events) in [
            (r#"{"a": 1}"#, 1),
            (r#"[{"a": 1}, {"a": 2}]"#, 2),
            (r#"{"batch": [{"a": 1}, {"a": 2}]}"#, 2),
            (r#"{"batch": "x"}"#, 1),
            (r#"{"batch": null}"#, 1),
            ("[]", 0),
            (r#"{"batch": []}"#, 0),
            ("{\"a\": 1}\n{\"a\": 2}\n\n", 2),
            ("{\"a\": 1}\r\n{\"a\": 2}\r\n", 2),
            (r#"{"a": 1}{"a": 2} {"a": 3}"#, 3),
            ("[{\"a\": 1}]\n[{\"a\": 2}]\n", 2),
            ("[\n  {\n    \"a\": 1\n  }\n]\n", 1),
        ] {
            assert_eq!(good(body), events, "{body}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_whole() {
        for body in ["", " \n ", "{", "[{\"a\": 1},\n{\"a\": ]", "{\"a\": 1", "name=value", "[{\"a\": 1}, x]"] {
            assert_eq!(parse(body.as_bytes(), false, 1000).unwrap_err().code, Code::InvalidBody, "{body}");
        }
        assert_eq!(parse(b"{\"a\": \"\xff\"}", false, 1000).unwrap_err().code, Code::InvalidBody);
    }

    #[test]
    fn a_bad_event_costs_only_itself() {
        let long = json!({"a": "x".repeat(1000)});
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        let body = format!(r#"[{{"a": 1}}, {long}, {{"a": {deep}}}, {{"a": "\ud800"}}, {{"a": 1e999}}, {{"a": 2}}]"#);
        let batch = parse(body.as_bytes(), false, 1000).unwrap().batch;
        assert_eq!(batch.events(), [json!({"a": 1}), json!({"a": 2})]);
        let refused: Vec<usize> = batch.refused().iter().map(|refused| refused.index).collect();
        assert_eq!(refused, [1, 2, 3, 4]);
        assert_eq!(batch.position(1), Some(5));
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        for (body, by_line) in
            [("{\"a\": 1}\n{\"a\": \n\n{\"a\": 2}", false), ("{\"a\": \n{\"a\": 1}\n\n{\"a\": 2}", true)]
        {
            let batch = parse(body.as_bytes(), by_line, 1000).unwrap().batch;
            assert_eq!(batch.events(), [json!({"a": 1}), json!({"a": 2})]);
            let line = if by_line { "line 1 " } else { "line 2 " };
            assert!(batch.refused()[0].reason.starts_with(line), "{:?}", batch.refused());
        }
        let batch = parse(b"{\"a\": 1}\n{\"a\": \"\xff\"}\n", true, 1000).unwrap().batch;
        assert_eq!((batch.events().len(), batch.refused().len()), (1, 1));
    }

    #[test]
    fn a_body_may_name_its_source() {
        let source = |body: &str| parse(body.as_bytes(), false, 1000).unwrap().source;
        assert_eq!(source(r#"{"batch": [], "source": "b", "source_name": "a"}"#).as_deref(), Some("a"));
        assert_eq!(source(r#"{"source": "b", "x": 1}"#).as_deref(), Some("b"));
        assert_eq!(source(r#"{"source": {"x": 1}}"#), None);
        assert_eq!(source(r#"{"a": {"source": "b"}}"#), None);
    }

    #[test]
    fn too_many_events_are_refused() {
        let body = format!("[{}]", vec!["{}"; super::super::batch::MAX_EVENTS + 1].join(","));
        assert_eq!(parse(body.as_bytes(), false, 1000).unwrap_err().code, Code::TooLarge);
    }
}
