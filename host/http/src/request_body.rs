//! Reads the whole body of a request that is no ingest request, in bounded memory.
//!
//! A client may send its body slowly, down to the minimum rate. What has arrived is counted like an answer that is not
//! read yet: in the memory of the token, of which one token gets half. Bodies of ingest requests have a budget of their
//! own ([`tidegate_doors::BodyMemory`]).

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use tidegate_model::{Code, Failure};
use tidegate_service::answer::{AccountMemory, Reservation};

/// The smallest buffer, in bytes.
const LEAST: usize = 4 << 10;

/// A body that has arrived, and its reservation.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    held: Reservation,
}

impl RequestBody {
    /// The bytes and their reservation, for a caller that keeps one longer than the other.
    pub(crate) fn into_parts(self) -> (Bytes, Reservation) {
        (self.bytes, self.held)
    }

    /// Reads a body of at most `limit` bytes. `what` names it in the error of a longer one.
    ///
    /// # Errors
    /// [`Code::UnsupportedMediaType`] for one that is compressed;
    /// [`Code::TooLarge`]; [`Code::InvalidBody`] if it breaks off; [`Code::TooManyRequests`] or [`Code::Overloaded`] if
    /// there is no memory for it.
    pub(crate) async fn read(
        headers: &HeaderMap,
        mut body: Body,
        limit: usize,
        memory: &AccountMemory,
        what: &str,
    ) -> Result<Self, Failure> {
        let encoding = headers.get_all(header::CONTENT_ENCODING).iter().map(|value| value.as_bytes().trim_ascii());
        if let Some(other) = encoding.into_iter().find(|one| !one.is_empty() && !one.eq_ignore_ascii_case(b"identity"))
        {
            let message = format!("{what} is sent without Content-Encoding here, not as {}", other.escape_ascii());
            return Err(Failure::new(Code::UnsupportedMediaType, message).about("content-encoding"));
        }
        let too_large = || Failure::new(Code::TooLarge, format!("{what} is larger than {limit} bytes"));
        let declared = body.size_hint();
        if declared.lower() > tidegate_model::number(limit) {
            return Err(too_large());
        }
        let mut held = memory.take_now(0)?;
        let mut bytes = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| {
                Failure::new(Code::InvalidBody, format!("{what} did not arrive as a whole: {error}"))
            })?;
            // Frames without data are trailers.
            let Ok(data) = frame.into_data() else { continue };
            let needed = bytes.len().saturating_add(data.len());
            if needed > limit {
                return Err(too_large());
            }
            if needed > bytes.capacity() {
                // Twice as much, so that a body is not copied for each of its frames.
                let capacity = needed.max(bytes.capacity().saturating_mul(2)).clamp(LEAST, limit.max(LEAST));
                held.hold(capacity).await?;
                bytes.reserve_exact(capacity.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&data);
        }
        let bytes = Bytes::from(bytes.into_boxed_slice());
        held.shrink(bytes.len());
        Ok(Self { bytes, held })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::io;
    use std::time::Duration;

    use futures::stream;
    use tidegate_service::Account;
    use tidegate_service::answer::TransferMemory;

    use super::*;

    const LIMIT: usize = 64 << 10;
    const ACCOUNT: Account = Account::Token([1; 32]);

    fn memory(bytes: usize) -> TransferMemory {
        TransferMemory::new(bytes, Duration::from_millis(10))
    }

    fn chunks(sizes: &[usize], end: Option<io::Error>) -> Body {
        let chunks: Vec<_> = sizes.iter().map(|size| Ok(Bytes::from(vec![b'x'; *size]))).chain(end.map(Err)).collect();
        Body::from_stream(stream::iter(chunks))
    }

    async fn code(memory: &TransferMemory, body: Body) -> Result<usize, Code> {
        let read = RequestBody::read(&HeaderMap::new(), body, LIMIT, &memory.of(ACCOUNT), "the body").await;
        read.map(|read| read.bytes.len()).map_err(|failure| failure.code)
    }

    #[tokio::test]
    async fn a_long_body_and_one_that_breaks_off_are_told_apart() {
        let memory = memory(1 << 20);
        assert_eq!(code(&memory, Body::empty()).await, Ok(0));
        assert_eq!(code(&memory, chunks(&[LIMIT / 2, LIMIT / 2], None)).await, Ok(LIMIT));
        assert_eq!(code(&memory, chunks(&[LIMIT, 1], None)).await, Err(Code::TooLarge));
        assert_eq!(code(&memory, Body::from(vec![b'x'; LIMIT + 1])).await, Err(Code::TooLarge));
        let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(code(&memory, chunks(&[100], Some(cut))).await, Err(Code::InvalidBody));
        assert_eq!(memory.used(), 0);
    }

    #[tokio::test]
    async fn a_compressed_body_is_refused_before_it_is_read() {
        let memory = memory(1 << 20).of(ACCOUNT);
        let read = async |encoding: &'static str| {
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())]);
            RequestBody::read(&headers, Body::empty(), LIMIT, &memory, "the body")
                .await
                .map(drop)
                .map_err(|failure| failure.code)
        };
        assert_eq!((read("identity").await, read("").await), (Ok(()), Ok(())));
        assert_eq!(
            (read("gzip").await, read("br").await),
            (Err(Code::UnsupportedMediaType), Err(Code::UnsupportedMediaType))
        );
    }

    #[tokio::test]
    async fn what_has_arrived_counts_for_its_token() {
        let memory = memory(4 * LIMIT);
        let waiting = |memory: &TransferMemory| {
            let memory = memory.of(ACCOUNT);
            let first = stream::iter([Ok::<_, io::Error>(Bytes::from(vec![b'x'; LIMIT]))]);
            let body = Body::from_stream(futures::StreamExt::chain(first, stream::pending()));
            tokio::spawn(async move {
                RequestBody::read(&HeaderMap::new(), body, LIMIT, &memory, "the body").await.map(drop)
            })
        };
        let slow = [waiting(&memory), waiting(&memory)];
        while memory.used() < 2 * LIMIT {
            tokio::task::yield_now().await;
        }
        assert_eq!(code(&memory, chunks(&[100], None)).await, Err(Code::TooManyRequests));
        let other = memory.of(Account::Token([2; 32]));
        let read = RequestBody::read(&HeaderMap::new(), chunks(&[100], None), LIMIT, &other, "the body").await.unwrap();
        assert_eq!(memory.used(), 2 * LIMIT + 100);
        drop(read);
        slow.iter().for_each(tokio::task::JoinHandle::abort);
        while memory.used() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
