//! `/_bulk`: the bulk API of Elasticsearch. A line says what is to be done, the next line is the document.
//!
//! The name of an index is the name of a source. A document is an event as it is, as at `/api/logs`. Events cannot be
//! changed, so `update` and `delete` are refused, each by itself.

use super::bulk_answer::{KEYS, accepted, refused, stored};
use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use uuid::Uuid;

use super::bulk_action::{Line, Target, target};
use super::documents::document;
use super::fields::{Fields, flat};
use crate::batch::MAX_EVENTS;
use crate::body::Encoding;
use crate::events::{Events, Item, Place};
use crate::text::Text;

/// The door for clients of Elasticsearch.
#[derive(Debug)]
pub(super) struct Bulk;

impl Door for Bulk {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "elasticsearch",
            paths: &[
                "/_bulk",
                "/{index}/_bulk",
                "/{index}/_doc",
                "/{index}/_doc/{id}",
                "/{index}/_create/{id}",
                "/elasticsearch/_bulk",
                "/elasticsearch/{index}/_bulk",
                "/elasticsearch/{index}/_doc",
                "/elasticsearch/{index}/_doc/{id}",
                "/elasticsearch/{index}/_create/{id}",
            ],
            // Some of its clients send so.
            takes_put: true,
            keys: KEYS,
            // `source` is no parameter of it: clients mean something else by it.
            source_parameters: &["source_name"],
            naming: "the index (_index, or /INDEX/_bulk), ?source_name=NAME, or the header x-source-name",
            body_names_sources: true,
            // Bulk helpers send documents again that were refused with 429, and give up at a request that was.
            tells_each: true,
            ..Profile::USUAL
        }
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        let is_read = kind.is_empty() || kind.contains("json");
        plain_if(is_read, format!("Content-Type header [{kind}] is not supported; send application/x-ndjson"))
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        match target(head.uri.path()) {
            Target::Bulk(index) => read(index.as_deref(), body, events),
            Target::Document { action, index, id } => document_of(action, (&index, id), body, events),
        }
    }

    fn accepted(&self, head: &Parts, delivered: &Delivered) -> Answer {
        match target(head.uri.path()) {
            Target::Bulk(_) => accepted(delivered),
            Target::Document { .. } => stored(delivered),
        }
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        refused(failure)
    }
}

/// The longest action line that is read, in bytes: what is made of one takes many times its bytes.
const LONGEST_ACTION: usize = 64 << 10;

fn read(path_index: Option<&str>, body: &[u8], events: &mut Events) -> Result<(), Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    let text = Text::json(body);
    events.own.hold_more(text.held());
    // One failure for all events of an action.
    let [update, delete] = ["update", "delete"]
        .map(|name| Arc::new(bad(format!("events cannot be changed: {name} is not done; send index or create"))));
    let own = events.finder.as_ref().and_then(|finder| finder.expected.clone()).unwrap_or_default();
    let mut index: Arc<str> = path_index.unwrap_or(&own).into();
    let mut lines = text.as_str().split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty());
    while let Some((number, line)) = lines.next() {
        if line.len() > LONGEST_ACTION {
            return Err(bad(format!(
                "the action/metadata line [{}] is longer than {LONGEST_ACTION} bytes; nothing of the request was stored",
                number + 1
            )));
        }
        let Ok(Line(name, action)) = serde_json::from_str(line) else {
            return Err(bad(format!(
                "Malformed action/metadata line [{}]: expected an object with one of index, create; nothing of the \
                 request was stored",
                number + 1
            )));
        };
        let document = if name == "delete" { None } else { Some(lines.next()) };
        let named = action.index.as_deref().or(path_index);
        if named.is_some_and(|named| *named != *index) {
            index = named.unwrap_or_default().into();
        }
        let mut id = action.id();
        let fate = match document.map(|document| document.map(|(_, document)| document)) {
            Some(None) => {
                return Err(bad(
                    "The bulk request must be terminated by a newline [\\n]: the last action has no document"
                        .to_owned(),
                ));
            }
            Some(Some(document)) if name != "update" => take(named, &mut id, document, &text, events),
            Some(_) => Err(Arc::clone(&update)),
            None => Err(Arc::clone(&delete)),
        };
        let id = id.unwrap_or_default().into_boxed_str();
        events.note(Item { action: name, index: Arc::clone(&index), id, fate });
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
    Ok(())
}

