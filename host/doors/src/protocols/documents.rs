//! Cuts a body of JSON into its documents: one object, an array, `{"batch": [...]}`, one object per line, or objects
//! behind each other. One document is in memory as a tree at a time.
//!
//! `json` does the same for `/api/logs`, where a document is an event as it is, and need not be taken apart.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate_model::{Code, Failure, json_fault};
use tidegate_store::{read_event, too_long};

use super::fields::Fields;
use super::json::bad_line;
use crate::batch::Batch;
use crate::elements::each_element;
use crate::events::Events;
use crate::text::Text;

/// What becomes of a document: an event, the reason for refusing it, or nothing if it is none.
pub(super) type Read = Option<Result<Value, String>>;

/// How a protocol reads its documents.
pub(super) struct Documents<'d> {
    /// Makes an event of a document.
    pub(super) event: &'d dyn Fn(Fields) -> Read,
    /// Whether `{"batch": [...]}` holds documents. It may name the source, too.
    pub(super) has_envelope: bool,
    /// Whether the body is one document per line, so that a line that cannot be read costs only itself.
    pub(super) by_line: bool,
}

/// The fields of an envelope.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Envelope<'a> {
    #[serde(borrow)]
    batch: Option<&'a RawValue>,
    #[serde(borrow)]
    source_name: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

impl Documents<'_> {
    /// Reads a body into the events of a request, and the source that an envelope names.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] for a body that is not JSON.
    pub(super) fn read(&self, body: &[u8], events: &mut Events) -> Result<(), Failure> {
        let Events { own: batch, source, .. } = events;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(Failure::new(Code::InvalidBody, "the body is empty; send events as JSON"));
        }
        let text = Text::json(body);
        batch.hold_more(text.held());
        let start = batch.mark();
        let Err(error) = self.values(text.as_str(), &text, batch, source) else { return Ok(()) };
        batch.take_back(start);
        *source = None;
        let lines = || text.as_str().split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, first) = lines().next().unwrap_or_default();
        if !self.by_line && (first.len() == body.len() || self.values(first, &text, batch, source).is_err()) {
            let message = format!("the body is not valid JSON: {}; nothing of it was stored", json_fault(&error));
            return Err(Failure::new(Code::InvalidBody, message));
        }
        batch.take_back(start);
        *source = None;
        for (i, line) in lines() {
            let (mark, was_named) = (batch.mark(), source.is_some());
            if let Err(error) = self.values(line, &text, batch, source) {
                batch.take_back(mark);
                *source = source.take().filter(|_| was_named);
                batch.refuse(bad_line(i + 1, &error));
            }
            if batch.has_failed() {
                break;
            }
        }
        Ok(())
    }

    /// Reads values that follow each other.
    fn values(
        &self,
        json: &str,
        text: &Text<'_>,
        batch: &mut Batch,
        source: &mut Option<String>,
    ) -> Result<(), serde_json::Error> {
        for value in serde_json::Deserializer::from_str(json).into_iter::<&RawValue>() {
            let value = value?.get();
            let envelope = (self.has_envelope && value.starts_with('{') && value.contains("\"batch\""))
                .then(|| Envelope::deserialize(&mut serde_json::Deserializer::from_str(value)).ok())
                .flatten();
            let elements = envelope.as_ref().and_then(|envelope| envelope.batch).map_or(value, RawValue::get);
            // A record may have a field `batch` that is no list. Its `source` is then a field of it, too.
            if let Some(envelope) = envelope.filter(|_| elements.starts_with('[')) {
                let named = [envelope.source_name, envelope.source].into_iter().flatten();
                let mut named = named.filter_map(|name| serde_json::from_str::<String>(name.get()).ok());
                *source = source.take().or_else(|| named.next());
            }
            if elements.starts_with('[') {
                each_element(elements, |element| {
                    self.document(element, text, batch);
                    !batch.has_failed()
                })?;
            } else {
                self.document(value, text, batch);
            }
            if batch.has_failed() {
                break;
            }
        }
        Ok(())
    }

    fn document(&self, json: &str, text: &Text<'_>, batch: &mut Batch) {
        if let Err(reason) = text.check(json) {
            return batch.refuse(reason);
        }
        if let Some(read) = document(json, batch.max_event(), self.event) {
            batch.take_read(read);
        }
    }
}

