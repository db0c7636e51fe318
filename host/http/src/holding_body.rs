//! The body of an answer whose bytes hold something, such as a reservation of memory, until the last of them is sent.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_model::number;
use tidegate_service::answer::counted;

/// The most bytes that are sent as one piece: a compressor may hold as much memory as the longest piece.
pub(crate) const LONGEST_PIECE: usize = 512 << 10;

/// What the bytes of a body hold.
pub(crate) type Holds = Arc<dyn Any + Send + Sync>;

/// A body whose bytes hold this, wherever they are: in the body, in a connection, in a stream.
pub(crate) fn holding(body: Body, holds: Holds) -> Body {
    Body::new(HoldingBody { body, rest: Bytes::new(), holds })
}

struct HoldingBody {
    body: Body,
    /// What is left of a frame.
    rest: Bytes,
    holds: Holds,
}

impl HttpBody for HoldingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => {
                    self.rest = counted(bytes, Arc::clone(&self.holds));
                }
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(LONGEST_PIECE);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (number(self.rest.len()), self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower().saturating_add(rest));
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper.saturating_add(rest));
        }
        whole
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn the_last_byte_of_an_answer_lets_go() {
        let held = Arc::new(());
        let length = LONGEST_PIECE + 3;
        let mut body = holding(Body::from(vec![b'x'; length]), Arc::clone(&held) as Holds);
        let mut pieces = Vec::new();
        assert_eq!(body.size_hint().exact(), Some(number(length)));
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            pieces.push(frame.unwrap().into_data().unwrap());
            let left = length - pieces.iter().map(Bytes::len).sum::<usize>();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(number(left)), left == 0));
        }
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [LONGEST_PIECE, 3]);
        drop((body, pieces.remove(0)));
        assert_eq!(Arc::strong_count(&held), 2, "a piece is still being sent");
        drop(pieces);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
