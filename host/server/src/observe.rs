//! What is known of each request, while it runs and afterwards: its id, one line in the log, its
//! numbers in the metrics.
//!
//! Those who find something out on the way (who calls, which endpoint, whether the answer was kept)
//! note it with [`note`], from wherever they are in the request's task; nothing is handed through
//! for it. The line is written when the answer is through, so that it tells what was really
//! sent; a caller who left before there was an answer is told as status 499.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_model::{Code, Errors, Failure};
use tidegate_runtime::Class;
use tracing::{Instrument, Span};
use uuid::Uuid;

use crate::answer::Format;
use crate::app::App;
use crate::connection::Stranger;
use crate::errors::TrueStatus;
use crate::metrics::Answered;
use crate::rate::{Identity, Left, Share};
use crate::serve::Peer;

/// The header of a request's id.
const REQUEST_ID: &str = "x-request-id";
/// The longest id that is taken from a caller.
const LONGEST_ID: usize = 128;
/// The status of a request whose caller left before it was answered.
const LEFT: u16 = 499;

/// What was found out about a request.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// The token's identity; what it counts for.
    pub(crate) identity: Option<Identity>,
    /// The token's id in log lines; never the token.
    pub(crate) token: Option<String>,
    /// The endpoint's name.
    pub(crate) endpoint: Option<String>,
    /// Whether the answer was kept: `hit`, `stale`, `miss`.
    pub(crate) cache: Option<&'static str>,
    /// With which status errors are answered, as far as the token and the endpoint say so.
    pub(crate) errors: Option<Errors>,
    /// The format of the answer.
    pub(crate) format: Option<Format>,
    /// How the component ended, where it did not answer.
    pub(crate) ended: Option<Class>,
    /// What is left of the token's share.
    left: Option<Left>,
    /// The request's connection, while it counts among those without a valid token.
    stranger: Option<Arc<Stranger>>,
}

tokio::task_local! {
    static NOTES: Arc<Mutex<Notes>>;
}

/// Notes something about the request that runs in this task; nothing happens outside of one.
pub(crate) fn note(change: impl FnOnce(&mut Notes)) {
    let _ = NOTES.try_with(|notes| change(&mut notes.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// What was noted of how the request is answered: its errors, its format.
pub(crate) fn chosen() -> (Option<Errors>, Option<Format>) {
    let mut chosen = (None, None);
    note(|notes| chosen = (notes.errors, notes.format));
    chosen
}

/// Notes whose token it is: its id, or for one of the environment the beginning of its hash.
pub(crate) fn note_caller(identity: Identity, id: Option<Uuid>) {
    note(|notes| {
        notes.identity = Some(identity);
        if let Some(stranger) = notes.stranger.take() {
            stranger.is_known();
        }
        let short = || crate::tokens::hex(identity.get(..6).unwrap_or_default());
        notes.token = Some(id.map_or_else(short, |id| id.to_string()));
    });
}

impl App {
    /// Takes this request from the share of its token, which [`note_caller`] has noted.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`].
    pub(crate) fn take_share(&self, share: Share) -> Result<(), Failure> {
        let mut identity = None;
        note(|notes| identity = notes.identity);
        let Some(identity) = identity else { return Ok(()) };
        let (taken, left) = self.rates.take(share, identity, Instant::now());
        note(|notes| notes.left = left);
        taken
    }
}

/// One request, from its head to the end of its answer.
struct Record {
    app: Arc<App>,
    began: Instant,
    span: Span,
    method: Method,
    route: Option<MatchedPath>,
    path: String,
    peer: Option<String>,
    notes: Arc<Mutex<Notes>>,
    status: u16,
    code: Option<Code>,
    bytes: u64,
}

impl Drop for Record {
    fn drop(&mut self) {
        let taken = self.began.elapsed();
        let route = self.route.as_ref().map_or("none", MatchedPath::as_str);
        let method = method(&self.method);
        self.app.metrics.answered(&Answered { route, method, status: self.status, code: self.code, taken });
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { path, status, bytes, .. } = self;
        let (path, status, bytes) = (path.as_str(), *status, *bytes);
        let milliseconds = (taken.as_secs_f64() * 1e6).round() / 1e3;
        let (token, endpoint, cache) = (notes.token.as_deref(), notes.endpoint.as_deref(), notes.cache);
        let (code, peer) = (self.code.map(Code::name), self.peer.as_deref());
        let (class, reason) = (notes.ended.map(Class::name), notes.ended.map(Class::reason));
        let _entered = self.span.enter();
        crate::traces::end(&self.span, status);
        // Probes come every few seconds; they are told where they fail.
        if status == 200 && matches!(route, "/health" | "/ready" | "/metrics") {
            tracing::debug!(method, route, path, status, bytes, milliseconds, peer, "request");
        } else {
            tracing::info!(
                method,
                route,
                path,
                status,
                bytes,
                milliseconds,
                token,
                endpoint,
                cache,
                code,
                class,
                reason,
                peer,
                "request"
            );
        }
    }
}

/// Methods as labels: a caller may send any word.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

/// The caller's id of the request, if it can stand in a log line, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        !bytes.is_empty() && bytes.len() <= LONGEST_ID && bytes.iter().all(u8::is_ascii_graphic)
    };
    headers.get(REQUEST_ID).filter(sane).cloned().unwrap_or_else(|| {
        let id = Uuid::new_v4().to_string();
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// The outermost middleware.
pub(crate) async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    // An error span, so that it is there at every log level.
    let span = tracing::error_span!("request", id = id.to_str().unwrap_or_default(), endpoint = tracing::field::Empty);
    let route = request.extensions().get::<MatchedPath>().cloned();
    crate::traces::begin(&span, &request, route.as_ref().map_or("none", MatchedPath::as_str));
    let stranger = request.extensions().get::<Arc<Stranger>>().cloned();
    let notes = Arc::new(Mutex::new(Notes { stranger, ..Notes::default() }));
    let mut record = Record {
        app,
        began: Instant::now(),
        span: span.clone(),
        method: request.method().clone(),
        route,
        path: request.uri().path().to_owned(),
        peer: request.extensions().get::<Peer>().map(|peer| peer.0.to_string()),
        notes: Arc::clone(&notes),
        status: LEFT,
        code: None,
        bytes: 0,
    };
    let mut response = NOTES.scope(Arc::clone(&notes), next.run(request)).instrument(span).await;
    let left = notes.lock().unwrap_or_else(PoisonError::into_inner).left;
    if let Some(left) = left {
        left.write(response.headers_mut());
    }
    response.headers_mut().insert(REQUEST_ID, id);
    // An error that is sent with status 200 is an error here.
    let status = response.extensions().get::<TrueStatus>().map_or(response.status(), |own| own.0);
    record.status = status.as_u16();
    record.code = response.extensions().get::<Code>().copied();
    response.map(|body| Body::new(Recorded { body, record }))
}

/// A body that takes the record of its request along.
struct Recorded {
    body: Body,
    record: Record,
}

impl HttpBody for Recorded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        self.record.bytes += tidegate_model::number(bytes);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn only_sane_ids_are_taken() {
        let id = |text: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(text).unwrap());
            request_id(&headers).as_bytes().to_vec()
        };
        assert_eq!(id(b"abc-123"), b"abc-123");
        assert_eq!(id(&[b'a'; 128]), [b'a'; 128]);
        for bad in [&b""[..], b"two words", &[b'a'; 129], b"caf\xc3\xa9", b"a\tb"] {
            assert_eq!(id(bad).len(), 36, "a new one instead of {bad:?}");
        }
    }
}
