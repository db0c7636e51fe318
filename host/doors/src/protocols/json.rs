//! Parses logs as JSON, in every form that log shippers send: one event, an array, `{"batch": [...]}`, one event per
//! line, or events one after the other.
//!
//! An object is an event as it is, or a document of which a protocol makes one.
//!
//! A body is split into its events before any of them is parsed, so an event that is too long, nested too deeply or not
//! readable is refused alone. Events in which nothing is wrong are parsed at once instead, which gives the same and
//! halves the work. A body may contain several of these forms. If it is not valid JSON as a whole, but its
//! first line is or its content type declares one event per line, it is read line by line, and only the invalid lines
//! are refused.

use serde::de::Deserialize;
use serde_json::value::RawValue;
use tidegate_model::{Code, Failure, json_fault};

use super::documents::{Documents, document};
use crate::batch::Batch;
use crate::elements::each_element;
use crate::events::Events;
use crate::text::Text;

/// The keys of an envelope (an object that contains events or names their source), as they are written in JSON text.
const ENVELOPE_KEYS: [&str; 5] =
    ["\"batch\"", "\"source_name\"", "\"collection_name\"", "\"source\"", "\"collection\""];
/// The same without quotes.
const ENVELOPE_FIELDS: [&str; 5] = ["batch", "source_name", "collection_name", "source", "collection"];

/// Reads a body into the events of a request, and the source that it names. `by_line` says that the content type of the request
/// declares one event per line.
///
/// # Errors
/// [`Code::InvalidBody`] for a body that is not JSON.
pub(super) fn parse(body: &[u8], by_line: bool, events: &mut Events) -> Result<(), Failure> {
    read(body, by_line, None, events)
}

impl Documents<'_> {
    /// Reads a body into the events of a request, and the source that an envelope names.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] for a body that is not JSON.
    pub(super) fn read(&self, body: &[u8], events: &mut Events) -> Result<(), Failure> {
        read(body, self.by_line, Some(self), events)
    }
}

fn read(body: &[u8], by_line: bool, made: Option<&Documents<'_>>, events: &mut Events) -> Result<(), Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    if body.iter().all(u8::is_ascii_whitespace) {
        let what = if made.is_none() { "an event as a JSON object, or an array of them" } else { "events as JSON" };
        return Err(bad(format!("the body is empty; send {what}")));
    }
    let text = Text::json(body);
    events.own.hold_more(text.held());
    let start = events.own.mark();
    let mut reader = Reader { batch: &mut events.own, source: &mut events.source, made, text: &text };
    let Err(error) = reader.read(text.as_str()) else { return Ok(()) };
    let lines = || text.as_str().split('\n');
    let first = lines().find(|line| !is_blank(line)).unwrap_or_default();
    if !by_line && (first.len() == body.len() || reader.read(first).is_err()) {
        return Err(bad(format!("the body is not valid JSON: {}; nothing of it was stored", json_fault(&error))));
    }
    reader.batch.take_back(start);
    *reader.source = None;
    for (i, line) in lines().enumerate().filter(|(_, line)| !is_blank(line)) {
        // None of the events of an invalid line is taken.
        if let Err(error) = reader.read(line) {
            reader.batch.refuse(format!("line {} is not valid JSON: {}", i + 1, json_fault(&error)));
        }
        if reader.batch.has_failed() {
            break;
        }
    }
    Ok(())
}

/// The text from its first character on that is not blank in JSON.
fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}

fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| byte.is_ascii_whitespace())
}

/// Collects the events of a body.
struct Reader<'t> {
    batch: &'t mut Batch,
    source: &'t mut Option<String>,
    /// How events are made of documents; of events as they are, nothing is.
    made: Option<&'t Documents<'t>>,
    text: &'t Text<'t>,
}

