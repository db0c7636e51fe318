//! What a door is: a protocol in which events come in.
//!
//! A door says where its protocol has the token and the source, reads the body into events, and shapes the answers.
//! Everything else is the same for all doors and is done by [`super::receive`].

use std::fmt::Debug;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;

use super::batch::Outcome;
use super::body::Encoding;
use super::body_memory::BodyReservation;
use super::body_parts::Cutter;
use super::credentials::KeyPlace;
use super::events::{Events, Item};
use super::intake::SOURCE_PARAMETERS;
use crate::failure::Refusal;

/// A protocol in which events come in.
pub(crate) trait Door: Debug + Send + Sync {
    /// The name of the door in metrics, and the beginning of its setting `NAME_source`.
    fn name(&self) -> &'static str;

    /// The paths at which it takes events, by `POST`.
    fn paths(&self) -> &'static [&'static str];

    /// Whether `PUT` means the same as `POST`.
    fn takes_put(&self) -> bool {
        false
    }

    /// The places of the protocol for the token, besides those that all doors have.
    fn keys(&self) -> &'static [KeyPlace] {
        &[]
    }

    /// The query parameters that name the source. The first one that is not empty is used.
    fn source_parameters(&self) -> &'static [&'static str] {
        SOURCE_PARAMETERS
    }

    /// How senders of the protocol name the source, for those that do not.
    fn naming(&self) -> &'static str {
        "?source_name=NAME, ?source=UUID, or the header x-source-name"
    }

    /// The source that the head names in a way of the protocol, if it is not in a parameter or in `X-Source-Name`.
    fn named_source(&self, _head: &Parts) -> Option<String> {
        None
    }

    /// A name in the head that may be that of a source. If it is none, the request goes to the default source, if there is one.
    fn suggested_source(&self, _head: &Parts) -> Option<String> {
        None
    }

    /// The source of requests that name none, by the settings; empty if there is none.
    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str;

    /// Whether the body may name the source of the request, or events their own.
    fn body_names_sources(&self) -> bool {
        false
    }

    /// Whether the door tells the fate of each event ([`Events::note`]). Then too much at once is told of each event, too.
    fn tells_each(&self) -> bool {
        false
    }

    /// The header with the name of the request, under which it is stored only once.
    fn request_name(&self) -> &'static str {
        "idempotency-key"
    }

    /// Checks the head before the body is read. Returns how a body is compressed that does not declare it.
    ///
    /// # Errors
    /// [`Code::UnsupportedMediaType`] for a form of the body that the protocol does not have.
    fn check(&self, _head: &Parts) -> Result<Encoding, Failure> {
        Ok(Encoding::Identity)
    }

    /// What finds the ends of events in a body that may be of any length. Then its parts are read and stored one by one, and only
    /// the last one's [`Delivered`] is told: a sender that is refused begins from the front, and each event has a name.
    fn cutter(&self) -> Option<Box<dyn Cutter>> {
        None
    }

    /// Whether a request succeeds though all of its events are refused: its sender would send them again for ever, and nothing
    /// behind them.
    fn passes_over_refused(&self) -> bool {
        false
    }

    /// Whether reading the body may take long though the body is short.
    fn is_long_work(&self, _body: &Bytes) -> bool {
        false
    }

    /// Reads the body into events, one at a time. An event that cannot be read is refused alone. It may run on a
    /// thread for long work.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] if the body is not of the protocol; those of [`super::batch::Batch::checked`].
    fn read(&self, head: &Parts, body: &Bytes, events: Events) -> Result<Events, Failure>;

    /// The answer to a request of which at least one event was accepted, or which had none: success, or its sender would send the
    /// accepted events again. What is refused is told in the body ([`super::logged`]). A door that [`Self::tells_each`] tells
    /// the fate of each event ([`Delivered::items`]), also where none was accepted.
    fn accepted(&self, head: &Parts, delivered: &Delivered) -> Response;

    /// Adds what the settings want in every answer of this door.
    fn finish(&self, _options: &DoorOptions, _response: &mut Response) {}

    /// The answer to a request that was refused as a whole.
    fn refused(&self, _head: &Parts, failure: Failure) -> Response {
        Refusal(failure).into_response()
    }
}

impl Delivered {
    /// What became of the events of the request's own source.
    pub(super) fn own(&self) -> &Outcome {
        const NOTHING: &Outcome =
            &Outcome { accepted: 0, refused: Vec::new(), unread_times: 0, future_times: 0, early_times: 0 };
        self.outcomes.first().and_then(|own| own.as_ref().ok()).unwrap_or(NOTHING)
    }
}

/// What became of the events of a request.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// What became of the events of the request's own source, and then of those of each other source, by
    /// [`Place::source`](super::events::Place). The first is there always.
    pub(super) outcomes: Vec<Result<Outcome, Failure>>,
    /// The events in the order of the request, if the door notes them.
    pub(super) items: Vec<Item>,
    /// The memory of `items`, and then of the answer that tells of them, until it is sent.
    pub(super) items_memory: Option<BodyReservation>,
}

/// The reason for refusing a request that names no source.
pub(super) fn no_source(door: &dyn Door) -> Failure {
    let (name, naming) = (door.name(), door.naming());
    let message = format!(
        "name the source: {naming}; or set one for all requests that name none: {name}_source in the section [doors] of \
         the server's settings"
    );
    Failure::new(Code::InvalidParameter, message).about("source_name")
}

/// A failure as senders know it that try again after 429 and 503 only: a full disk must not make them discard their
/// logs.
pub(super) fn as_unavailable(mut failure: Failure) -> Failure {
    if failure.code == Code::StorageFull {
        failure.retry_after = failure.retry_after.or(failure.code.retry_after());
        failure.code = Code::DataUnavailable;
    }
    failure
}

/// The answer to a refused request, with another body: the status and the headers are those of all routes.
pub(super) fn refusal_with(failure: Failure, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Refusal(failure).into_response();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = Body::from(body);
    response
}

/// Adds the challenge for a name and a password to a refusal for want of a token: some clients send what they have only when
/// they are asked for it in this way.
pub(super) fn offer_basic(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"tidegate\""));
    }
}

/// The media type of the body, in lower case and without parameters; empty if there is none.
pub(super) fn content_type(head: &Parts) -> String {
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}
