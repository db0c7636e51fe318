//! `/_bulk`: the bulk API of Elasticsearch. A line says what is to be done, the next line is the document.
//!
//! The name of an index is the name of a source. A document is an event as it is, as at `/api/logs`. Events cannot be
//! changed, so `update` and `delete` are refused, each by itself.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;

use super::super::batch::MAX_EVENTS;
use super::super::body::Encoding;
use super::super::credentials::KeyPlace;
use super::super::door::{Delivered, Door, content_type};
use super::super::events::{Events, Place};
use super::super::text::Text;
use super::bulk_answer::{PREFIX, accepted, refused};
use super::documents::document;
use super::fields::{Fields, flat};

/// The door for clients of Elasticsearch.
#[derive(Debug)]
pub(super) struct Bulk;

impl Door for Bulk {
    fn name(&self) -> &'static str {
        "elasticsearch"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/_bulk", "/{index}/_bulk", "/elasticsearch/_bulk", "/elasticsearch/{index}/_bulk"]
    }

    /// Some of its clients send so.
    fn takes_put(&self) -> bool {
        true
    }

    fn keys(&self) -> &'static [KeyPlace] {
        &[KeyPlace::Pair("ApiKey")]
    }

    /// `source` is no parameter of it: clients mean something else by it.
    fn source_parameters(&self) -> &'static [&'static str] {
        &["source_name"]
    }

    fn naming(&self) -> &'static str {
        "the index (_index, or /INDEX/_bulk), ?source_name=NAME, or the header x-source-name"
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.elasticsearch_source
    }

    fn body_names_sources(&self) -> bool {
        true
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        if kind.is_empty() || kind.contains("json") {
            return Ok(Encoding::Identity);
        }
        let message = format!("Content-Type header [{kind}] is not supported; send application/x-ndjson");
        Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"))
    }

    fn read(&self, head: &Parts, body: &Bytes, events: Events) -> Result<Events, Failure> {
        let index = index_of(head.uri.path());
        read(index.as_deref(), body, events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        accepted(delivered)
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Response {
        refused(failure)
    }
}

/// The index that a path names.
fn index_of(path: &str) -> Option<Cow<'_, str>> {
    let path = path.strip_prefix(PREFIX).unwrap_or(path);
    let index = path.strip_suffix("/_bulk")?.trim_matches('/');
    (!index.is_empty()).then(|| percent_decode_str(index).decode_utf8_lossy())
}

/// What a line wants done.
#[derive(Deserialize)]
struct Action<'a> {
    #[serde(borrow, rename = "_index", default)]
    index: Option<Cow<'a, str>>,
    /// Read only if it is a text or a number, and only where it is used.
    #[serde(borrow, rename = "_id", default)]
    id: Option<&'a RawValue>,
}

/// The longest action line that is read, in bytes: what is made of one takes many times its bytes.
const LONGEST_ACTION: usize = 64 << 10;

const ACTIONS: [&str; 4] = ["index", "create", "update", "delete"];

/// The action of a line, and what it is to be done with.
fn action(line: &str) -> Option<(&'static str, Action<'_>)> {
    let line: std::collections::HashMap<&str, Option<Action<'_>>> = serde_json::from_str(line).ok()?;
    let mut actions = line.into_iter();
    let (name, action) = actions.next()?;
    let name = ACTIONS.into_iter().find(|known| *known == name)?;
    actions.next().is_none().then(|| (name, action.unwrap_or(Action { index: None, id: None })))
}

fn read(path_index: Option<&str>, body: &[u8], mut events: Events) -> Result<Events, Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    let text = Text::json(body);
    events.own.hold_more(text.held());
    // One failure for all events of an action.
    let [update, delete] = ["update", "delete"]
        .map(|name| Arc::new(bad(format!("events cannot be changed: {name} is not done; send index or create"))));
    let mut lines = text.as_str().split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
    while let Some((number, line)) = lines.next() {
        if line.len() > LONGEST_ACTION {
            return Err(bad(format!(
                "the action/metadata line [{}] is longer than {LONGEST_ACTION} bytes; nothing of the request was stored",
                number + 1
            )));
        }
        let Some((name, action)) = action(line) else {
            return Err(bad(format!(
                "Malformed action/metadata line [{}]: expected an object with one of index, create; nothing of the \
                 request was stored",
                number + 1
            )));
        };
        let document = if name == "delete" { None } else { Some(lines.next()) };
        let fate = match document.map(|document| document.map(|(_, document)| document)) {
            Some(None) => {
                return Err(bad(
                    "The bulk request must be terminated by a newline [\\n]: the last action has no document"
                        .to_owned(),
                ));
            }
            Some(Some(document)) if name != "update" => {
                let index = action.index.as_deref().or(path_index);
                take(index, action.id, document, &text, &mut events)
            }
            Some(_) => Err(Arc::clone(&update)),
            None => Err(Arc::clone(&delete)),
        };
        events.note(name, fate);
        if events.items.len() > MAX_EVENTS {
            let message = format!("the request has more than {MAX_EVENTS} events; send smaller batches");
            return Err(Failure::new(Code::TooLarge, message));
        }
        if events.has_failed() {
            break;
        }
    }
    if events.items.is_empty() {
        return Err(bad("request body is required".to_owned()));
    }
    Ok(events)
}