impl Reader<'_> {
    /// Reads JSON values that follow each other. After an error, none of their events remains in the batch.
    fn read(&mut self, text: &str) -> Result<(), serde_json::Error> {
        let (mark, source) = (self.batch.mark(), self.source.clone());
        if self.read_plain(text) {
            return Ok(());
        }
        self.batch.take_back(mark);
        for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
            match value {
                Ok(value) => self.document(value.get()),
                Err(error) => {
                    self.batch.take_back(mark);
                    *self.source = source;
                    return Err(error);
                }
            }
            if self.batch.has_failed() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the text is that of events as they are.
    fn is_plain(&self) -> bool {
        self.text.is_valid() && self.made.is_none()
    }

    /// Reads events that follow each other, or stand in arrays, and in which nothing is wrong. Returns false at the
    /// first one that needs a closer look; those before it are in the batch then.
    fn read_plain(&mut self, text: &str) -> bool {
        if !self.is_plain() {
            return false;
        }
        let mut rest = skip_blanks(text);
        while !rest.is_empty() && !self.batch.has_failed() {
            let read = match rest.strip_prefix('[') {
                Some(elements) => self.plain_elements(elements),
                None => self.plain_event(rest, &ENVELOPE_FIELDS),
            };
            match read {
                Some(after) => rest = skip_blanks(after),
                None => return false,
            }
        }
        true
    }

    /// Reads the elements of an array up to its end. Returns what follows it.
    fn plain_elements<'e>(&mut self, text: &'e str) -> Option<&'e str> {
        let mut rest = skip_blanks(text);
        if let Some(after) = rest.strip_prefix(']') {
            return Some(after);
        }
        loop {
            // An element is never an envelope.
            rest = skip_blanks(self.plain_event(rest, &[])?);
            if let Some(after) = rest.strip_prefix(']') {
                return Some(after);
            }
            if self.batch.has_failed() {
                return Some("");
            }
            rest = skip_blanks(rest.strip_prefix(',')?);
        }
    }

    fn plain_event<'e>(&mut self, text: &'e str, except: &[&str]) -> Option<&'e str> {
        let is_envelope = || skip_blanks(text.get(1..).unwrap_or_default()).starts_with("\"batch\"");
        if !text.starts_with('{') || (!except.is_empty() && is_envelope()) {
            return None;
        }
        let length = self.batch.take_leading(text, except)?;
        text.get(length..)
    }

    /// Reads a top-level value of the body: an event, an array of events, or an envelope.
    fn document(&mut self, text: &str) {
        if text.starts_with('[') {
            self.elements(text);
            return;
        }
        // Of a document only the batch counts, and its other keys are too common to look for.
        let may_be_envelope =
            text.starts_with('{') && self.made.is_none_or(|made| made.has_envelope && text.contains("\"batch\""));
        if let Some(envelope) = may_be_envelope.then(|| Envelope::of(text)).flatten() {
            let batch = envelope.batch.filter(|batch| batch.get().starts_with('['));
            // An event as it is may name the source, too. Of a document, `source` is a field as any other.
            if self.made.is_none() || batch.is_some() {
                *self.source = self.source.take().or_else(|| envelope.source(self.made.is_none()));
            }
            if let Some(batch) = batch {
                self.elements(batch.get());
                return;
            }
        }
        self.event(text);
    }

    fn elements(&mut self, text: &str) {
        let mark = self.batch.mark();
        if self.is_plain() && text.strip_prefix('[').is_some_and(|rest| self.plain_elements(rest).is_some()) {
            return;
        }
        self.batch.take_back(mark);
        // The text was parsed as an array before, so there is no error.
        let _ = each_element(text, |element| {
            self.event(element);
            !self.batch.has_failed()
        });
    }

    fn event(&mut self, text: &str) {
        match (self.text.check(text), self.made) {
            (Err(reason), _) => self.batch.refuse(reason),
            (Ok(()), None) => self.batch.take_text(text),
            (Ok(()), Some(made)) => {
                if let Some(read) = document(text, self.batch.max_event(), made.event) {
                    self.batch.take_read(read);
                }
            }
        }
    }
}