/// Reads the only document of a request.
fn document_of(
    action: &'static str,
    (index, mut id): (&str, Option<String>),
    body: &[u8],
    events: &mut Events,
) -> Result<(), Failure> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::new(Code::InvalidBody, "request body is required"));
    }
    let text = Text::json(body);
    events.own.hold_more(text.held());
    let fate = take(Some(index), &mut id, text.as_str().trim(), &text, events);
    let id = id.unwrap_or_default().into_boxed_str();
    events.note(Item { action, index: index.into(), id, fate });
    Ok(())
}

/// Reads a document into the batch of its source. One with an id is stored only once. `id` becomes that of the event.
fn take(
    index: Option<&str>,
    id: &mut Option<String>,
    line: &str,
    text: &Text<'_>,
    events: &mut Events,
) -> Result<Place, Arc<Failure>> {
    if let Some(limited) = &events.limited {
        return Err(Arc::clone(limited));
    }
    let source = match index {
        Some(index) => source_of(index, events)?,
        // The request's own source, or that of the settings; without one, the request is refused.
        None => 0,
    };
    let name = id.as_ref().and_then(|id| events.name_of(index.unwrap_or_default(), id));
    let batch = events.at(source);
    let place = Place { source, event: batch.count() };
    let told = RefCell::new(id.take());
    let event = |mut fields: Fields| {
        let given = told.take();
        let own = match fields.get("id") {
            None | Some(Value::Null) => None,
            Some(Value::String(own)) => Some(own.clone()).filter(|own| !own.is_empty()),
            Some(other) => Some(other.to_string()),
        };
        let made = || Uuid::new_v4().to_string();
        let id = given.or_else(|| own.clone()).unwrap_or_else(made);
        if own.is_none() {
            fields.insert("id".to_owned(), Value::from(id.as_str()));
        }
        told.replace(Some(id));
        Some(Ok(flat(fields)))
    };
    match text.check(line).and_then(|()| document(line, batch.max_event(), &event).unwrap_or(Err(String::new()))) {
        Ok(event) => match name {
            Some(name) => batch.take_named(event, name.with(line.as_bytes())),
            None => batch.take(event),
        },
        Err(reason) => batch.refuse(reason),
    }
    *id = told.into_inner();
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
    use super::*;
    use crate::batch::Batch;
    use crate::body_memory::BodyMemory;
    use serde_json::json;
    use tidegate_model::Audience;
    use tidegate_store::Intake;

    fn lines(body: &str) -> Result<Events, Failure> {
        let mut events = Events::for_tests(200);
        read(None, body.as_bytes(), &mut events)?;
        Ok(events)
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
        let expected = [json!({"id": "7", "event_message": "one"}), json!({"id": "8", "event_message": "two"})];
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
            ("\"7\"", Some("7")),
            ("-7", Some("-7")),
        ] {
            let events = lines(&line(id)).unwrap();
            let event = &events.own.events()[0];
            // Where there is none, one is made, so that the answer can tell it.
            let (told, stored) = (&*events.items[0].id, event["id"].as_str().unwrap());
            assert!(told == stored && expected.is_none_or(|id| id == told) && !told.is_empty(), "{event}");
            assert_eq!(Uuid::parse_str(told).is_ok(), expected.is_none(), "{event}");
        }
        // The id of the document is the event's; that of its own stays a field.
        let both = lines("{\"index\":{\"_id\":\"7\"}}\n{\"id\":8}\n{\"index\":{}}\n{\"id\":9}\n").unwrap();
        assert_eq!(both.own.events(), [json!({"id": 8}), json!({"id": 9})]);
        assert_eq!(both.items.iter().map(|item| &*item.id).collect::<Vec<_>>(), ["7", "9"]);
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
        let mut events = Events::new(batch, 1 << 20, None);
        read(None, body.as_bytes(), &mut events).unwrap();
        let Events { own, items, items_memory, .. } = events.checked().unwrap();
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
