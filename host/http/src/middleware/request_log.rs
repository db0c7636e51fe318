//! The request log: each request has an id, one log line, and its place in the metrics and traces.
//!
//! The line is written when the response is sent completely, so that it says what was really sent. A client that
//! disconnects before there is a response is logged with status 499. What handlers know about the request comes from
//! its context ([`crate::request_context`]).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_model::Code;
use tidegate_runtime::Class;
use tidegate_service::AnonymousConnection;
use tracing::{Instrument, Span};
use uuid::Uuid;

use super::error_status::TrueStatus;
use crate::app::App;
use crate::call_statistics::Call;
use crate::connection::Peer;
use crate::metrics::RequestOutcome;
use crate::rate_headers;
use crate::request_context::{CONTEXT, RequestContext};
use crate::slow_queries::Ended;
use crate::traces::{BegunSpan, EndedSpan};

/// The header of a request's id.
const REQUEST_ID: &str = "x-request-id";
/// The longest id that is taken from a caller.
const LONGEST_ID: usize = 128;
/// The most characters of a path that a line has: those of every route with names of the longest kind.
const LONGEST_PATH: usize = 1_024;
/// The status of a request whose client disconnected before it was answered.
const LEFT: u16 = 499;

/// One request, from its head to the end of its response.
struct RequestLog {
    app: Arc<App>,
    began: Instant,
    span: Span,
    /// The span that is sent, if traces are.
    trace: Option<BegunSpan>,
    method: Method,
    route: Option<MatchedPath>,
    path: String,
    peer: Option<String>,
    context: Arc<Mutex<RequestContext>>,
    status: u16,
    code: Option<Code>,
    bytes: u64,
    /// How long the head of a response took whose body lasts until the caller leaves.
    head: Option<Duration>,
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let taken = self.began.elapsed();
        let route = self.route.as_ref().map_or("none", MatchedPath::as_str);
        let method = method(&self.method);
        let answered = self.head.unwrap_or(taken);
        let outcome = RequestOutcome { route, method, status: self.status, code: self.code, taken: answered };
        self.app.metrics.answered(&outcome);
        let context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = context.endpoint_id {
            self.app.calls.add(Call { endpoint, status: self.status, cache: context.cache, taken: answered });
        }
        if let Some(query) = &context.query {
            let token = context.token.as_deref();
            self.app.slow_queries.add(query, Ended { taken, status: self.status, token, cache: context.cache });
        }
        let (path, status, bytes) = (self.path.as_str(), self.status, self.bytes);
        let milliseconds = (taken.as_secs_f64() * 1e6).round() / 1e3;
        let (token, endpoint, cache) = (context.token.as_deref(), context.endpoint.as_deref(), context.cache);
        let (code, peer) = (self.code.map(Code::name), self.peer.as_deref());
        let (class, reason) = (context.ended.map(Class::name), context.ended.map(Class::reason));
        let _entered = self.span.enter();
        if let Some(trace) = self.trace.take() {
            let route = self.route.as_ref().map(MatchedPath::as_str);
            trace.end(&EndedSpan { method, route, status, code, endpoint, is_known: token.is_some() });
        }
        // Probes come every few seconds, so successful ones are logged at debug level only.
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

/// A path as it stands in a line. A caller without a token chooses its length, too.
fn shown(path: &str) -> String {
    match path.char_indices().nth(LONGEST_PATH) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}

/// The method as a label. All unknown methods share one label, because a client may send any word.
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

/// The request id that the client sent, if it is safe in a log line, or a new one.
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
pub(crate) async fn log_request(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    // A span of level error, so that it exists at every log level.
    let span = tracing::error_span!("request", id = id.to_str().unwrap_or_default(), endpoint = tracing::field::Empty);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let anonymous = request.extensions().get::<Arc<AnonymousConnection>>().cloned();
    let context = Arc::new(Mutex::new(RequestContext { anonymous, ..RequestContext::default() }));
    let mut log = RequestLog {
        app,
        began: Instant::now(),
        span: span.clone(),
        trace: BegunSpan::of(&request),
        method: request.method().clone(),
        route,
        path: shown(request.uri().path()),
        peer: request.extensions().get::<Peer>().map(|peer| peer.address.to_string()),
        context: Arc::clone(&context),
        status: LEFT,
        code: None,
        bytes: 0,
        head: None,
    };
    let mut response = CONTEXT.scope(Arc::clone(&context), next.run(request)).instrument(span).await;
    let (rate, followed) = {
        let context = context.lock().unwrap_or_else(PoisonError::into_inner);
        (context.rate, context.followed)
    };
    log.head = followed.then(|| log.began.elapsed());
    if let Some(rate) = rate {
        rate_headers::write(rate, response.headers_mut());
    }
    response.headers_mut().insert(REQUEST_ID, id);
    // An error that is sent with status 200 is logged with its real status.
    let status = response.extensions().get::<TrueStatus>().map_or(response.status(), |own| own.0);
    log.status = status.as_u16();
    log.code = response.extensions().get::<Code>().copied();
    response.map(|body| Body::new(LoggedBody { body, log }))
}

/// The body of a response, which writes the log line of its request when it is dropped.
struct LoggedBody {
    body: Body,
    log: RequestLog,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        self.log.bytes += tidegate_model::number(bytes);
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
