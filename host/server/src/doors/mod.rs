//! The doors through which logs come in: who may send what where, and what is answered.
//!
//! The way of a request is the same at every door: authenticate, find the source, and only then
//! read the body; cut it into events; store those that can be stored and name the others. What was
//! accepted is on stable storage when the answer goes out.

mod batch;
mod body;
mod elements;
mod json;
mod key;
pub(crate) mod otlp;
mod otlp_json;
mod otlp_protobuf;
mod otlp_record;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_model::{Code, Failure, nearest};
use tidegate_store::RequestKey;

use self::batch::{Batch, Outcome};
pub(crate) use self::body::BodyRoom;
use self::body::Received;
use self::key::Name;
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::{Refusal, of_store};
use crate::rate::Share;
use crate::tokens::Access;

/// Bodies from so many bytes on are read on a thread that may block: other connections go on.
const BLOCKING_BYTES: usize = 64 << 10;
/// Refused events that an answer names; all are counted.
const NAMED: usize = 100;
/// The parameters of the query string that name a source, the first that is there wins.
const IN_QUERY: [&str; 4] = ["source_name", "collection_name", "source", "collection"];

/// `POST /api/logs` and its other names.
pub(crate) async fn logs(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, Refusal> {
    let (head, mut body) = request.into_parts();
    match take(&app, &head, &mut body).await {
        Ok(outcome) => Ok(Json(answer(&outcome))),
        Err(failure) => {
            body::drain(&mut body).await;
            Err(failure.into())
        }
    }
}

async fn take(app: &App, head: &Parts, body: &mut Body) -> Result<Outcome, Failure> {
    let sender = Sender::of(app, head)?;
    let source = sender.asked.as_ref().map(|asked| find_source(app, &sender.access, asked)).transpose()?;
    let name = Name::of(&head.headers, &sender.access.identity)?;
    let received = body::read(&app.bodies, &head.headers, body, app.options.ingest.max_body).await?;
    let by_line = is_by_line(&head.headers);
    let count = received.bytes.len();
    let (bytes, batch) = begin(app, received);
    let cut = move || Ok((name.map(|name| name.with(&bytes)), json::parse(&bytes, by_line, batch)?));
    let (key, parsed) = away(&app.bodies, count, cut).await?;
    let source = match (source, parsed.source) {
        (Some(source), _) => source,
        (None, Some(asked)) => find_source(app, &sender.access, &asked)?,
        (None, None) => return Err(no_source()),
    };
    let outcome = store(app, &source, parsed.batch, key).await?;
    outcome.count(app, count);
    Ok(outcome)
}

/// What is not there is not said: clients that know the first three fields only see no others.
fn answer(outcome: &Outcome) -> Value {
    let errors = outcome.refused.iter().take(NAMED);
    let errors: Vec<Value> = errors.map(|refused| json!({"index": refused.index, "message": refused.reason})).collect();
    let fields = [
        ("message", Some(Value::from("Logged!"))),
        ("accepted", Some(outcome.accepted.into())),
        ("rejected", Some(outcome.refused.len().into())),
        ("unread_times", (outcome.unread_times > 0).then(|| outcome.unread_times.into())),
        ("future_times", (outcome.future_times > 0).then(|| outcome.future_times.into())),
        ("errors", (!errors.is_empty()).then(|| errors.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Who sends, and to which source.
struct Sender {
    access: Arc<Access>,
    /// The name or UUID of the source in the query string or a header.
    asked: Option<String>,
}

impl Sender {
    /// # Errors
    /// [`Code::Unauthorized`] without a valid token.
    fn of(app: &App, head: &Parts) -> Result<Self, Failure> {
        // Only what is known is kept: anybody may send thousands of other names.
        let pairs = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
        let query: HashMap<Cow<'_, str>, Cow<'_, str>> =
            pairs.filter(|(name, _)| *name == "api_key" || IN_QUERY.contains(&&**name)).collect();
        let now = app.clock.now();
        let has_header = head.headers.contains_key("x-api-key") || head.headers.contains_key(header::AUTHORIZATION);
        let access = match query.get("api_key") {
            Some(key) if !has_header => {
                if !app.options.ingest.key_in_query {
                    let message = "the access token is not taken from the query string (?api_key=) here; send it as X-API-KEY or as \
                                   Authorization: Bearer, or have the server's setting ingest.key_in_query set to true";
                    return Err(Failure::new(Code::Unauthorized, message));
                }
                let mut headers = HeaderMap::new();
                if let Ok(key) = HeaderValue::from_str(key) {
                    headers.insert(HeaderName::from_static("x-api-key"), key);
                }
                authenticate(app, &headers, now)?
            }
            _ => authenticate(app, &head.headers, now)?,
        };
        app.take_share(Share::Ingest)?;
        let in_query = IN_QUERY.iter().find_map(|name| query.get(*name).filter(|source| !source.is_empty()));
        let in_header = ["x-source-name", "x-source", "x-collection"];
        let in_header = || {
            let mut named = in_header.iter().filter_map(|name| head.headers.get(*name)?.to_str().ok());
            named.find(|source| !source.is_empty())
        };
        Ok(Self { access, asked: in_query.map(|source| &**source).or_else(in_header).map(str::to_owned) })
    }
}

fn no_source() -> Failure {
    let message = "name the source: ?source_name=NAME, ?source=UUID, or the header x-source-name";
    Failure::new(Code::InvalidParameter, message).about("source_name")
}

/// The name of the source that is asked for by name or UUID.
///
/// # Errors
/// [`Code::NotFound`] for a token that may see all sources. To others, a source that is not there
/// and one that they may not send to are the same: [`Code::Unauthorized`].
fn find_source(app: &App, access: &Access, asked: &str) -> Result<String, Failure> {
    let source = app.store.source(asked);
    if access.is_private() {
        return source.map(|source| source.name).ok_or_else(|| {
            let names: Vec<String> = app.store.sources().into_iter().map(|source| source.name).collect();
            let mut message = format!("there is no source {asked}");
            if let Some(near) = nearest(asked, names.iter().map(String::as_str)) {
                message.push_str(&format!("; did you mean {near}?"));
            }
            Failure::new(Code::NotFound, message).about(asked)
        });
    }
    let allowed = source.filter(|source| access.may_ingest(&source.name, Some(source.id)));
    allowed.map(|source| source.name).ok_or_else(|| {
        let message = "there is no source of this name that the access token may send events to; it needs the scope ingest, or ingest:source:NAME";
        Failure::new(Code::Unauthorized, message).about(asked)
    })
}

fn is_by_line(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    ]
    .contains(&kind.as_str())
}

/// A body, and the batch for what is cut out of it. Whoever cuts drops the body after it.
fn begin(app: &App, received: Received) -> (Bytes, Batch) {
    let Received { bytes, part } = received;
    let batch = Batch::new(app.store.intake(app.clock.now()), part, bytes.len());
    (bytes, batch)
}

/// Runs what takes time in proportion to `bytes`, away from the connections where that is much, and
/// there on few threads at once.
async fn away<T: Send + 'static>(
    room: &BodyRoom,
    bytes: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if bytes < BLOCKING_BYTES {
        return work();
    }
    let turn = room.turn().await;
    let work = move || {
        // Goes on when the sender has gone.
        let _turn = turn;
        work()
    };
    off_connections(bytes, work).await
}

/// The same for bodies that do not come from senders of logs.
pub(crate) async fn off_connections<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    if bytes < BLOCKING_BYTES {
        return work();
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Failure::new(Code::Internal, "reading the body failed; nothing of it was stored"))?
}

/// Stores the events of a request.
///
/// # Errors
/// The store's; [`Code::InvalidBody`] when there were events and none can be stored.
async fn store(app: &App, source: &str, batch: Batch, key: Option<RequestKey>) -> Result<Outcome, Failure> {
    let (intake, _part) = batch.into_parts();
    Outcome::of(app.store.ingest_once(source, intake, key).await.map_err(of_store)?)
}
