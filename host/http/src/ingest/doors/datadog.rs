//! `/api/v2/logs`: the intake of Datadog's agent and libraries.

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_model::Failure;
use tidegate_service::door_options::DoorOptions;
use tidegate_service::failures::text;

use super::super::credentials::KeyPlace;
use super::super::door::{Delivered, Door, as_unavailable, content_type, refusal_with};
use super::super::events::Events;
use super::super::logged::told;
use super::documents::Documents;
use super::fields::{Fields, as_text, nested};
use super::lines::lines;

/// The door for senders of Datadog.
#[derive(Debug)]
pub(super) struct Datadog;

const TAGS: &str = "ddtags";

/// The fields of all events of a request, which stand in its query string.
fn shared(head: &Parts) -> Fields {
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let known = |name: &str| ["ddsource", "service", "hostname", TAGS].contains(&name);
    let found = query.filter(|(name, value)| known(name) && !value.is_empty());
    found.map(|(name, value)| (name.into_owned(), Value::from(value.into_owned()))).collect()
}

impl Door for Datadog {
    fn name(&self) -> &'static str {
        "datadog"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/api/v2/logs"]
    }

    fn keys(&self) -> &'static [KeyPlace] {
        &[KeyPlace::Header("dd-api-key")]
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.datadog_source
    }

    fn read(&self, head: &Parts, body: &Bytes, mut events: Events) -> Result<Events, Failure> {
        let shared = shared(head);
        if content_type(head) == "text/plain" {
            lines(body, &shared, &mut events.own)?;
            return Ok(events);
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
        Documents { event: &event, has_envelope: false, by_line: false }.read(body, &mut events.own)?;
        Ok(events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        let refused = delivered.own().refused.iter().take(10);
        let errors: Vec<_> = refused.map(|refused| json!({"status": "400", "title": "Bad Request", "detail": format!("event {}: {}", refused.index, refused.reason)})).collect();
        let mut body = told(delivered.own()).unwrap_or_default();
        if !errors.is_empty() {
            body.insert("errors".to_owned(), errors.into());
        }
        (StatusCode::ACCEPTED, axum::Json(body)).into_response()
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Response {
        let failure = as_unavailable(failure);
        let status = failure.code.status();
        let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
        let body = json!({"errors": [{"status": status.to_string(), "title": title, "detail": text(&failure)}]});
        refusal_with(failure, "application/json", body.to_string().into_bytes())
    }
}
