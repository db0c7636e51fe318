//! `/api/v2/logs`: the intake of Datadog's agent and libraries.

use super::fields::{Fields, as_text, nested, query_parameters};
use crate::answer::{Answer, status_of};
use crate::door::{Delivered, Door, Profile, content_type};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use tidegate_model::Failure;
use tidegate_service::failures::text;

use super::documents::Documents;
use super::lines::lines;
use crate::credentials::KeyPlace;
use crate::events::Events;
use crate::logged::told;

/// The door for senders of Datadog.
#[derive(Debug)]
pub(super) struct Datadog;

const TAGS: &str = "ddtags";

impl Door for Datadog {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "datadog",
            paths: &["/api/v2/logs"],
            keys: &[KeyPlace::Header("dd-api-key")],
            ..Profile::USUAL
        }
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        // The fields of all events of the request.
        let shared = query_parameters(head, &["ddsource", "service", "hostname", TAGS]);
        let shared = shared.filter(|(_, value)| !value.is_empty());
        let shared: Fields = shared.map(|(name, value)| (name, value.into())).collect();
        if content_type(head) == "text/plain" {
            return lines(body, &shared, &mut events.own);
        }
        let event = |mut fields: Fields| {
            // An agent sends an empty object to see whether the intake is there.
            if fields.is_empty() {
                return None;
            }
            let message = as_text(&fields);
            for (name, value) in &shared {
                let own = fields.entry(name.as_str()).or_insert(Value::Null);
                match own {
                    Value::Null => *own = value.clone(),
                    // Those of the request are added to those of the event.
                    Value::String(tags) if name == TAGS => *tags = [tags, value.as_str().unwrap_or_default()].join(","),
                    _ => {}
                }
            }
            Some(Ok(nested(fields, |_| message)))
        };
        Documents { event: &event, has_envelope: false, by_line: false }.read(body, events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        let refused = delivered.own().refused.iter().take(10);
        let errors: Vec<_> = refused.map(|refused| json!({"status": "400", "title": "Bad Request", "detail": format!("event {}: {}", refused.index, refused.reason)})).collect();
        let mut body = told(delivered.own()).unwrap_or_default();
        if !errors.is_empty() {
            body.insert("errors".to_owned(), errors.into());
        }
        Answer::json(StatusCode::ACCEPTED, &body)
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        Answer::refused_json(failure, |failure| {
            let status = status_of(failure);
            let title = status.canonical_reason().unwrap_or_default();
            json!({"errors": [{"status": status.as_str(), "title": title, "detail": text(failure)}]})
        })
    }
}
