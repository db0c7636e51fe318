//! The door for logs as JSON: `POST /api/logs` and its aliases.

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use tidegate_model::Failure;

use super::json;
use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, is_by_line};
use crate::events::Events;
use crate::logged::logged;

/// Logs as JSON, whose objects are events as they are.
#[derive(Debug)]
pub(super) struct Logs;

impl Door for Logs {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "logs",
            paths: &["/api/logs", "/logs", "/api/events"],
            body_names_sources: true,
            ..Profile::USUAL
        }
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        json::parse(body, is_by_line(head), events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        Answer::json(StatusCode::OK, &logged(delivered.own()))
    }
}
