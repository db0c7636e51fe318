//! A whole answer: its bytes in pieces, each with its part of the room.
//!
//! In pieces, because one text that grows takes up to three times its size on the way, and because what a
//! reader has taken is given back piece by piece.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_model::{Failure, number};

use super::Told;
use super::room::{Held, Share, counted};

/// A piece has at least so many bytes, unless it is the last.
pub(super) const PIECE: usize = 256 << 10;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Encoded {
    pieces: Vec<(Bytes, Arc<Held>)>,
    content_type: &'static str,
    /// Whether there were more rows than the cap.
    pub(crate) truncated: bool,
    /// What the component says of it.
    pub(crate) told: Told,
    share: Share,
}

/// An answer that is kept to be given again; what keeps it counts it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) pieces: Vec<Bytes>,
    content_type: &'static str,
    truncated: bool,
    pub(crate) told: Told,
}

impl Encoded {
    /// An answer of these pieces.
    pub(super) fn of(pieces: Pieces, content_type: &'static str, truncated: bool, told: Told) -> Self {
        Self { pieces: pieces.done, content_type, truncated, told, share: pieces.share }
    }

    pub(crate) fn respond(self) -> Response<Body> {
        let Self { pieces, content_type, truncated, told, share } = self;
        let pieces = pieces.into_iter().map(|(bytes, held)| counted(bytes, held)).collect();
        let mut response = whole(pieces, content_type, truncated, share);
        told.write(response.headers_mut());
        response
    }

    /// All bytes behind each other.
    pub(crate) fn concat(&self) -> Vec<u8> {
        let pieces: Vec<&[u8]> = self.pieces.iter().map(|(bytes, _)| &**bytes).collect();
        pieces.concat()
    }

    /// The answer without its part of the room.
    pub(crate) fn kept(self) -> Kept {
        let Self { pieces, content_type, truncated, told, share: _ } = self;
        let pieces = pieces.into_iter().map(|(bytes, _)| bytes).collect();
        Kept { pieces, content_type, truncated, told }
    }
}

impl Kept {
    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// The body for one who asks; `held` is the part of the room that all of them share. What the component
    /// says of it is for who writes the other headers.
    pub(crate) fn respond(&self, share: &Share, held: &Arc<Held>) -> Response<Body> {
        let pieces = self.pieces.iter().map(|bytes| counted(bytes.clone(), Arc::clone(held))).collect();
        whole(pieces, self.content_type, self.truncated, share.clone())
    }
}

fn whole(pieces: Vec<Bytes>, content_type: &'static str, truncated: bool, share: Share) -> Response<Body> {
    let left = pieces.iter().map(|piece| number(piece.len())).sum();
    respond(Body::new(Sending { pieces: pieces.into_iter(), left }), content_type, truncated, share)
}

/// An answer with a body. Its share of the room goes with it, for those who change its bytes on the way.
pub(super) fn respond(body: Body, content_type: &'static str, truncated: bool, share: Share) -> Response<Body> {
    let mut response = Response::new(body);
    response.extensions_mut().insert(share);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if truncated {
        headers.insert("x-result-truncated", HeaderValue::from_static("true"));
    }
    response
}

/// Pieces on their way into an answer. There is room for them before they are made.
#[derive(Debug)]
pub(super) struct Pieces {
    share: Share,
    done: Vec<(Bytes, Arc<Held>)>,
    /// For what is being made.
    held: Held,
}

impl Pieces {
    pub(super) fn new(share: Share) -> Self {
        let held = share.note(0);
        Self { share, done: Vec::new(), held }
    }

    /// Sees to it that there is room for so many bytes behind the last piece.
    ///
    /// # Errors
    /// There is none; see [`Share::take`].
    pub(super) async fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let more = bytes.saturating_sub(self.held.bytes());
        if more > 0 {
            self.held.join(self.share.take(more).await?);
        }
        Ok(())
    }

    /// Puts a piece behind the others.
    ///
    /// # Errors
    /// There is no room for what it is longer than was reckoned with.
    pub(super) async fn push(&mut self, piece: Vec<u8>) -> Result<(), Failure> {
        self.hold(piece.len()).await?;
        let held = std::mem::replace(&mut self.held, self.share.note(0));
        if !piece.is_empty() {
            self.done.push(exact(piece, held));
        }
        Ok(())
    }
}

/// A text without what its vector has beyond it, and as much of the room.
fn exact(piece: Vec<u8>, mut held: Held) -> (Bytes, Arc<Held>) {
    let piece = piece.into_boxed_slice();
    held.shrink(piece.len());
    (Bytes::from(piece), Arc::new(held))
}

/// One piece of an answer that is sent as it is made.
pub(super) fn piece(piece: Vec<u8>, held: Held) -> Bytes {
    let (bytes, held) = exact(piece, held);
    counted(bytes, held)
}

/// A body of pieces, whose length is known.
struct Sending {
    pieces: IntoIter<Bytes>,
    left: u64,
}

impl HttpBody for Sending {
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