/// Reads the JSON text of one document of at most `longest` bytes.
pub(super) fn document(json: &str, longest: usize, event: &dyn Fn(Fields) -> Read) -> Read {
    if json.len() > longest {
        return Some(Err(too_long(json.len(), longest)));
    }
    match read_event(json) {
        Ok(Value::Object(fields)) => event(fields),
        // The store tells what is wrong with it.
        other => Some(other),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &[u8], by_line: bool) -> Result<(Batch, Option<String>), Failure> {
        let mut events = Events::for_tests(1000);
        let event = |fields: Fields| (!fields.contains_key("probe")).then_some(Ok(Value::Object(fields)));
        Documents { event: &event, has_envelope: true, by_line }.read(body, &mut events)?;
        Ok((events.own, events.source))
    }

    #[test]
    fn every_form_is_cut_into_its_documents() {
        let two = [json!({"a": 1}), json!({"a": 2})];
        for body in [
            r#"[{"a": 1}, {"a": 2}]"#,
            r#"{"batch": [{"a": 1}, {"a": 2}], "x": 1}"#,
            "{\"a\": 1}\n{\"a\": 2}\n",
            r#"{"a": 1}{"a": 2}"#,
            "[{\"a\": 1}]\n{\"probe\": 1}\n[{\"a\": 2}]",
        ] {
            let (batch, source) = read(body.as_bytes(), false).unwrap();
            assert_eq!((batch.events().as_slice(), batch.refused(), source), (&two[..], &[][..], None), "{body}");
        }
        let (_, source) = read(br#"{"batch": [], "source": "s"}"#, false).unwrap();
        assert_eq!(source.as_deref(), Some("s"));
        for body in ["", " ", "{", "[{\"a\": 1}, x]", "{\"a\": \n{\"a\": 1}"] {
            assert_eq!(read(body.as_bytes(), false).unwrap_err().code, Code::InvalidBody, "{body}");
        }
    }

    #[test]
    fn only_an_envelope_names_the_source() {
        for body in [
            r#"{"source": "lambda", "type": "batch", "message": "m"}"#,
            r#"{"source": "lambda", "batch": "7", "message": "m"}"#,
            r#"[{"source": "lambda", "batch": []}, {"a": 1}]"#,
            r#"{"source_name": "lambda", "message": "a \"batch\""}"#,
            // What is taken back names nothing.
            "{\"batch\": [{\"a\": 1}], \"source\": \"s\"} x\n{\"a\": 1}\n",
            "{\"a\": 1}\n{\"batch\": [{\"a\": 1}], \"source\": \"s\"} x\n",
        ] {
            assert_eq!(read(body.as_bytes(), true).unwrap().1, None, "{body}");
        }
        let body = "{\"batch\": [{\"a\": 1}], \"source\": \"s\"}\n{\"batch\": [{\"a\": 1}], \"source\": \"t\"} x\n";
        assert_eq!(read(body.as_bytes(), true).unwrap().1.as_deref(), Some("s"));
    }

    #[test]
    fn a_bad_document_costs_only_itself() {
        let long = "x".repeat(1000);
        let body = format!("[{{\"a\": 1}}, 5, {{\"a\": \"{long}\"}}, {{\"a\": 2}}]");
        let (batch, _) = read(body.as_bytes(), false).unwrap();
        assert_eq!((batch.events().len(), batch.refused().len()), (2, 2));
        for (body, by_line) in [
            (&b"{\"a\": \n{\"a\": 1}\n"[..], true),
            (b"{\"a\": 1}\n{\"a\": ", false),
            (b"{\"a\": 1}\n{\"a\": \"\xff\"}", false),
        ] {
            let (batch, _) = read(body, by_line).unwrap();
            assert_eq!((batch.events(), batch.refused().len()), (vec![json!({"a": 1})], 1));
        }
    }
}
