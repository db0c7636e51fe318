//! Bodies of requests: how slowly they may come, and how much of them is in memory at once.
//!
//! A handler sees only that its body broke off, and says so; here it is known why, and the answer
//! becomes the true one: 408 for a body that came too slowly, 429 where the memory for bodies is
//! full.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_model::{Code, Failure};
use tokio::time::Sleep;

use crate::app::App;
use crate::connection::Pace;
use crate::failure::Refusal;

const WELL: u8 = 0;
const SLOW: u8 = 1;
const FULL: u8 = 2;

/// A body that must come at a pace.
struct Paced {
    body: Body,
    pace: Pace,
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    rate: u64,
    outcome: Arc<AtomicU8>,
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            this.pace.moved(bytes, Instant::now());
            return Poll::Ready(frame);
        }
        this.pace.wait(Instant::now());
        if let Some(deadline) = this.pace.deadline(this.timeout, this.rate) {
            this.timer.as_mut().reset(deadline.into());
            if this.timer.as_mut().poll(cx).is_ready() {
                this.outcome.store(SLOW, Ordering::Relaxed);
                return Poll::Ready(Some(Err(axum::Error::new("the body came too slowly"))));
            }
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Middleware for all routes: a body that comes too slowly is answered with 408.
pub(crate) async fn pace(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let outcome = Arc::new(AtomicU8::new(WELL));
    let (timeout, rate) = (app.options.server.body_timeout, app.options.server.least_rate);
    let request = request.map(|body| {
        let timer = Box::pin(tokio::time::sleep(timeout));
        Body::new(Paced { body, pace: Pace::default(), timer, timeout, rate, outcome: Arc::clone(&outcome) })
    });
    let response = next.run(request).await;
    if outcome.load(Ordering::Relaxed) != SLOW {
        return response;
    }
    let message = format!(
        "the request's body came too slowly: it may pause for {} s and must come at {rate} bytes a second",
        timeout.as_secs_f64()
    );
    Refusal(Failure::new(Code::RequestTimeout, message)).into_response()
}

/// Memory for bodies that are being received, over all requests.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    used: AtomicUsize,
    most: usize,
}

impl BodyMemory {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), most })
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// What one request has taken; given back when it is answered.
struct Share {
    memory: Arc<BodyMemory>,
    taken: AtomicUsize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A body whose bytes are counted as they come.
struct Counted {
    body: Body,
    share: Arc<Share>,
    outcome: Arc<AtomicU8>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        if !self.share.memory.take(bytes) {
            self.outcome.store(FULL, Ordering::Relaxed);
            return Poll::Ready(Some(Err(axum::Error::new("the memory for bodies is full"))));
        }
        self.share.taken.fetch_add(bytes, Ordering::Relaxed);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Middleware for the routes of logs, inside of decompression: where the memory for bodies is full
/// the answer is 429.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let outcome = Arc::new(AtomicU8::new(WELL));
    let share = Arc::new(Share { memory: Arc::clone(&app.bodies), taken: AtomicUsize::new(0) });
    let request =
        request.map(|body| Body::new(Counted { body, share: Arc::clone(&share), outcome: Arc::clone(&outcome) }));
    let response = next.run(request).await;
    drop(share);
    if outcome.load(Ordering::Relaxed) != FULL {
        return response;
    }
    let message = "too many events are being received at once; nothing of the request was stored, try again";
    Refusal(Failure::new(Code::TooManyRequests, message)).into_response()
}
