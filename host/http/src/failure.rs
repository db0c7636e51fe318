//! Converts a failure to an HTTP response: status, headers and the JSON document. No other file does this.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::{document, text};

/// What a refusal is about that is about a token which was shown and is not taken.
pub(crate) const TOKEN: &str = "access token";

/// A failure, as handlers return it.
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
        // For the metrics, the log line, and the middleware that sends errors in another form.
        response.extensions_mut().insert(failure.code);
        response.extensions_mut().insert(ErrorText(text(&failure)));
        let headers = response.headers_mut();
        if let Some(seconds) = failure.retry_after.or(failure.code.retry_after()) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if failure.code == Code::Unauthorized {
            // RFC 6750: a request that showed no token is told no more than that one is needed.
            let challenge =
                if failure.location.as_deref() == Some(TOKEN) { "Bearer error=\"invalid_token\"" } else { "Bearer" };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if failure.code == Code::InvalidToken {
            // RFC 6750. The message is ours: it has no sign that would have to be escaped.
            let text = format!("Bearer error=\"invalid_token\", error_description=\"{}\"", failure.message);
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(header::WWW_AUTHENTICATE, value);
            }
        }
        response
    }
}

/// The text of a refusal, as an extension of its response. The middleware that writes errors in another form reads it.
#[derive(Debug, Clone)]
pub(crate) struct ErrorText(pub(crate) String);
