//! `Connection: close` on responses that leave a part of the request unread.
//!
//! A request that is refused before its body was read (no token, no such route) leaves the body on the connection, and
//! the connection is closed after the response. Without the header, the client would send its next request on a closed
//! connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::Response;

/// A body that knows whether it was read to its end.
struct TrackedBody {
    body: Body,
    ended: Arc<AtomicBool>,
}

impl HttpBody for TrackedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(next, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// Adds `Connection: close` to responses that leave a part of the request unread.
pub(crate) async fn announce_close(request: Request, next: Next) -> Response {
    let version = request.version();
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let request = request.map(|body| Body::new(TrackedBody { body, ended: Arc::clone(&ended) }));
    let mut response = next.run(request).await;
    if !ended.load(Ordering::Relaxed) && version <= Version::HTTP_11 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
