//! Encoded answers as HTTP responses.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http_body::{Frame, SizeHint};
use http_body_util::StreamBody;
use tidegate_model::number;
use tidegate_service::answer::{AccountMemory, Encoded, Outgoing, Streamed};

use crate::note_headers;

/// The header, or the trailer of a streamed answer, that says that the rows were cut at their limit.
const TRUNCATED: &str = "x-result-truncated";

/// Says that the bytes of a response are counted where they are made, or are the same for all who ask. It is an
/// extension, for middleware that counts all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accounted;

/// The response of a whole answer, with the component's notes.
pub(crate) fn respond(encoded: Encoded) -> Response<Body> {
    let (outgoing, metadata) = encoded.into_outgoing();
    let mut response = whole(outgoing);
    note_headers::write(&metadata, response.headers_mut());
    response
}

/// The response of a whole answer, without notes.
pub(crate) fn whole(outgoing: Outgoing) -> Response<Body> {
    let Outgoing { pieces, content_type, truncated, memory } = outgoing;
    let left = pieces.iter().map(|piece| number(piece.len())).sum();
    with_body(Body::new(Pieces { pieces: pieces.into_iter(), left }), content_type, truncated, memory)
}

/// The response of an answer whose rows are sent while they are read.
pub(crate) fn respond_streamed(streamed: Streamed) -> Response<Body> {
    let Streamed { content_type, metadata, memory, lines, truncated } = streamed;
    let trailer = futures::stream::iter(std::iter::from_fn(move || {
        truncated.swap(false, Ordering::Relaxed).then(|| {
            let mut trailers = HeaderMap::new();
            trailers.insert(TRUNCATED, HeaderValue::from_static("true"));
            Ok(Frame::trailers(trailers))
        })
    }));
    let frames = lines.map_ok(Frame::data).chain(trailer);
    let mut response = with_body(Body::new(StreamBody::new(frames)), content_type, false, memory);
    response.headers_mut().insert(header::TRAILER, HeaderValue::from_static(TRUNCATED));
    if let Some(metadata) = metadata {
        note_headers::write(&metadata, response.headers_mut());
    }
    response
}

/// The response with a body. Its memory budget is an extension, for middleware that changes the bytes.
fn with_body(body: Body, content_type: &'static str, truncated: bool, memory: AccountMemory) -> Response<Body> {
    let mut response = Response::new(body);
    response.extensions_mut().insert(memory);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if truncated {
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}

/// A body of pieces, whose length is known.
struct Pieces {
    pieces: IntoIter<Bytes>,
    left: u64,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.pieces.next();
        self.left = self.left.saturating_sub(next.as_ref().map_or(0, |piece| number(piece.len())));
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
