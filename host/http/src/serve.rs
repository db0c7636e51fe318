//! The connections of a listener: accepting, counting, timing out and shutting down.
//!
//! `axum::serve` sets no timeouts and no limits; a slow or endless request would hold its connection for ever. The
//! timeouts of a connection are in [`crate::connection`].

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HOST};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidegate_doors::Syslog;
use tidegate_model::{Code, Failure};
use tidegate_service::options::ServerOptions;
use tidegate_service::{AddressLimits, AnonymousConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::connection::{
    ActiveRequest, ConnectionClock, HeadMemory, Peer, Side, TimedBody, TimedStream, Timeouts, Verdict,
};
use crate::failure::Refusal;
use crate::metrics::OpenConnection;
use crate::startup::{Startup, crowded, leaving, overfull};
use crate::tls::Tls;

/// How long events may be flushed into an object store at the end, if requests took all of the time.
const LEAST_FLUSH: Duration = Duration::from_secs(3);
/// The longest request head, in bytes: enough for a query string of 64 KiB and headers.
const MAX_HEAD: usize = 256 << 10;
/// The most fields of a head. Over HTTP/1, the parser has this bound; over HTTP/2, a field that was sent once is named again by
/// one byte, and takes a hundred of memory each time.
const MOST_FIELDS: usize = 100;
/// How much of the response is buffered on one HTTP/2 stream, in bytes.
const SEND_BUFFER: usize = 64 << 10;
/// How many connections over the limit are accepted, so that probes are answered on them.
const SPARE_CONNECTIONS: usize = 64;
/// How many connections are accepted, over all addresses, beyond those that each address may have without a token.
const EXTRA_CONNECTIONS_WITHOUT_TOKEN: usize = 256;
/// The timeouts of a connection beyond a limit, in every state.
const SPARE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until `stop` resolves, then lets running requests end and closes the store. During the shutdown `/health` is
/// still answered, and `/ready` says that the service is shutting down. With `tls`, only TLS connections are served.
/// `syslog` is served beside it from when the service is open; what its senders have sent is stored before the store closes.
///
/// # Errors
/// If the store does not close.
pub async fn serve(
    startup: Arc<Startup>,
    listener: TcpListener,
    tls: Option<Tls>,
    syslog: Option<Syslog>,
    options: &ServerOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), tidegate_store::StoreError> {
    let tls = tls.map(Arc::new);
    // The tasks in this set end when the function returns.
    let mut watched = JoinSet::new();
    if let Some(tls) = &tls {
        watched.spawn(Arc::clone(tls).watch());
    }
    let mut connections = Connections::new(Arc::clone(&startup), tls, options);
    if let Some(syslog) = syslog {
        let (startup, mut stopping) = (Arc::clone(&startup), connections.stopping.subscribe());
        let alive = connections.alive.clone();
        watched.spawn(async move {
            let _alive = alive;
            let app = tokio::select! {
                app = startup.until_open() => app,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            syslog.run(app, stopping).await;
        });
    }
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => connections.take(accepted).await,
            () = &mut stop => break,
        }
    }
    // Set before `/ready` reports the shutdown: the response that tells a client of it also says that the connection
    // closes.
    connections.stopping.send_replace(true);
    if let Some(app) = startup.app() {
        app.draining.store(true, Ordering::Release);
        // Streams that last until the caller leaves end now.
        app.service.following.stop();
        connections.leaving = Some(leaving(Arc::clone(app)));
    }
    let Connections { all_gone, .. } = &mut connections;
    let mut gone = std::mem::replace(all_gone, mpsc::channel(1).1);
    // `connections` holds a sender of the channel itself. Without it, only connections hold senders, and the channel
    // closes with the last of them.
    connections.alive = None;
    let mut gone = pin!(gone.recv());
    let ends_at = Instant::now() + options.grace;
    let mut grace = pin!(tokio::time::sleep(options.grace));
    loop {
        tokio::select! {
            // New connections serve probes only, and the shutdown does not wait for them.
            accepted = listener.accept() => connections.take(accepted).await,
            _ = &mut gone => break,
            () = &mut grace => {
                tracing::warn!("some requests did not end in time");
                break;
            }
        }
    }
    drop(listener);
    match startup.app() {
        // What the requests left of the time is for events that are not in the object store yet.
        Some(app) => app.service.close_within(ends_at.saturating_duration_since(Instant::now()).max(LEAST_FLUSH)).await,
        None => Ok(()),
    }
}

