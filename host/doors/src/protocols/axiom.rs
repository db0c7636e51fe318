//! `/v1/datasets/NAME/ingest`: the intake of Axiom's libraries. The dataset is the source.

use super::fields::{Fields, as_text, nested, set_time};
use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, content_type, is_by_line, plain_if};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tidegate_model::Failure;
use tidegate_service::failures::text;

use super::documents::Documents;
use crate::body::Encoding;
use crate::events::Events;

/// How many refused events the answer describes.
const NAMED: usize = 100;

/// The door for senders of Axiom.
#[derive(Debug)]
pub(super) struct Axiom;

impl Door for Axiom {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "axiom",
            paths: &["/v1/datasets/{dataset}/ingest"],
            naming: "the dataset, ?source_name=NAME, or the header x-source-name",
            source_parameters: &["source_name"],
            ..Profile::USUAL
        }
    }

    /// The name in the path may be one that only the sender has.
    fn suggested_source(&self, head: &Parts) -> Option<String> {
        let dataset = head.uri.path().split('/').nth(3)?;
        Some(percent_decode_str(dataset).decode_utf8_lossy().into_owned())
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        let is_read = kind.is_empty() || kind.contains("json");
        plain_if(is_read, format!("{kind} is not read here; send events as application/json or application/x-ndjson"))
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        let event = |mut fields: Fields| {
            let message = as_text(&fields);
            set_time(&mut fields, &["_time"]);
            Some(Ok(nested(fields, |_| message)))
        };
        Documents { event: &event, has_envelope: false, by_line: is_by_line(head) }.read(body, events)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        let own = delivered.own();
        let failures = own.refused.iter().take(NAMED);
        let failures: Vec<Value> =
            failures.map(|refused| json!({"error": format!("event {}: {}", refused.index, refused.reason)})).collect();
        let body = json!({
            "ingested": own.stored, "failed": own.refused.len(), "failures": failures, "processedBytes": 0, "blocksCreated": 0,
            "walLength": 0,
        });
        Answer::json(StatusCode::OK, &body)
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        Answer::refused_json(failure, |failure| json!({"code": failure.code.status(), "message": text(failure)}))
    }
}
