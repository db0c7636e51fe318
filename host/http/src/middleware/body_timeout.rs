//! The limit on how slowly the body of a request may arrive.
//!
//! A handler sees only that the body ended too early, and reports that. This middleware knows the reason, and replaces
//! the response with the right one: 408.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::connection::TransferRate;
use crate::failure::Refusal;

/// A body that must arrive at the minimum rate.
struct TimedBody {
    body: Body,
    progress: TransferRate,
    timer: Pin<Box<Sleep>>,
    timeout: Duration,
    rate: u64,
    slow: Arc<AtomicBool>,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            this.progress.moved(bytes, Instant::now());
            return Poll::Ready(frame);
        }
        this.progress.wait(Instant::now());
        if let Some(deadline) = this.progress.deadline(this.timeout, this.rate) {
            this.timer.as_mut().reset(deadline.into());
            if this.timer.as_mut().poll(cx).is_ready() {
                this.slow.store(true, Ordering::Relaxed);
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

/// Middleware for all routes: answers a body that arrives too slowly with 408.
pub(crate) async fn limit_body_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let slow = Arc::new(AtomicBool::new(false));
    let (timeout, rate) = (app.service.options.server.body_timeout, app.service.options.server.least_rate);
    let request = request.map(|body| {
        let timer = Box::pin(tokio::time::sleep(timeout));
        Body::new(TimedBody { body, progress: TransferRate::default(), timer, timeout, rate, slow: Arc::clone(&slow) })
    });
    let response = next.run(request).await;
    if !slow.load(Ordering::Relaxed) {
        return response;
    }
    let message = format!(
        "the request's body came too slowly: it may pause for {} s and must come at {rate} bytes a second",
        timeout.as_secs_f64()
    );
    Refusal(Failure::new(Code::SlowRequest, message)).into_response()
}
