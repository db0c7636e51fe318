//! Documents of JSON, of which a protocol makes events. `json` cuts a body into them. One document is in memory as a tree at a time.

use serde_json::Value;
use tidegate_store::{read_event, too_long};

use super::fields::Fields;

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
    use crate::batch::Batch;
    use crate::events::Events;
    use serde_json::json;
    use tidegate_model::{Code, Failure};

    fn read(body: &[u8], by_line: bool) -> Result<(Batch, Option<String>), Failure> {
        let mut events = Events::for_tests(1000);
        let event = |fields: Fields| (!fields.contains_key("probe")).then_some(Ok(Value::Object(fields)));
        Documents { event: &event, has_envelope: true, by_line }.read(body, &mut events)?;
        Ok((events.own.checked()?, events.source))
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
