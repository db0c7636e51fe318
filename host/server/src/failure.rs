//! The one place where a failure becomes an HTTP answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure, Position};
use tidegate_store::StoreError;

use crate::errors::Words;

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
        let mut response = (status, Json(document(&failure))).into_response();
        // For the metrics and the log line, and for who answers it in another form.
        response.extensions_mut().insert(failure.code);
        response.extensions_mut().insert(Words(words(&failure)));
        let headers = response.headers_mut();
        if let Some(seconds) = failure.retry_after.or(failure.code.retry_after()) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if failure.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A failure in the shape of the interface: `{"error": {code, message, status, errors}}`.
pub(crate) fn document(failure: &Failure) -> Value {
    let details: Vec<Value> = std::iter::once(failure).chain(&failure.others).map(detail).collect();
    json!({
        "error": {
            "code": failure.code.name(),
            "message": words(failure),
            "status": failure.code.status(),
            "errors": details,
        }
    })
}

/// All that is wrong, as one text.
fn words(failure: &Failure) -> String {
    let all: Vec<String> = std::iter::once(failure).chain(&failure.others).map(Failure::to_string).collect();
    all.join("; ")
}

fn detail(failure: &Failure) -> Value {
    let place = failure.position.map(|Position { line, column }| format!("line {line}, column {column}"));
    json!({
        "reason": failure.code.name(),
        "location": failure.location.clone().or(place),
        "message": failure.message,
    })
}

/// What a caller may learn of a store's failure.
pub(crate) fn of_store(error: StoreError) -> Failure {
    match &error {
        StoreError::UnknownSource { name, .. } => {
            Failure::new(Code::NotFound, format!("there is no source {name}; create it first, or check source_name"))
                .about(name)
        }
        StoreError::InvalidName { .. } => Failure::new(Code::Refused, error.to_string()).about("name"),
        StoreError::Exists(name) => {
            Failure::new(Code::Refused, format!("the name {name} is taken; names are unique")).about("name")
        }
        StoreError::Overloaded { .. } | StoreError::Backlog { .. } => Failure::new(
            Code::TooManyRequests,
            "more events wait to be written than may wait; nothing of the request was stored, try again",
        ),
        StoreError::Closed => Failure::new(
            Code::Overloaded,
            "the service is ending and takes no more events; nothing of the request was stored, try again",
        ),
        StoreError::DiskFull(_) => Failure::new(
            Code::StorageFull,
            "the disk of the server is full; nothing of the request was stored, reads go on",
        ),
        StoreError::CommitFailed(_) | StoreError::ReadOnly(_) => {
            tracing::error!(%error, "the store refuses events");
            Failure::new(
                Code::DataUnavailable,
                "the store cannot write; nothing of the request was stored, reads go on",
            )
        }
        StoreError::Unconfirmed(_) => {
            tracing::error!(%error, "the store does not know what is stored");
            Failure::new(
                Code::Unconfirmed,
                "a write failed in the middle, and it is not known whether it is stored; send the request again with the \
                 same Idempotency-Key: if it had none, it may be stored twice",
            )
        }
        StoreError::KeyReused => Failure::new(
            Code::Conflict,
            "the Idempotency-Key was used for another body; nothing of the request was stored, give each request a key \
             of its own",
        )
        .about("idempotency-key"),
        _ => {
            tracing::error!(%error, "the store failed");
            Failure::new(Code::Internal, "the store failed; the server's log has the details")
        }
    }
}
