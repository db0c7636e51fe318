//! The body of a response, which reports its progress to the clock of its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::http::Version;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::ConnectionClock;

/// The largest piece that is passed on at once. HTTP/2 would otherwise take a whole response into its buffers and
/// report it as sent, however little of it the client reads.
const PIECE: usize = 64 << 10;

/// A request that is being answered. The clock of its connection counts it until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    clock: Arc<ConnectionClock>,
    id: u64,
}

impl ActiveRequest {
    pub(crate) fn begin(clock: &Arc<ConnectionClock>, version: Version) -> Self {
        Self { clock: Arc::clone(clock), id: clock.begin(version) }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.clock.end(self.id, Instant::now());
    }
}

/// The body of a response. It tells the clock of its connection when the connection waits for the client.
#[derive(Debug)]
pub(crate) struct TimedBody {
    body: Body,
    rest: Bytes,
    running: ActiveRequest,
}

impl TimedBody {
    pub(crate) fn new(body: Body, running: ActiveRequest) -> Self {
        Self { body, rest: Bytes::new(), running }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        // From now on until the next piece is requested, the connection waits for the client.
        let (bytes, now) = (piece.len(), Instant::now());
        self.running.clock.answer(self.running.id, |transfer| {
            transfer.moved(bytes, now);
            transfer.wait(now);
        });
        Frame::data(piece)
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        // The next piece is requested, so the client has taken the previous one.
        this.running.clock.answer(this.running.id, |transfer| transfer.moved(0, Instant::now()));
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(this.piece())));
        }
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    this.rest = data;
                    Poll::Ready(Some(Ok(this.piece())))
                }
                Err(frame) => Poll::Ready(Some(Ok(frame))),
            },
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = tidegate_model::number(self.rest.len());
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
