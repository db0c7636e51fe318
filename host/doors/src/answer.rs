//! The answer to a request at a door: what is told, not how it is sent.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use crate::body_memory::BodyReservation;

/// Text in an answer.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";

/// The answer to a request at a door.
#[derive(Debug, Default)]
pub struct Answer {
    /// The status. Where there is a failure it is that of the failure, or 200 if the protocol tells the failure elsewhere.
    pub status: StatusCode,
    /// The headers, besides those of all refusals.
    pub headers: HeaderMap,
    /// The body. A refusal whose headers have no media type has the body of all refusals.
    pub body: Bytes,
    /// What follows the body.
    pub trailers: Option<HeaderMap>,
    /// Why the request is refused.
    pub failure: Option<Failure>,
    /// The memory of what is told, until it is sent.
    pub memory: Option<BodyReservation>,
}

impl Answer {
    /// A status without a body.
    pub(crate) fn of(status: StatusCode) -> Self {
        Self { status, ..Self::default() }
    }

    /// A status with a body of this media type.
    pub(crate) fn with(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::of(status).header(header::CONTENT_TYPE.as_str(), kind) }
    }

    /// A status with JSON.
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        Self::with(status, "application/json", serde_json::to_vec(body).unwrap_or_default())
    }

    /// The answer to a refused request, with the body of all refusals.
    pub(crate) fn refused(failure: Failure) -> Self {
        let status = status_of(&failure);
        Self { failure: Some(failure), ..Self::of(status) }
    }

    /// The answer to a refused request, with a body of its protocol.
    pub(crate) fn refused_with(failure: Failure, kind: &'static str, body: impl Into<Bytes>) -> Self {
        let status = status_of(&failure);
        Self { failure: Some(failure), ..Self::with(status, kind, body) }
    }

    /// The same as JSON, for senders that know [`as_unavailable`].
    pub(crate) fn refused_json(failure: Failure, body: impl FnOnce(&Failure) -> Value) -> Self {
        let failure = as_unavailable(failure);
        let body = body(&failure).to_string();
        Self::refused_with(failure, "application/json", body)
    }

    /// The same as a line of text.
    pub(crate) fn refused_line(failure: Failure) -> Self {
        let failure = as_unavailable(failure);
        let line = text(&failure) + "\n";
        Self::refused_with(failure, PLAIN, line)
    }

    /// The same with one more header, unless its value is none that a header may have.
    pub(crate) fn header(mut self, name: &'static str, value: impl TryInto<HeaderValue>) -> Self {
        if let Ok(value) = value.try_into() {
            self.headers.append(name, value);
        }
        self
    }

    /// The same with the challenge for a name and a password, if it is a refusal for want of a token: some clients send what they
    /// have only when they are asked for it in this way.
    pub(crate) fn offering_basic(self) -> Self {
        if self.status != StatusCode::UNAUTHORIZED {
            return self;
        }
        self.header(header::WWW_AUTHENTICATE.as_str(), "Basic realm=\"tidegate\"")
    }
}

/// The status of a refusal.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A failure as senders know it that try again after 429 and 503 only: a full disk must not make them discard their
/// logs.
pub(crate) fn as_unavailable(mut failure: Failure) -> Failure {
    if failure.code == Code::StorageFull {
        failure.retry_after = failure.retry_after.or(failure.code.retry_after());
        failure.code = Code::DataUnavailable;
    }
    failure
}
