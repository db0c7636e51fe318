//! The one place where a failure becomes an HTTP answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidegate_model::{Code, Failure, Position};
use tidegate_store::StoreError;

/// A failure on its way to the caller.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Failure);

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(failure) = self;
        let status = StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let message = failure.to_string();
        let place = failure.position.map(|Position { line, column }| format!("line {line}, column {column}"));
        let detail = json!({
            "reason": failure.code.name(),
            "location": failure.location.or(place),
            "message": failure.message,
        });
        let body = json!({
            "error": {
                "code": failure.code.name(),
                "message": message,
                "status": status.as_u16(),
                "errors": [detail],
            }
        });
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        match failure.code {
            Code::Overloaded => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Code::DataUnavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            }
            Code::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

/// What a caller may learn of a store's failure.
pub(crate) fn of_store(error: StoreError) -> Failure {
    match &error {
        StoreError::UnknownSource { name, .. } => {
            Failure::new(Code::NotFound, format!("there is no source {name}; create it first, or check source_name"))
                .about(name)
        }
        StoreError::InvalidEvent { index, .. } => {
            Failure::new(Code::InvalidBody, format!("{error}; nothing of the request was stored"))
                .about(format!("[{index}]"))
        }
        StoreError::InvalidName { .. } => Failure::new(Code::Refused, error.to_string()).about("name"),
        StoreError::Exists(name) => Failure::new(Code::Conflict, format!("the name {name} is taken")).about("name"),
        StoreError::Overloaded { .. } | StoreError::Closed => Failure::new(
            Code::Overloaded,
            "the store cannot take events right now; nothing of the request was stored, try again",
        ),
        StoreError::CommitFailed(_) | StoreError::ReadOnly(_) => {
            tracing::error!(%error, "the store refuses events");
            Failure::new(
                Code::DataUnavailable,
                "the store cannot write; nothing of the request was stored, reads go on",
            )
        }
        _ => {
            tracing::error!(%error, "the store failed");
            Failure::new(Code::Internal, "the store failed; the server's log has the details")
        }
    }
}
