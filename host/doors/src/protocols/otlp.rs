//! `POST /v1/logs`: logs as OpenTelemetry exporters send them, over HTTP.
//!
//! An exporter understands only its own protocol, so responses and errors have the types of that protocol:
//! `ExportLogsServiceResponse` and `google.rpc.Status`, in the encoding of the request.

use super::{otlp_json, otlp_protobuf};
use crate::answer::{Answer, as_unavailable};
use crate::body;
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use prost::Message;
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::document;
use tidegate_store::Ingested;

use crate::events::Events;
use crate::logged::remarks;

const PROTOBUF: &str = "application/x-protobuf";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// Logs of OpenTelemetry.
#[derive(Debug)]
pub(super) struct Otlp;

impl Door for Otlp {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "otlp",
            paths: &["/v1/logs"],
            naming: "the header x-source-name; for an OpenTelemetry SDK, OTEL_EXPORTER_OTLP_HEADERS=x-api-key=TOKEN,x-source-name=NAME",
            ..Profile::USUAL
        }
    }

    fn check(&self, head: &Parts) -> Result<body::Encoding, Failure> {
        plain_if(encoding(head).is_some(), "send logs as application/x-protobuf or application/json")
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        match encoding(head) {
            Some(Encoding::Protobuf) => otlp_protobuf::parse(body, &mut events.own),
            _ => otlp_json::parse(body, &mut events.own),
        }
    }

    fn accepted(&self, head: &Parts, delivered: &Delivered) -> Answer {
        success(encoding(head).unwrap_or(Encoding::Json), delivered.own())
    }

    fn refused(&self, head: &Parts, failure: Failure) -> Answer {
        // A client that sends neither of the two encodings most likely reads JSON.
        refusal(encoding(head).unwrap_or(Encoding::Json), failure)
    }
}

pub(super) fn encoding(head: &Parts) -> Option<Encoding> {
    match content_type(head).as_str() {
        "application/x-protobuf" | "application/protobuf" => Some(Encoding::Protobuf),
        "application/json" => Some(Encoding::Json),
        _ => None,
    }
}

/// What an export says of refused records and of warnings, if there is anything to say. If no record is rejected,
/// exporters read the message as a warning.
pub(super) fn partial_success(outcome: &Ingested) -> Option<ExportLogsPartialSuccess> {
    let messages = remarks(outcome, ("log record", "log records"));
    (!messages.is_empty()).then(|| ExportLogsPartialSuccess {
        rejected_log_records: i64::try_from(outcome.refused.len()).unwrap_or(i64::MAX),
        error_message: messages.join("; "),
    })
}

/// The response to an export that was accepted, wholly or in part. Refused records would be refused again, so the
/// status is success, and the body says how many were refused.
fn success(encoding: Encoding, outcome: &Ingested) -> Answer {
    told(encoding, partial_success(outcome), "rejectedLogRecords")
}

/// The answer of an export. Those of all signals have the same fields, but for the `rejected` one's name in JSON.
pub(super) fn told(encoding: Encoding, partial: Option<ExportLogsPartialSuccess>, rejected: &str) -> Answer {
    match encoding {
        Encoding::Protobuf => {
            let answer = ExportLogsServiceResponse { partial_success: partial };
            Answer::with(StatusCode::OK, PROTOBUF, answer.encode_to_vec())
        }
        Encoding::Json => {
            let answer = partial.map_or_else(
                || json!({}),
                // This encoding writes 64-bit integers as strings.
                |partial| json!({"partialSuccess": {rejected: partial.rejected_log_records.to_string(), "errorMessage": partial.error_message}}),
            );
            Answer::json(StatusCode::OK, &answer)
        }
    }
}

pub(super) fn refusal(encoding: Encoding, failure: Failure) -> Answer {
    let failure = as_unavailable(failure);
    let mut answer = document(&failure);
    let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = Status { code: rpc_code(failure.code), message, details: Vec::new() };
    match encoding {
        Encoding::Protobuf => Answer::refused_with(failure, PROTOBUF, status.encode_to_vec()),
        Encoding::Json => {
            if let Value::Object(answer) = &mut answer {
                answer.insert("code".to_owned(), Value::from(status.code));
                answer.insert("message".to_owned(), Value::from(status.message));
            }
            Answer::refused_json(failure, |_| answer)
        }
    }
}

/// The code of `google.rpc.Code` that corresponds to a failure.
pub(super) fn rpc_code(code: Code) -> i32 {
    match code.status() {
        401 => 16,
        403 => 7,
        404 => 5,
        408 | 504 => 4,
        413 | 429 | 507 => 8,
        503 => 14,
        status if status < 500 => 3,
        _ => 13,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use tidegate_store::{RefusedEvent, StoreError};

    #[test]
    fn a_full_buffer_and_a_full_disk_are_tried_again() {
        let full = tidegate_service::failures::of_store(StoreError::Overloaded { held: 2, limit: 1 });
        for (failure, status, retry, rpc) in [(full, 429, 1, 8), (Failure::new(Code::StorageFull, "full"), 503, 30, 14)]
        {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                let response = refusal(encoding, failure.clone());
                let told = response.failure.unwrap();
                assert_eq!(
                    (response.status.as_u16(), told.retry_after.or(told.code.retry_after())),
                    (status, Some(retry))
                );
                let body = response.body;
                let code = match encoding {
                    Encoding::Protobuf => Status::decode(&body[..]).unwrap().code,
                    Encoding::Json => {
                        let value: Value = serde_json::from_slice(&body).unwrap();
                        assert_eq!(value.pointer("/error/status"), Some(&json!(status)));
                        i32::try_from(value.get("code").and_then(Value::as_i64).unwrap()).unwrap()
                    }
                };
                assert_eq!(code, rpc);
            }
        }
    }

    #[test]
    fn a_partial_success_is_told_in_both_encodings() {
        let whole = Ingested { stored: 2, ..Ingested::default() };
        assert_eq!(success(Encoding::Protobuf, &whole).body, "");
        assert_eq!(success(Encoding::Json, &whole).body, "{}");
        let part = Ingested {
            stored: 2,
            refused: vec![RefusedEvent { index: 1, reason: "bad".to_owned(), is_conflict: false }],
            ..Ingested::default()
        };
        let told = ExportLogsServiceResponse::decode(&success(Encoding::Protobuf, &part).body[..]).unwrap();
        let told = told.partial_success.unwrap();
        assert_eq!((told.rejected_log_records, told.error_message.as_str()), (1, "log record 1: bad"));
        let told: Value = serde_json::from_slice(&success(Encoding::Json, &part).body).unwrap();
        assert_eq!(told, json!({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "log record 1: bad"}}));
        let ahead = Ingested { stored: 2, future_times: 1, ..Ingested::default() };
        let told: Value = serde_json::from_slice(&success(Encoding::Json, &ahead).body).unwrap();
        let warning = "1 log records have a time more than a day ahead";
        assert_eq!(told, json!({"partialSuccess": {"rejectedLogRecords": "0", "errorMessage": warning}}));
    }
}