/// The fields that make an object an envelope, or that name its source.
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
    /// The envelope fields of an object. None if its text contains none of their keys, so that most events are parsed
    /// only once.
    fn of(text: &'a str) -> Option<Self> {
        if !ENVELOPE_KEYS.iter().any(|key| text.contains(key)) {
            return None;
        }
        Self::deserialize(&mut serde_json::Deserializer::from_str(text)).ok()
    }

    fn source(&self, by_collection: bool) -> Option<String> {
        let [collection_name, collection] =
            [self.collection_name, self.collection].map(|name| name.filter(|_| by_collection));
        [self.source_name, collection_name, self.source, collection]
            .into_iter()
            .flatten()
            .find_map(|value| serde_json::from_str::<String>(value.get()).ok())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &[u8], by_line: bool) -> Result<(Batch, Option<String>), Failure> {
        let mut events = Events::for_tests(1000);
        parse(body, by_line, &mut events)?;
        Ok((events.own.checked()?, events.source))
    }

    fn good(body: &str) -> usize {
        let (batch, _) = read(body.as_bytes(), false).unwrap();
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
            assert_eq!(read(body.as_bytes(), false).unwrap_err().code, Code::InvalidBody, "{body}");
        }
    }

    #[test]
    fn a_bad_event_costs_only_itself() {
        let long = json!({"a": "x".repeat(1000)});
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        let body = format!(r#"[{{"a": 1}}, {long}, {{"a": {deep}}}, {{"a": 1e999}}, {{"a": 2}}]"#);
        let (batch, _) = read(body.as_bytes(), false).unwrap();
        assert_eq!(batch.events(), [json!({"a": 1}), json!({"a": 2})]);
        let refused: Vec<usize> = batch.refused().iter().map(|refused| refused.index).collect();
        assert_eq!(refused, [1, 2, 3]);
        assert_eq!(batch.position(1), Some(4));
    }

    #[test]
    fn a_bad_line_costs_only_itself() {
        for (body, by_line) in
            [("{\"a\": 1}\n{\"a\": \n\n{\"a\": 2}", false), ("{\"a\": \n{\"a\": 1}\n\n{\"a\": 2}", true)]
        {
            let (batch, _) = read(body.as_bytes(), by_line).unwrap();
            assert_eq!(batch.events(), [json!({"a": 1}), json!({"a": 2})]);
            let line = if by_line { "line 1 " } else { "line 2 " };
            assert!(batch.refused()[0].reason.starts_with(line), "{:?}", batch.refused());
        }
    }

    #[test]
    fn an_event_of_invalid_utf_8_costs_only_itself_in_every_form() {
        for (body, by_line) in [
            (&b"{\"a\": 1}\n{\"a\": \"\xff\"}\n{\"a\": 2}\n"[..], true),
            (b"{\"a\": 1}\n{\"a\": \"\xff\"}\n{\"a\": 2}\n", false),
            (b"[{\"a\": 1}, {\"a\": \"x\xe2\x82\"}, {\"a\": 2}]", false),
            (b"{\"batch\": [{\"a\": 1}, {\"\xc3\": 5}, {\"a\": 2}]}", false),
            (b"{\"a\": 1}{\"a\": [\"\x80\"]}{\"a\": 2}", false),
        ] {
            let (batch, _) = read(body, by_line).unwrap();
            assert_eq!(batch.events(), [json!({"a": 1}), json!({"a": 2})]);
            let [refused] = batch.refused() else { panic!("{:?}", batch.refused()) };
            assert_eq!(refused.index, 1);
            assert!(refused.reason.starts_with("the event is not valid UTF-8"), "{refused:?}");
        }
        let (batch, _) = read(b"{\"a\": \"\xff\"}", false).unwrap();
        assert_eq!((batch.events().len(), batch.refused().len()), (0, 1));
        // Outside of a string, invalid UTF-8 makes the whole body invalid JSON.
        assert_eq!(read(b"[{}, \xff]", false).unwrap_err().code, Code::InvalidBody);
    }

    #[test]
    fn a_body_may_name_its_source() {
        let source = |body: &str| read(body.as_bytes(), false).unwrap().1;
        assert_eq!(source(r#"{"batch": [], "source": "b", "source_name": "a"}"#).as_deref(), Some("a"));
        assert_eq!(source(r#"{"source": "b", "x": 1}"#).as_deref(), Some("b"));
        assert_eq!(source(r#"{"source": {"x": 1}}"#), None);
        assert_eq!(source(r#"{"a": {"source": "b"}}"#), None);
    }

    #[test]
    fn too_many_events_are_refused() {
        let body = format!("[{}]", vec!["{}"; crate::batch::MAX_EVENTS + 1].join(","));
        assert_eq!(read(body.as_bytes(), false).unwrap_err().code, Code::TooLarge);
    }
}
