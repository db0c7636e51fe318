//! `/v1/datasets/NAME/ingest`: the intake of Axiom's libraries. The dataset is the source.

use axum::Json;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;
use tidegate_service::failures::text;

use super::super::body::Encoding;
use super::super::door::{Delivered, Door, as_unavailable, content_type, refusal_with};
use super::super::events::Events;
use super::super::logged::is_by_line;
use super::documents::Documents;
use super::fields::{Fields, as_text, nested};

/// How many refused events the answer describes.
const NAMED: usize = 100;

/// The door for senders of Axiom.
#[derive(Debug)]
pub(super) struct Axiom;

impl Door for Axiom {
    fn name(&self) -> &'static str {
        "axiom"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/v1/datasets/{dataset}/ingest"]
    }

    fn naming(&self) -> &'static str {
        "the dataset, ?source_name=NAME, or the header x-source-name"
    }

    /// The name in the path may be one that only the sender has.
    fn suggested_source(&self, head: &Parts) -> Option<String> {
        let dataset = head.uri.path().split('/').nth(3)?;
        Some(percent_decode_str(dataset).decode_utf8_lossy().into_owned())
    }

    fn source_parameters(&self) -> &'static [&'static str] {
        &["source_name"]
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.axiom_source
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        if kind.is_empty() || kind.contains("json") {
            return Ok(Encoding::Identity);
        }
        let message = format!("{kind} is not read here; send events as application/json or application/x-ndjson");
        Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"))
    }

    fn read(&self, head: &Parts, body: &Bytes, mut events: Events) -> Result<Events, Failure> {
        let event = |mut fields: Fields| {
            let message = as_text(&fields);
            if let Some(time) =
                fields.get("_time").filter(|time| !time.is_null() && !fields.contains_key("timestamp")).cloned()
            {
                fields.insert("timestamp".to_owned(), time);
            }
            Some(Ok(nested(fields, |_| message)))
        };
        Documents { event: &event, has_envelope: false, by_line: is_by_line(head) }.read(body, &mut events.own)?;
        Ok(events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        let own = delivered.own();
        let failures = own.refused.iter().take(NAMED);
        let failures: Vec<Value> =
            failures.map(|refused| json!({"error": format!("event {}: {}", refused.index, refused.reason)})).collect();
        let body = json!({
            "ingested": own.accepted, "failed": own.refused.len(), "failures": failures, "processedBytes": 0, "blocksCreated": 0,
            "walLength": 0,
        });
        Json(body).into_response()
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Response {
        let failure = as_unavailable(failure);
        let body = json!({"code": failure.code.status(), "message": text(&failure)});
        refusal_with(failure, "application/json", body.to_string().into_bytes())
    }
}
