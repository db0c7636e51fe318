//! `/api/v2/logs`: the intake of Datadog's agent and libraries.

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;
use tidegate_model::Failure;
use tidegate_service::door_options::DoorOptions;
use tidegate_service::failures::text;

use super::super::credentials::KeyPlace;
use super::super::door::{Delivered, Door, as_unavailable, content_type, refusal_with};
use super::super::events::Events;
use super::documents::Documents;
use super::fields::{Fields, as_text, nested};
use super::lines::lines;

/// The door for senders of Datadog.
#[derive(Debug)]
pub(super) struct Datadog;

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
        if content_type(head) == "text/plain" {
            lines(body, &Fields::new(), &mut events.own)?;
            return Ok(events);
        }
        // An agent sends an empty object to see whether the intake is there.
        let event = |fields: Fields| (!fields.is_empty()).then(|| Ok(nested(fields, as_text)));
        Documents { event: &event, has_envelope: false, by_line: false }.read(body, &mut events.own)?;
        Ok(events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        let refused = delivered.own().refused.iter().take(10);
        let errors: Vec<_> = refused.map(|refused| json!({"status": "400", "title": "Bad Request", "detail": format!("event {}: {}", refused.index, refused.reason)})).collect();
        // Senders read the status only. Another one would have them send the stored events again.
        let body = if errors.is_empty() { json!({}) } else { json!({"errors": errors}) };
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