/// Reads a document into the batch of its source.
fn take(
    index: Option<&str>,
    id: Option<&RawValue>,
    line: &str,
    text: &Text<'_>,
    events: &mut Events,
) -> Result<Place, Arc<Failure>> {
    let source = match index {
        Some(index) => source_of(index, events)?,
        // The request's own source, or that of the settings; without one, the request is refused.
        None => 0,
    };
    let batch = events.at(source);
    let place = Place { source, event: batch.count() };
    let event = |mut fields: Fields| {
        if let Some(id) = id.filter(|id| id.get().starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9')))
            && !fields.contains_key("id")
            && let Ok(id) = serde_json::from_str::<Value>(id.get())
        {
            fields.insert("id".to_owned(), id);
        }
        Some(Ok(flat(fields)))
    };
    match text.check(line).and_then(|()| document(line, batch.max_event(), &event).unwrap_or(Err(String::new()))) {
        Ok(event) => batch.take(event),
        Err(reason) => batch.refuse(reason),
    }
    Ok(place)
}

/// The source of an index: that of its name, or of its name without the date or the number at its end, which clients
/// add to have an index a day.
fn source_of(index: &str, events: &mut Events) -> Result<usize, Arc<Failure>> {
    let found = events.source_of(index);
    let without = index.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    match without.strip_suffix('-').filter(|name| !name.is_empty() && without.len() < index.len()) {
        // A source that is there and may not be sent to is told before one that is not there.
        Some(name) if found.is_err() => {
            events.source_of(name).or_else(|failure| if failure.code == Code::Forbidden { Err(failure) } else { found })
        }
        _ => found,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::super::super::batch::Batch;
    use super::super::super::body_memory::BodyMemory;
    use super::super::super::events::Item;
    use super::*;
    use serde_json::json;
    use tidegate_model::Audience;
    use tidegate_store::Intake;

    fn lines(body: &str) -> Result<Events, Failure> {
        read(None, body.as_bytes(), Events::for_tests(200))
    }

    #[test]
    fn the_index_stands_in_the_path() {
        assert_eq!(index_of("/_bulk"), None);
        assert_eq!(index_of("/elasticsearch/_bulk"), None);
        assert_eq!(index_of("/logs-a.b-default/_bulk").as_deref(), Some("logs-a.b-default"));
        assert_eq!(index_of("/elasticsearch/a%20b/_bulk").as_deref(), Some("a b"));
    }

    #[test]
    fn every_action_has_its_fate() {
        let long = "x".repeat(200);
        let body = format!(
            "{{\"index\":{{\"_index\":\"a\",\"_id\":\"7\"}}}}\n{{\"message\":\"one\"}}\n{{\"delete\":{{\"_id\":\"7\"}}}}\n\
             {{\"create\":{{\"_id\":8,\"routing\":null}}}}\n{{\"log\":\"two\"}}\n{{\"update\":{{}}}}\n{{\"doc\":{{}}}}\n{{\"create\":null}}\n{{\"a\": \n\
             {{\"create\":{{}}}}\n{{\"a\":\"{long}\"}}\n"
        );
        let events = lines(&body).unwrap();
        let expected = [json!({"id": "7", "event_message": "one"}), json!({"id": 8, "event_message": "two"})];
        assert_eq!(events.own.events(), expected);
        let fates: Vec<_> = events.items.iter().map(|item| (item.action, item.fate.is_ok())).collect();
        assert_eq!(
            fates,
            [
                ("index", true),
                ("delete", false),
                ("create", true),
                ("update", false),
                ("create", true),
                ("create", true)
            ]
        );
        assert_eq!(events.own.refused().len(), 2);
    }

    #[test]
    fn an_action_line_is_short_and_its_id_a_text_or_a_number() {
        let line = |fill: &str| format!("{{\"index\":{{\"_id\":{fill}}}}}\n{{\"a\":1}}\n");
        let long = line(&format!("\"{}\"", "x".repeat(LONGEST_ACTION)));
        let failure = lines(&long).unwrap_err();
        assert!(failure.code == Code::InvalidBody && failure.message.contains("longer than 65536"), "{failure}");
        // A tree of it would be held though it is not used.
        let nested = format!("[{}0]", "0,".repeat(30_000));
        let long_number = "1".repeat(100);
        for (id, expected) in [
            (nested.as_str(), None),
            ("null", None),
            ("true", None),
            ("{}", None),
            ("\"7\"", Some(json!("7"))),
            ("-7", Some(json!(-7))),
        ] {
            let events = lines(&line(id)).unwrap();
            assert_eq!(events.own.events()[0].get("id"), expected.as_ref(), "{}", &id[..id.len().min(20)]);
        }
        assert_eq!(lines(&line(&long_number)).unwrap().own.events().len(), 1);
    }

    #[test]
    fn events_that_are_refused_for_the_same_reason_share_it() {
        let body = "{\"delete\":{}}\n{\"update\":{}}\n{}\n".repeat(1_000);
        let events = lines(&body).unwrap();
        let reasons: std::collections::BTreeSet<_> =
            events.items.iter().map(|item| Arc::as_ptr(item.fate.as_ref().unwrap_err())).collect();
        assert_eq!((events.items.len(), reasons.len()), (2_000, 2));
        let memory = BodyMemory::new(1 << 20);
        let batch = Batch::new(Intake::new(0, 1_000, Audience::All), memory.reservation(), body.len());
        let events = read(None, body.as_bytes(), Events::new(batch, 1 << 20, None)).unwrap().checked().unwrap();
        let Events { own, items, items_memory, .. } = events;
        drop(own);
        assert!(memory.used() >= items.len() * size_of::<Item>(), "until the answer is built");
        drop(items_memory);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_body_that_is_none_is_refused_whole() {
        for bad in [
            "",
            "\n\n",
            "x\n",
            "{}\n{}\n",
            "{\"index\":{}}\n",
            "{\"put\":{}}\n{}\n",
            "{\"index\":{},\"create\":{}}\n{}\n",
            "[]\n",
            "{\"index\":5}\n{}\n",
        ] {
            assert_eq!(lines(bad).unwrap_err().code, Code::InvalidBody, "{bad:?}");
        }
    }
}
