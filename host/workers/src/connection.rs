//! One connection of a worker, and how long it may be without a request.
//!
//! hyper times the head of a request of HTTP/1 only: neither the bytes that tell the version, nor a connection of HTTP/2
//! that answers pings and asks nothing. Such connections would hold their places for ever. A server asks every two seconds.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tidegate_tls::handshake_failure;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::messages::API;
use crate::routes::{crowded, probe, route};
use crate::transport::{Accept, Connection};
use crate::worker::Worker;

/// How often a silent coordinator is asked whether it is there, and how long its answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// Streams of a connection at once. Each partition that is read is one, and none may wait for another.
const MAX_STREAMS: u32 = 1 << 16;
/// Streams that a coordinator may have reset and the worker not yet seen to. A statement that ends early resets many.
const MAX_RESET_STREAMS: usize = 1 << 14;
/// How much of the body of a request may be on its way.
const WINDOW: u32 = 256 << 10;
/// How much of an answer is taken from its task before the connection takes it.
const SEND_BUFFER: usize = 64 << 10;

/// A connection whose other end may not connect: it has no certificate, one of others, or is not of this machine.
#[derive(Debug, thiserror::Error)]
#[error("{}", handshake_failure(.0))]
pub(crate) struct Refused(std::io::Error);

/// What is answered on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    /// Tasks and probes.
    Tasks,
    /// Probes only, on a port of their own.
    Probes,
    /// Probes only, because there are too many connections.
    Spare,
}

/// Serves a connection until it is closed, or was without a request for `silent`, its handshake included. A listener
/// without `accept` has no TLS and serves probes over HTTP/1 only.
pub(crate) async fn serve_connection(
    (stream, peer): (TcpStream, SocketAddr),
    accept: Option<&Accept>,
    worker: Arc<Worker>,
    serves: Serves,
    silent: Duration,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let _ = stream.set_nodelay(true);
    let clock = RequestClock::begun();
    let served = async {
        let (builder, stream): (_, Box<dyn Connection>) = match accept {
            Some(accept) => (builder(silent), accept.accept(stream, peer).await.map_err(Refused)?),
            None => (builder(silent).http1_only(), Box::new(stream)),
        };
        let service = service_fn(|request: Request<Incoming>| {
            let (worker, asking) = (Arc::clone(&worker), Asking::begin(&clock, request.version()));
            async move {
                let answer = match serves {
                    Serves::Tasks => route(worker, request).await,
                    Serves::Spare if request.uri().path().starts_with(API) => crowded(),
                    Serves::Probes | Serves::Spare => probe(&worker, request.method(), request.uri().path()),
                };
                Ok::<_, Infallible>(answer.map(|body| AskedBody { body, _asking: asking }))
            }
        });
        builder.serve_connection(TokioIo::new(stream), service).await
    };
    tokio::select! {
        served = served => served,
        () = clock.until_silent(silent) => Err("nothing is asked on it".into()),
    }
}

fn builder(head: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(16 * WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_RESET_STREAMS)
        .max_header_list_size(16 << 10)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Since when nothing is asked on a connection.
#[derive(Debug)]
struct RequestClock(Mutex<Asked>);

#[derive(Debug)]
struct Asked {
    /// Requests of HTTP/2 whose answers are not complete. A task may take its time.
    running: usize,
    /// When a request began or ended last, or the connection began.
    since: Instant,
}

impl RequestClock {
    fn begun() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Asked { running: 0, since: Instant::now() })))
    }

    fn change(&self, change: impl FnOnce(&mut usize)) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut asked.running);
        asked.since = Instant::now();
    }

    /// Waits until nothing was asked for so long.
    async fn until_silent(&self, time: Duration) {
        loop {
            let now = Instant::now();
            let at = {
                let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if asked.running > 0 { now + time } else { asked.since + time }
            };
            if at <= now {
                return;
            }
            tokio::time::sleep_until(at).await;
        }
    }
}

/// A request, until its answer is complete or dropped. One of HTTP/1 is a probe, whose answer is short: who does not take
/// it is silent.
struct Asking {
    clock: Arc<RequestClock>,
    lasts: bool,
}

impl Asking {
    fn begin(clock: &Arc<RequestClock>, version: Version) -> Self {
        let lasts = version == Version::HTTP_2;
        clock.change(|running| *running += usize::from(lasts));
        Self { clock: Arc::clone(clock), lasts }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.clock.change(|running| *running = running.saturating_sub(usize::from(self.lasts)));
    }
}

/// The body of an answer, and the request that it answers.
struct AskedBody<B> {
    body: B,
    _asking: Asking,
}

impl<B: Body<Data = Bytes, Error = Infallible> + Unpin> Body for AskedBody<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
