//! `POST /v1/logs`: logs as OpenTelemetry exporters send them, over HTTP.
//!
//! An exporter understands only its own protocol, so responses and errors have the types of that protocol:
//! `ExportLogsServiceResponse` and `google.rpc.Status`, in the encoding of the request.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use prost::Message;
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;
use tidegate_service::failures::document;

use super::batch::Outcome;
use super::door::{Delivered, Door, as_unavailable, content_type, refusal_with};
use super::events::Events;
use super::logged::remarks;
use super::{body, otlp_json, otlp_protobuf};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

/// `google.rpc.Status`, without its details.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Logs of OpenTelemetry.
#[derive(Debug)]
pub(crate) struct Otlp;

impl Door for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/v1/logs"]
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.otlp_source
    }

    fn naming(&self) -> &'static str {
        "the header x-source-name; for an OpenTelemetry SDK, OTEL_EXPORTER_OTLP_HEADERS=x-api-key=TOKEN,x-source-name=NAME"
    }

    fn check(&self, head: &Parts) -> Result<body::Encoding, Failure> {
        match encoding(head) {
            Some(_) => Ok(body::Encoding::Identity),
            None => {
                let message = "send logs as application/x-protobuf or application/json";
                Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"))
            }
        }
    }

    fn read(&self, head: &Parts, body: &Bytes, events: Events) -> Result<Events, Failure> {
        let own = match encoding(head) {
            Some(Encoding::Protobuf) => otlp_protobuf::parse(body, events.own)?,
            _ => otlp_json::parse(body, events.own)?,
        };
        Ok(Events { own, ..events })
    }

    fn accepted(&self, head: &Parts, delivered: &Delivered) -> Response {
        success(encoding(head).unwrap_or(Encoding::Json), delivered.own())
    }

    fn refused(&self, head: &Parts, failure: Failure) -> Response {
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
pub(super) fn partial_success(outcome: &Outcome) -> Option<ExportLogsPartialSuccess> {
    let messages = remarks(outcome, ("log record", "log records"));
    (!messages.is_empty()).then(|| ExportLogsPartialSuccess {
        rejected_log_records: i64::try_from(outcome.refused.len()).unwrap_or(i64::MAX),
        error_message: messages.join("; "),
    })
}

/// The response to an export that was accepted, wholly or in part. Refused records would be refused again, so the
/// status is success, and the body says how many were refused.
fn success(encoding: Encoding, outcome: &Outcome) -> Response {
    told(encoding, partial_success(outcome), "rejectedLogRecords")
}

/// The answer of an export. Those of all signals have the same fields, but for the `rejected` one's name in JSON.
pub(super) fn told(encoding: Encoding, partial: Option<ExportLogsPartialSuccess>, rejected: &str) -> Response {
    match encoding {
        Encoding::Protobuf => {
            let answer = ExportLogsServiceResponse { partial_success: partial };
            respond(StatusCode::OK, encoding, answer.encode_to_vec())
        }
        Encoding::Json => {
            let answer = partial.map_or_else(
                || json!({}),
                // This encoding writes 64-bit integers as strings.
                |partial| json!({"partialSuccess": {rejected: partial.rejected_log_records.to_string(), "errorMessage": partial.error_message}}),
            );
            respond(StatusCode::OK, encoding, answer.to_string().into_bytes())
        }
    }
}

pub(super) fn refusal(encoding: Encoding, failure: Failure) -> Response {
    let failure = as_unavailable(failure);
    let mut answer = document(&failure);
    let message = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = Status { code: rpc_code(failure.code), message };
    match encoding {
        Encoding::Protobuf => refusal_with(failure, PROTOBUF, status.encode_to_vec()),
        Encoding::Json => {
            if let Value::Object(answer) = &mut answer {
                answer.insert("code".to_owned(), Value::from(status.code));
                answer.insert("message".to_owned(), Value::from(status.message));
            }
            refusal_with(failure, JSON, answer.to_string().into_bytes())
        }
    }
}

fn respond(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    let kind = match encoding {
        Encoding::Protobuf => PROTOBUF,
        Encoding::Json => JSON,
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The code of `google.rpc.Code` that corresponds to a failure.
fn rpc_code(code: Code) -> i32 {
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
    use axum::body::to_bytes;
    use tidegate_store::{RefusedEvent, StoreError};

    async fn body(response: Response) -> Vec<u8> {
        to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()
    }

    #[tokio::test]
    async fn a_full_buffer_and_a_full_disk_are_tried_again() {
        let full = tidegate_service::failures::of_store(StoreError::Overloaded { held: 2, limit: 1 });
        for (failure, status, retry, rpc) in
            [(full, 429, "1", 8), (Failure::new(Code::StorageFull, "full"), 503, "30", 14)]
        {
            for encoding in [Encoding::Protobuf, Encoding::Json] {
                let response = refusal(encoding, failure.clone());
                assert_eq!(response.status().as_u16(), status);
                assert_eq!(response.headers().get(header::RETRY_AFTER).unwrap(), retry);
                let body = body(response).await;
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

    #[tokio::test]
    async fn a_partial_success_is_told_in_both_encodings() {
        let whole = Outcome { accepted: 2, ..Outcome::default() };
        assert_eq!(body(success(Encoding::Protobuf, &whole)).await, b"");
        assert_eq!(body(success(Encoding::Json, &whole)).await, b"{}");
        let part = Outcome {
            accepted: 2,
            refused: vec![RefusedEvent { index: 1, reason: "bad".to_owned(), is_conflict: false }],
            ..Outcome::default()
        };
        let told = ExportLogsServiceResponse::decode(&body(success(Encoding::Protobuf, &part)).await[..]).unwrap();
        let told = told.partial_success.unwrap();
        assert_eq!((told.rejected_log_records, told.error_message.as_str()), (1, "log record 1: bad"));
        let told: Value = serde_json::from_slice(&body(success(Encoding::Json, &part)).await).unwrap();
        assert_eq!(told, json!({"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "log record 1: bad"}}));
        let ahead = Outcome { accepted: 2, future_times: 1, ..Outcome::default() };
        let told: Value = serde_json::from_slice(&body(success(Encoding::Json, &ahead)).await).unwrap();
        let warning = "1 log records have a time more than a day ahead";
        assert_eq!(told, json!({"partialSuccess": {"rejectedLogRecords": "0", "errorMessage": warning}}));
    }
}
