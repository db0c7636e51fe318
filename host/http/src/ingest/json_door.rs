//! The door for logs as JSON: `POST /api/logs` and its aliases.

use axum::Json;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tidegate_model::Failure;
use tidegate_service::door_options::DoorOptions;

use super::door::{Delivered, Door};
use super::events::Events;
use super::json;
use super::logged::{is_by_line, logged};

/// Logs as JSON, whose objects are events as they are.
#[derive(Debug)]
pub(crate) struct Logs;

impl Door for Logs {
    fn name(&self) -> &'static str {
        "logs"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/api/logs", "/logs", "/api/events"]
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.logs_source
    }

    fn body_names_sources(&self) -> bool {
        true
    }

    fn read(&self, head: &Parts, body: &Bytes, events: Events) -> Result<Events, Failure> {
        let parsed = json::parse(body, is_by_line(head), events.own)?;
        Ok(Events { own: parsed.batch, source: parsed.source, ..events })
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        Json(logged(delivered.own())).into_response()
    }
}
