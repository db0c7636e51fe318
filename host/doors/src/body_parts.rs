//! Bodies without an end of their own: a sender sends all that it has in one request, and begins from the front where that fails. They
//! are read in parts of whole events, each of which is stored before the next is read, so that they may be of any length.

use std::io;
use std::pin::Pin;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use http::HeaderMap;
use tidegate_model::{Code, Failure};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::body::{Encoding, IncomingBody, Received, chunks, decoder, encoding, unreadable};
use super::body_memory::{BodyMemory, BodyReservation};

/// About the bytes of a part.
const PART: usize = 4 << 20;
/// How many bytes are read at once.
const READ: usize = 64 << 10;

/// Finds where events end.
pub(crate) trait Cutter: Send {
    /// Goes on behind what it was given before, up to the first end of an event. How many bytes it has gone, and whether an event
    /// ends there; if none does, these are all bytes.
    ///
    /// # Errors
    /// Why the body is none of its protocol.
    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure>;
}

/// A body that is read in parts.
pub(crate) struct BodyParts<'b> {
    reader: Pin<Box<dyn AsyncRead + Send + 'b>>,
    encoding: Encoding,
    cutter: Box<dyn Cutter>,
    memory: &'b BodyMemory,
    reservation: BodyReservation,
    /// The most bytes of an event.
    limit: usize,
    buffer: BytesMut,
    /// How much of the buffer the cutter has seen, and what of it is whole events.
    seen: usize,
    whole: usize,
    /// Whether the buffer lacks the beginning of its first event, which is too long.
    is_cut: bool,
    is_at_end: bool,
    /// Events that were left out because they are too long.
    pub(crate) left_out: usize,
}

impl<'b> BodyParts<'b> {
    /// # Errors
    /// [`Code::UnsupportedMediaType`] for an encoding that is unknown, or is one block.
    pub(crate) fn of(
        memory: &'b BodyMemory,
        headers: &HeaderMap,
        body: &'b mut impl IncomingBody,
        cutter: Box<dyn Cutter>,
        limit: usize,
    ) -> Result<Self, Failure> {
        let encoding = encoding(headers, Encoding::Identity)?;
        if encoding == Encoding::Snappy {
            let message = "a body that is read in parts cannot be one block of snappy";
            return Err(Failure::new(Code::UnsupportedMediaType, message).about("content-encoding"));
        }
        Ok(Self {
            reader: decoder(encoding, StreamReader::new(chunks(body).map(|chunk: io::Result<_>| chunk))),
            encoding,
            cutter,
            memory,
            reservation: memory.reservation(),
            limit,
            buffer: BytesMut::new(),
            seen: 0,
            whole: 0,
            is_cut: false,
            is_at_end: false,
            left_out: 0,
        })
    }

    /// The next part: whole events.
    ///
    /// # Errors
    /// [`Code::InvalidBody`] for a body that cannot be read, or ends within an event; [`Code::TooManyRequests`] when all bodies
    /// together hold too much memory.
    pub(crate) async fn next(&mut self) -> Result<Option<Received>, Failure> {
        loop {
            if self.whole > 0 && (self.is_at_end || self.buffer.len() >= PART.min(self.limit)) {
                return self.part().map(Some);
            }
            if self.is_at_end {
                return match self.buffer.is_empty() && !self.is_cut {
                    true => Ok(None),
                    false => Err(Failure::new(
                        Code::InvalidBody,
                        "the body ends within an event; those before it are stored",
                    )),
                };
            }
            if self.whole == 0 && self.buffer.len() > self.limit {
                self.buffer.clear();
                (self.seen, self.is_cut) = (0, true);
            }
            self.buffer.reserve(READ);
            self.reservation.hold(self.buffer.capacity())?;
            let read = self.reader.read_buf(&mut self.buffer).await;
            self.is_at_end = read.map_err(|error| unreadable(&error, self.encoding, self.limit))? == 0;
            self.look()?;
            tokio::task::consume_budget().await;
        }
    }

    /// Looks for ends of events in what has come.
    fn look(&mut self) -> Result<(), Failure> {
        while let Some(new) = self.buffer.get(self.seen..).filter(|new| !new.is_empty()) {
            let (gone, is_end) = self.cutter.advance(new)?;
            self.seen += gone;
            if is_end && self.is_cut {
                self.buffer.advance(self.seen);
                (self.seen, self.is_cut) = (0, false);
                self.left_out += 1;
            } else if is_end {
                self.whole = self.seen;
            }
        }
        Ok(())
    }

    fn part(&mut self) -> Result<Received, Failure> {
        let bytes = self.buffer.split_to(self.whole).freeze();
        (self.seen, self.whole) = (self.seen - self.whole, 0);
        let mut reservation = self.memory.reservation();
        self.reservation.hold(self.buffer.capacity())?;
        reservation.hold(bytes.len())?;
        Ok(Received { bytes, reservation })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    /// Events that end with a semicolon.
    struct Semicolons;

    impl Cutter for Semicolons {
        fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
            let end = bytes.iter().position(|byte| *byte == b';');
            Ok(end.map_or((bytes.len(), false), |end| (end + 1, true)))
        }
    }

    async fn parts(chunks: Vec<Bytes>, limit: usize) -> (Vec<Bytes>, usize, Option<Code>) {
        let memory = BodyMemory::new(64 << 20);
        let chunks = chunks.into_iter().map(|chunk| Ok::<_, io::Error>(Frame::data(chunk)));
        let mut body = StreamBody::new(futures::stream::iter(chunks));
        let mut parts = BodyParts::of(&memory, &HeaderMap::new(), &mut body, Box::new(Semicolons), limit).unwrap();
        let mut found = Vec::new();
        loop {
            match parts.next().await {
                Ok(Some(received)) => found.push(received.bytes),
                Ok(None) => return (found, parts.left_out, None),
                Err(failure) => return (found, parts.left_out, Some(failure.code)),
            }
        }
    }

    #[tokio::test]
    async fn a_body_of_any_length_comes_in_parts_of_whole_events() {
        let event = Bytes::from(vec![b'x'; 999_999]);
        let chunks: Vec<Bytes> = (0..40).flat_map(|_| [event.clone(), Bytes::from_static(b";")]).collect();
        let (found, left_out, failed) = parts(chunks, 16 << 20).await;
        assert!(found.len() > 5 && found.iter().all(|part| part.len() < 6 << 20 && part.ends_with(b";")));
        assert_eq!((found.iter().map(Bytes::len).sum::<usize>(), left_out, failed), (40_000_000, 0, None));
    }

    #[tokio::test]
    async fn an_event_that_is_too_long_costs_only_itself() {
        let chunks = vec![Bytes::from("a;"), Bytes::from(vec![b'x'; 3 << 20]), Bytes::from(";b;c;")];
        let (found, left_out, failed) = parts(chunks, 1 << 20).await;
        assert_eq!((found.concat(), left_out, failed), (b"a;b;c;".to_vec(), 1, None));
    }

    #[tokio::test]
    async fn what_ends_within_an_event_is_told_after_what_is_whole() {
        let (found, _, failed) = parts(vec![Bytes::from("a;b;c")], 1 << 20).await;
        assert_eq!((found.concat(), failed), (b"a;b;".to_vec(), Some(Code::InvalidBody)));
        assert_eq!(parts(vec![], 1 << 20).await, (vec![], 0, None));
    }
}
