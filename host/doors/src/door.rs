//! What a door is: a protocol in which events come in.
//!
//! A door says where its protocol has the token and the source, reads the body into events, and shapes the answers.
//! Everything else is the same for all doors and is done by [`crate::receive`].

use std::fmt::Debug;

use bytes::Bytes;
use http::header;
use http::request::Parts;
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;
use tidegate_store::Ingested;

use crate::answer::Answer;
use crate::body::Encoding;
use crate::body_memory::BodyReservation;
use crate::body_parts::Cutter;
use crate::credentials::KeyPlace;
use crate::events::{Events, Item};
use crate::service::DoorService;

/// The methods of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// `GET`, and so `HEAD`.
    Get,
    /// `POST`.
    Post,
    /// `POST` or `PUT`, which mean the same.
    PostOrPut,
    /// All of them.
    Any,
}

/// Answers what senders ask before they send; no events come in.
pub(crate) type Question = fn(&dyn DoorService, &Parts) -> Answer;

/// What there is to know of a door before a request comes.
#[derive(Debug)]
pub(crate) struct Profile {
    /// The name of the door in metrics, and the beginning of its setting `NAME_source`.
    pub(crate) name: &'static str,
    /// The paths at which it takes events, by `POST`.
    pub(crate) paths: &'static [&'static str],
    /// Whether `PUT` means the same as `POST`.
    pub(crate) takes_put: bool,
    /// The places of the protocol for the token, besides those that all doors have.
    pub(crate) keys: &'static [KeyPlace],
    /// The query parameters that name the source. The first one that is not empty is used.
    pub(crate) source_parameters: &'static [&'static str],
    /// How senders of the protocol name the source, for those that do not.
    pub(crate) naming: &'static str,
    /// The door that has the setting with the source of requests that name none, if it is not the door itself.
    pub(crate) source_setting: Option<&'static str>,
    /// Whether the body may name the source of the request, or events their own.
    pub(crate) body_names_sources: bool,
    /// Whether the door tells the fate of each event ([`Events::note`]). Then too much at once is told of each event, too.
    pub(crate) tells_each: bool,
    /// The header with the name of the request, under which it is stored only once.
    pub(crate) request_name: &'static str,
    /// Whether a request succeeds though all of its events are refused: its sender would send them again for ever, and
    /// nothing behind them.
    pub(crate) passes_over_refused: bool,
}

impl Profile {
    /// That of most doors, which differ in their name and paths.
    pub(crate) const USUAL: Self = Self {
        name: "",
        paths: &[],
        takes_put: false,
        keys: &[],
        source_parameters: &["source_name", "collection_name", "source", "collection"],
        naming: "?source_name=NAME, ?source=UUID, or the header x-source-name",
        source_setting: None,
        body_names_sources: false,
        tells_each: false,
        request_name: "idempotency-key",
        passes_over_refused: false,
    };

    /// The door that has the setting with the source of requests that name none.
    pub(crate) fn source_setting(&self) -> &'static str {
        self.source_setting.unwrap_or(self.name)
    }
}

/// A protocol in which events come in.
pub(crate) trait Door: Debug + Send + Sync {
    /// What there is to know before a request comes.
    fn profile(&self) -> &Profile;

    /// The source that the head names in a way of the protocol, if it is not in a parameter or in `X-Source-Name`.
    fn named_source(&self, _head: &Parts) -> Option<String> {
        None
    }

    /// A name in the head that may be that of a source. If it is none, the request goes to the default source, if there is one.
    fn suggested_source(&self, _head: &Parts) -> Option<String> {
        None
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

    /// Whether reading the body may take long though the body is short.
    fn is_long_work(&self, _body: &Bytes) -> bool {
        false
    }

    /// Reads the body into events, one at a time. An event that cannot be read is refused alone. It may run on a
    /// thread for long work.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] if the body is not of the protocol.
    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure>;

    /// The answer to a request of which at least one event was accepted, or which had none: success, or its sender would send the
    /// accepted events again. What is refused is told in the body ([`crate::logged`]). A door that [`Profile::tells_each`] tells
    /// the fate of each event ([`Delivered::items`]), also where none was accepted.
    fn accepted(&self, head: &Parts, delivered: &Delivered) -> Answer;

    /// Adds what the settings want in every answer of this door.
    fn finish(&self, _options: &DoorOptions, answer: Answer) -> Answer {
        answer
    }

    /// The answer to a request that was refused as a whole.
    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        Answer::refused(failure)
    }
}

impl Delivered {
    /// What became of the events of the request's own source.
    pub(crate) fn own(&self) -> &Ingested {
        const NOTHING: &Ingested =
            &Ingested { stored: 0, refused: Vec::new(), unread_times: 0, future_times: 0, early_times: 0 };
        self.outcomes.first().and_then(|own| own.as_ref().ok()).unwrap_or(NOTHING)
    }
}

/// What became of the events of a request.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// What became of the events of the request's own source, and then of those of each other source, by
    /// [`Place::source`](crate::events::Place). The first is there always.
    pub(crate) outcomes: Vec<Result<Ingested, Failure>>,
    /// The events in the order of the request, if the door notes them.
    pub(crate) items: Vec<Item>,
    /// The memory of `items`, and then of the answer that tells of them, until it is sent.
    pub(crate) items_memory: Option<BodyReservation>,
}

/// The reason for refusing a request that names no source.
pub(crate) fn no_source(door: &Profile) -> Failure {
    let (naming, setting) = (door.naming, door.source_setting());
    let message = format!(
        "name the source: {naming}; or set one for all requests that name none: {setting}_source in the section [doors] of \
         the server's settings"
    );
    Failure::new(Code::InvalidParameter, message).about("source_name")
}

/// The media type of the body, in lower case and without parameters; empty if there is none.
pub(crate) fn content_type(head: &Parts) -> String {
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

/// That a body is not compressed unless it says so, if its media type is one that is read.
///
/// # Errors
/// [`Code::UnsupportedMediaType`] with this message otherwise.
pub(crate) fn plain_if(is_read: bool, otherwise: impl Into<String>) -> Result<Encoding, Failure> {
    match is_read {
        true => Ok(Encoding::Identity),
        false => Err(Failure::new(Code::UnsupportedMediaType, otherwise).about("content-type")),
    }
}

/// Whether the head declares one event per line.
pub(crate) fn is_by_line(head: &Parts) -> bool {
    [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    ]
    .contains(&content_type(head).as_str())
}