/// Accepts the connections of a listener, and holds what they share.
struct Connections {
    startup: Arc<Startup>,
    tls: Option<Arc<Tls>>,
    builder: Builder<TokioExecutor>,
    /// The routes of connections over the limit.
    overfull: Router,
    /// The routes of new connections after the shutdown has begun.
    leaving: Option<Router>,
    timeouts: Timeouts,
    /// One permit for each connection that may be open.
    places: Arc<Semaphore>,
    /// Permits for connections over the limit.
    spare: Arc<Semaphore>,
    /// Permits for connections of addresses that have too many without a token.
    crowd: Arc<Semaphore>,
    /// The routes of such connections.
    crowded: Router,
    addresses: Arc<AddressLimits>,
    heads: HeadMemory,
    stopping: watch::Sender<bool>,
    /// A clone is held by every connection that the shutdown waits for.
    alive: Option<mpsc::Sender<Infallible>>,
    all_gone: mpsc::Receiver<Infallible>,
    /// When the log last said that there are too many connections.
    warned: Option<Instant>,
}

impl Connections {
    fn new(startup: Arc<Startup>, tls: Option<Arc<Tls>>, options: &ServerOptions) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        // Request heads are timed by `ConnectionClock`, because hyper's timer would run on idle connections too.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(MAX_HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(128)
            .max_header_list_size(256 << 10)
            // What a stream whose client does not read buffers of its response, in addition to the memory budget for
            // answers.
            .max_send_buf_size(SEND_BUFFER)
            // Streams that the client opens and resets at once cost work without counting as open.
            .max_pending_accept_reset_streams(32)
            .max_local_error_reset_streams(128)
            .keep_alive_interval(Some(Duration::from_secs(30)));
        let (alive, all_gone) = mpsc::channel(1);
        Self {
            crowded: crowded(&startup),
            crowd: Arc::new(Semaphore::new(EXTRA_CONNECTIONS_WITHOUT_TOKEN)),
            addresses: AddressLimits::new(options.connections_without_token),
            heads: HeadMemory::new(),
            startup,
            tls,
            builder,
            overfull: overfull(),
            leaving: None,
            timeouts: Timeouts::of(options),
            places: Arc::new(Semaphore::new(options.max_connections)),
            spare: Arc::new(Semaphore::new(SPARE_CONNECTIONS)),
            stopping: watch::Sender::new(false),
            alive: Some(alive),
            all_gone,
            warned: None,
        }
    }

    async fn take(&mut self, accepted: std::io::Result<(TcpStream, SocketAddr)>) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process has no file descriptors left, or the peer has disconnected already. A pause avoids a busy
                // loop.
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                return;
            }
        };
        let app = self.startup.app().cloned();
        let anonymous = self.addresses.enter(peer.ip());
        if let Some(app) = &app {
            app.metrics.anonymous(self.addresses.anonymous(), anonymous.is_none());
        }
        let (place, limited, full) = match (&anonymous, Arc::clone(&self.places).try_acquire_owned().ok()) {
            // The address has reached its limit, so this connection takes none of the places that all callers share.
            (None, place) => {
                drop(place);
                (Arc::clone(&self.crowd).try_acquire_owned().ok(), Some(self.crowded.clone()), false)
            }
            (Some(_), Some(place)) => (Some(place), None, false),
            (Some(_), None) => {
                self.warn();
                (Arc::clone(&self.spare).try_acquire_owned().ok(), Some(self.overfull.clone()), true)
            }
        };
        // When these places are taken too, the connection is dropped, which is the cheapest response.
        let Some(place) = place else { return };
        let limited = self.leaving.clone().or(limited);
        let timeouts = if limited.is_some() {
            Timeouts { head: SPARE_TIMEOUT, idle: SPARE_TIMEOUT, write: SPARE_TIMEOUT, ..self.timeouts }
        } else {
            self.timeouts
        };
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            startup: Arc::clone(&self.startup),
            limited,
            timeouts,
            peer: Peer { address: peer, uses_tls: self.tls.is_some() },
            anonymous,
            heads: self.heads.clone(),
            stopping: self.stopping.subscribe(),
            _alive: self.alive.clone(),
            _open: app.map(|app| app.metrics.connection(full)),
            _place: place,
        };
        tokio::spawn(connection.run(self.builder.clone(), stream, self.tls.clone()));
    }

    /// Logs that there are too many connections, at most once in ten seconds.
    fn warn(&mut self) {
        let now = Instant::now();
        if self.warned.is_none_or(|last| now.saturating_duration_since(last) > Duration::from_secs(10)) {
            self.warned = Some(now);
            tracing::warn!("there are more connections than server.max_connections; on those only /health is served");
        }
    }
}

