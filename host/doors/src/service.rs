//! What the doors and syslog need of the service that stores what comes in.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use tidegate_model::{Audience, Failure};
use tidegate_service::tokens::Access;
use tidegate_service::{Identity, Options};
use tidegate_store::{Ingested, Intake, RequestKey, StoreError};

use crate::body_memory::BodyMemory;

/// What the doors and syslog need of the service that stores what comes in.
#[async_trait]
pub trait DoorService: Debug + Send + Sync {
    /// The settings.
    fn options(&self) -> &Options;

    /// The time, in microseconds since 1970.
    fn now(&self) -> i64;

    /// The memory budget for the bodies of all requests.
    fn bodies(&self) -> &BodyMemory;

    /// The access of the token that a request has where all routes take it.
    ///
    /// # Errors
    /// [`tidegate_model::Code::Unauthorized`], and those of tokens of issuers.
    fn access_of(&self, headers: &HeaderMap) -> Result<Arc<Access>, Failure>;

    /// The access of a token of this service that stands elsewhere.
    ///
    /// # Errors
    /// [`tidegate_model::Code::Unauthorized`].
    fn access_of_token(&self, token: &str) -> Result<Arc<Access>, Failure>;

    /// Takes a request, or a batch of messages, from the share of who sends it.
    ///
    /// # Errors
    /// [`tidegate_model::Code::TooManyRequests`].
    fn limit_rate(&self, sender: Identity) -> Result<(), Failure>;

    /// The name of the source that a setting names, if there is one.
    fn source_of_settings(&self, named: &str) -> Option<String>;

    /// The name of the source that a sender means by its name or UUID.
    ///
    /// # Errors
    /// Those of [`tidegate_service::Service::source_for`].
    fn source_for(&self, sender: &Access, asked: &str) -> Result<String, Failure>;

    /// An empty intake for events of this audience, which come now, are about so many bytes, and go to this source as far as is
    /// known.
    fn intake(&self, source: Option<&str>, bytes: usize, audience: Audience) -> Intake;

    /// Stores events durably; those of a key only once.
    ///
    /// # Errors
    /// Those of the store.
    async fn ingest(&self, source: &str, intake: Intake, key: Option<RequestKey>) -> Result<Ingested, StoreError>;

    /// Counts what came in at a door, by its name.
    fn count(&self, door: &'static str, counted: Counted<'_>);

    /// Counts a connection of syslog as open until the result is dropped.
    fn count_connection(&self) -> Box<dyn Any + Send + Sync>;
}

/// What is counted of a door.
#[derive(Debug, Clone, Copy)]
pub enum Counted<'i> {
    /// The events of a source.
    Ingested(&'i Ingested),
    /// Events that came to no source.
    RefusedEvents(usize),
    /// The bytes of a body that was acknowledged, decompressed.
    Bytes(usize),
    /// A request that was refused whole.
    RefusedRequest,
    /// Messages of syslog that are not kept, with the reason.
    NotKept(&'static str, usize),
    /// A connection of syslog that was closed because there are too many.
    RefusedConnection,
}
