//! Parts of the steps of a request: who sends it, reading its events, and storing them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, header};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::of_store;
use tidegate_service::tokens::Access;
use tidegate_service::{BLOCKING_BYTES, off_connections};
use tidegate_store::{Ingested, RequestKey};

use crate::batch::Batch;
use crate::body_memory::BodyMemory;
use crate::credentials::{self, KeyPlace};
use crate::service::DoorService;

/// The sender of a request, and the source that its head names.
pub(crate) struct Sender {
    pub(crate) access: Arc<Access>,
    /// The name or UUID of the source in the query string or a header.
    pub(crate) source: Option<String>,
    /// Why it may not send now: it is beyond the rate limit of its token.
    pub(crate) limited: Option<Failure>,
}

impl Sender {
    /// The sender of a request. `keys` are the places of its protocol for the token, besides those of all;
    /// `sources` are the query parameters that name a source.
    ///
    /// # Errors
    /// [`Code::Unauthorized`] without a valid token.
    pub(crate) fn of(
        service: &dyn DoorService,
        head: &Parts,
        keys: &[KeyPlace],
        sources: &[&str],
    ) -> Result<Self, Failure> {
        // Only the known parameters are kept: anybody, even without a token, may send thousands of others.
        let pairs = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
        let query: HashMap<Cow<'_, str>, Cow<'_, str>> =
            pairs.filter(|(name, _)| *name == "api_key" || sources.contains(&&**name)).collect();
        let access = access_of(service, &head.headers, query.get("api_key").map(|key| &**key), keys)?;
        let limited = service.limit_rate(access.identity).err();
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
pub(crate) fn access_of(
    service: &dyn DoorService,
    headers: &HeaderMap,
    in_query: Option<&str>,
    keys: &[KeyPlace],
) -> Result<Arc<Access>, Failure> {
    let is_usual = credentials::is_usual(headers);
    let own = if is_usual { None } else { credentials::token(headers, keys) };
    let has_header = is_usual || headers.contains_key(header::AUTHORIZATION);
    match (own, in_query) {
        (Some(key), _) => service.access_of_token(&key),
        (None, Some(key)) if !has_header => {
            if !service.options().ingest.key_in_query {
                let message = "the access token is not taken from the query string (?api_key=) here; send it as X-API-KEY or as \
                               Authorization: Bearer, or have the server's setting ingest.key_in_query set to true";
                return Err(Failure::new(Code::Unauthorized, message));
            }
            service.access_of_token(key)
        }
        _ => service.access_of(headers),
    }
}

/// Runs `work`, which splits a body of `bytes` bytes into events. If these are many, it runs outside the threads that
/// serve connections, and on few threads at once.
pub(crate) async fn cut<T: Send + 'static>(
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
pub(crate) async fn store(
    service: &dyn DoorService,
    source: &str,
    batch: Batch,
    key: Option<RequestKey>,
) -> Result<Ingested, Failure> {
    let (intake, _reservation) = batch.into_parts();
    service.ingest(source, intake, key).await.map_err(of_store)
}
