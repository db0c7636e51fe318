//! The steps that all ingest routes share: authenticate the sender, find the source, split the body into events, store
//! them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::failures::{of_store, unknown_source};
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::Access;
use tidegate_store::{RequestKey, Store};

use super::batch::{Batch, Outcome};
use super::body_memory::{BodyMemory, BodyReservation};
use super::credentials::{self, KeyPlace};
use crate::app::App;
use crate::auth::{authenticate, authenticate_stored};
use crate::blocking_body::{BLOCKING_BYTES, off_connections};

/// The query parameters that name a source. The first one in this order that is not empty is used.
pub(super) const SOURCE_PARAMETERS: &[&str] = &["source_name", "collection_name", "source", "collection"];

/// The sender of a request, and the source that its head names.
pub(super) struct Sender {
    pub(super) access: Arc<Access>,
    /// The name or UUID of the source in the query string or a header.
    pub(super) source: Option<String>,
    /// Why it may not send now: it is beyond the rate limit of its token.
    pub(super) limited: Option<Failure>,
}

impl Sender {
    /// The sender of a request. `keys` are the places of its protocol for the token, besides those of all;
    /// `sources` are the query parameters that name a source.
    ///
    /// # Errors
    /// [`Code::Unauthorized`] without a valid token.
    pub(super) fn of(app: &App, head: &Parts, keys: &[KeyPlace], sources: &[&str]) -> Result<Self, Failure> {
        // Only the known parameters are kept: anybody, even without a token, may send thousands of others.
        let pairs = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
        let query: HashMap<Cow<'_, str>, Cow<'_, str>> =
            pairs.filter(|(name, _)| *name == "api_key" || sources.contains(&&**name)).collect();
        let access = access_of(&app.service, &head.headers, query.get("api_key").map(|key| &**key), keys)?;
        let limited = app.limit_rate(RequestClass::Ingest, access.identity).err();
        let in_query = sources.iter().find_map(|name| query.get(*name).filter(|source| !source.is_empty()));
        let in_header = ["x-source-name", "x-source", "x-collection"];
        let in_header = || {
            let mut named = in_header.iter().filter_map(|name| head.headers.get(*name)?.to_str().ok());
            named.find(|source| !source.is_empty())
        };
        let source = in_query.map(|source| &**source).or_else(in_header).map(str::to_owned);
        Ok(Self { access, source, limited })
    }
}

/// The access of a request's token, which is in the header of all routes, in one of `keys`, or `in_query`.
///
/// # Errors
/// [`Code::Unauthorized`].
pub(super) fn access_of(
    service: &Service,
    headers: &HeaderMap,
    in_query: Option<&str>,
    keys: &[KeyPlace],
) -> Result<Arc<Access>, Failure> {
    let is_usual = credentials::is_usual(headers);
    let own = if is_usual { None } else { credentials::token(headers, keys) };
    let has_header = is_usual || headers.contains_key(header::AUTHORIZATION);
    match (own, in_query) {
        (Some(key), _) => authenticate_stored(service, &key),
        (None, Some(key)) if !has_header => {
            if !service.options.ingest.key_in_query {
                let message = "the access token is not taken from the query string (?api_key=) here; send it as X-API-KEY or as \
                               Authorization: Bearer, or have the server's setting ingest.key_in_query set to true";
                return Err(Failure::new(Code::Unauthorized, message));
            }
            authenticate_stored(service, key)
        }
        _ => authenticate(service, headers),
    }
}

/// Finds a source by its name or UUID. Returns its name.
///
/// # Errors
/// [`Code::NotFound`] for a token that may see all sources. For other tokens, a source that does not exist and one that
/// they may not send to are not distinguished: [`Code::Unauthorized`]. [`Code::Forbidden`] if the token sends logs of one
/// tenant only, and the source cannot hold them.
pub(super) fn find_source(store: &Store, access: &Access, asked: &str) -> Result<String, Failure> {
    let source = store.source(asked);
    if access.is_private() {
        return source.map(|source| source.name).ok_or_else(|| {
            let names: Vec<String> = store.sources().into_iter().map(|source| source.name).collect();
            unknown_source(asked, &names)
        });
    }
    let allowed = source.filter(|source| access.may_ingest(&source.name, Some(source.id)));
    let source = allowed.map(|source| source.name).ok_or_else(|| {
        let message = "there is no source of this name that the access token may send events to; it needs the scope ingest, or ingest:source:NAME";
        Failure::new(Code::Unauthorized, message).about(asked)
    })?;
    // What is sent is held to it in the store. Here it is told before anything is read.
    store.sender_policy(&source, &access.audience()).map_err(of_store)?;
    Ok(source)
}

/// The batch for the events that this sender has in a body of so many bytes, which are for this source as far as is known.
pub(super) fn batch(
    service: &Service,
    access: &Access,
    source: Option<&str>,
    bytes: usize,
    reservation: BodyReservation,
) -> Batch {
    let (now, audience) = (service.clock.now(), access.audience());
    let intake = match source {
        Some(source) => service.store.intake_of(source, now, bytes, audience),
        None => service.store.intake(now, audience),
    };
    Batch::new(intake, reservation, bytes)
}

/// Runs `work`, which splits a body of `bytes` bytes into events. If these are many, it runs outside the threads that
/// serve connections, and on few threads at once.
pub(super) async fn cut<T: Send + 'static>(
    memory: &BodyMemory,
    bytes: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if bytes < BLOCKING_BYTES {
        return work();
    }
    let turn = memory.turn().await;
    let work = move || {
        // The work continues when the client disconnects, so it holds the permit until it ends.
        let _turn = turn;
        work()
    };
    off_connections(bytes, work).await
}

/// Stores the events of a request.
///
/// # Errors
/// Those of the store.
pub(super) async fn store(
    store: &Store,
    source: &str,
    batch: Batch,
    key: Option<RequestKey>,
) -> Result<Outcome, Failure> {
    let (intake, _reservation) = batch.into_parts();
    Ok(Outcome::of(store.ingest_once(source, intake, key).await.map_err(of_store)?))
}