/// The refusal of a head with too many fields, without a host, or with two: what stands between might take another one than
/// we do (RFC 9112).
fn refused_head(request: &axum::extract::Request) -> Option<Response> {
    if request.headers().len() > MOST_FIELDS {
        return Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response());
    }
    let hosts = request.headers().get_all(HOST).iter().count();
    let least = usize::from(request.version() == Version::HTTP_11);
    if (least..=1).contains(&hosts) {
        return None;
    }
    let message = "a request has one Host header, and no second";
    let mut response = Refusal::from(Failure::new(Code::InvalidParameter, message).about("host")).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

fn no_room_for_heads() -> Response {
    let message = "the heads of all requests together are too large at the moment; send shorter ones, or try again";
    Refusal::from(Failure::new(Code::TooManyRequests, message)).into_response()
}

/// One connection.
struct Connection {
    startup: Arc<Startup>,
    /// The routes of this connection, where it gets fewer than those that `startup` gives.
    limited: Option<Router>,
    timeouts: Timeouts,
    peer: Peer,
    /// Counts the connection among those of its address without a token.
    anonymous: Option<Arc<AnonymousConnection>>,
    heads: HeadMemory,
    stopping: watch::Receiver<bool>,
    _alive: Option<mpsc::Sender<Infallible>>,
    _open: Option<OpenConnection>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Serves the connection. The TLS handshake has the timeout of a request head, and the connection counts from the
    /// beginning of the handshake.
    async fn run(mut self, builder: Builder<TokioExecutor>, stream: TcpStream, tls: Option<Arc<Tls>>) {
        let began = Instant::now();
        let clock = Arc::new(ConnectionClock::new(self.timeouts, began));
        let stopping = *self.stopping.borrow_and_update();
        let Some(tls) = tls else {
            return self
                .serve(builder, TimedStream { stream, clock: Arc::clone(&clock), side: Side::Both }, clock, stopping)
                .await;
        };
        let stream = TimedStream { stream, clock: Arc::clone(&clock), side: Side::Writes };
        let handshake = tokio::time::timeout_at((began + self.timeouts.head).into(), tls.accept(stream));
        let handshake = tokio::select! {
            handshake = handshake => handshake.unwrap_or_else(|_| Err("the handshake takes too long".to_owned())),
            // No request has begun, so the connection can be dropped.
            _ = self.stopping.changed(), if !stopping => return,
        };
        match handshake {
            Ok(stream) => {
                let stream = TimedStream { stream, clock: Arc::clone(&clock), side: Side::Reads };
                self.serve(builder, stream, clock, stopping).await;
            }
            Err(why) => tracing::debug!(why, peer = %self.peer.address, "a connection ended in its handshake"),
        }
    }

    async fn serve(
        mut self,
        builder: Builder<TokioExecutor>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        clock: Arc<ConnectionClock>,
        mut stopping: bool,
    ) {
        let (startup, limited, peer) = (Arc::clone(&self.startup), self.limited.clone(), self.peer);
        let (stop_seen, anonymous, heads) = (self.stopping.clone(), self.anonymous.clone(), self.heads.clone());
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let running = ActiveRequest::begin(&clock, request.version());
            let router = limited.clone().or_else(|| startup.router()).unwrap_or_default();
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let has_token = anonymous.as_ref().is_some_and(|anonymous| anonymous.has_token());
            if let Some(anonymous) = &anonymous {
                request.extensions_mut().insert(Arc::clone(anonymous));
            }
            let (version, stop_seen, heads) = (request.version(), stop_seen.clone(), heads.clone());
            async move {
                // What is refused goes at once, not when its body has come.
                let held = match refused_head(&request) {
                    None => heads.hold(&request, has_token).ok_or_else(no_room_for_heads),
                    Some(refused) => Err(refused),
                };
                let _held = match held {
                    Ok(held) => held,
                    Err(refused) => return Ok(refused.map(|body| TimedBody::new(body, running))),
                };
                let Ok(mut response) = router.oneshot(request).await;
                // Without this header, a client would send its next request on the closing connection.
                if *stop_seen.borrow() && version < Version::HTTP_2 {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| TimedBody::new(body, running)))
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut tick = tokio::time::interval(self.timeouts.grain());
        loop {
            tokio::select! {
                done = connection.as_mut() => {
                    if let Err(error) = done {
                        tracing::debug!(%error, peer = %self.peer.address, "a connection ended early");
                    }
                    return;
                }
                changed = self.stopping.changed(), if !stopping => {
                    stopping = true;
                    if changed.is_ok() {
                        connection.as_mut().graceful_shutdown();
                    }
                }
                _ = tick.tick() => match clock.verdict(Instant::now()) {
                    Verdict::Keep => {}
                    Verdict::End => connection.as_mut().graceful_shutdown(),
                    Verdict::Cut(why) => {
                        tracing::debug!(why, peer = %self.peer.address, "a connection is cut");
                        return;
                    }
                },
            }
        }
    }
}
