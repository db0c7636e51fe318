//! Reads the body of an ingest request: decompresses it and limits its size. The limit on how slowly a body may arrive
//! is the same for all routes (`tidegate-http` has it).
//!
//! The size limit holds for the bytes that are sent, and for the bytes that decompression produces while it streams. So
//! a small body that decompresses to a huge one is refused as soon as its output is too long. All bodies together, and
//! the events that are made of them until they are stored, share a memory budget ([`BodyMemory`]).

use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use async_compression::tokio::bufread::{GzipDecoder, ZlibDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt, ready, stream};
use http::{HeaderMap, header};
use http_body::Body;
use tidegate_model::{Code, Failure};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::io::StreamReader;

use super::body_memory::{BodyMemory, BodyReservation};

/// The largest zstd window that is accepted, as a power of two: 16 MiB, the size that a whole body may have.
const WINDOW_LOG: u32 = 24;
/// More bytes than this never come out of one byte of Snappy: a copy makes at most 64 bytes, and takes at least two.
const SNAPPY_RATIO: usize = 32;
/// How many bytes are read at once.
const READ: usize = 16 << 10;
/// When so many bytes of a body have come, memory is allocated for the rest that it says it has, up to so many bytes more.
const BELIEVED: usize = 64 << 10;
const MOST_AHEAD: usize = 1 << 20;
/// How many bytes of the rest of a refused request are read and discarded at most, as long as more keep arriving.
const DRAINED: usize = 64 << 20;
const DRAIN_PAUSE: Duration = Duration::from_millis(250);
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The body of a request as it arrives.
pub trait IncomingBody:
    Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin
{
}

impl<B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin> IncomingBody for B {}

/// A body and the memory that is reserved for it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) reservation: BodyReservation,
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    /// The zlib format, which HTTP calls `deflate`.
    Deflate,
    Zstd,
    /// One block of Snappy, without a frame.
    Snappy,
}

/// Reads a body of at most `limit` bytes, both as sent and as decompressed. `undeclared` is the encoding of a body
/// without a header `Content-Encoding`.
///
/// # Errors
/// [`Code::UnsupportedMediaType`] for an unknown encoding, [`Code::TooLarge`], [`Code::TooManyRequests`] when all
/// bodies together hold too much memory, and [`Code::InvalidBody`] for a body that ends too early or does not match its
/// encoding.
pub(crate) async fn read(
    memory: &BodyMemory,
    headers: &HeaderMap,
    body: &mut impl IncomingBody,
    limit: usize,
    undeclared: Encoding,
) -> Result<Received, Failure> {
    let encoding = encoding(headers, undeclared)?;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let mut sent = 0_usize;
    let stream = chunks(body).map(move |chunk| {
        let chunk = chunk?;
        sent = sent.saturating_add(chunk.len());
        if sent > limit { Err(io::Error::from(io::ErrorKind::FileTooLarge)) } else { Ok(chunk) }
    });
    let mut reader = decoder(encoding, StreamReader::new(stream));
    let mut bytes = BytesMut::new();
    let mut reservation = memory.reservation();
    // As long as a body says it is, once enough of it has come that it is believed. Growing step by step would copy it.
    let expected = declared.filter(|_| encoding == Encoding::Identity).unwrap_or(0);
    loop {
        let ahead = if bytes.len() < BELIEVED { 0 } else { expected.saturating_sub(bytes.len()).min(MOST_AHEAD) };
        // With room for the read that finds the end.
        bytes.reserve(READ + ahead);
        if reader.read_buf(&mut bytes).await.map_err(|error| unreadable(&error, encoding, limit))? == 0 {
            break;
        }
        if bytes.len() > limit {
            return Err(too_large(limit));
        }
        reservation.hold(bytes.len() + decoder_memory(encoding, bytes.len()))?;
        // Data that has arrived already is decompressed without waiting for the network. This point lets other tasks
        // run.
        tokio::task::consume_budget().await;
    }
    drop(reader);
    if encoding == Encoding::Snappy {
        bytes = unpack_snappy(&bytes, limit, &mut reservation)?;
    }
    reservation.hold(bytes.len())?;
    let mut bytes = bytes.freeze();
    // Some programs begin UTF-8 with a byte order mark. It is no part of any form that is read here.
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.advance("\u{feff}".len());
    }
    Ok(Received { bytes, reservation })
}

/// Reads the rest of a refused request and discards it. A sender that is still writing would otherwise find its
/// connection closed, and would never read the response that says what is wrong.
pub(crate) async fn drain(body: &mut impl IncomingBody) {
    if body.is_end_stream() || body.size_hint().lower() > DRAINED as u64 {
        return;
    }
    let mut chunks = chunks(body);
    let end = Instant::now() + DRAIN_TIME;
    let mut drained = 0;
    while let Ok(Some(Ok(chunk))) = timeout_at((Instant::now() + DRAIN_PAUSE).min(end), chunks.next()).await {
        drained += chunk.len();
        if drained > DRAINED {
            return;
        }
    }
}

/// The data of a body, in chunks as they arrive. Frames without data (trailers) are skipped.
pub(crate) fn chunks(body: &mut impl IncomingBody) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin {
    stream::poll_fn(move |cx| {
        loop {
            match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
            }
        }
    })
}

pub(crate) fn encoding(headers: &HeaderMap, undeclared: Encoding) -> Result<Encoding, Failure> {
    let mut named = headers.get_all(header::CONTENT_ENCODING).iter();
    let (Some(value), None) = (named.next(), named.next()) else {
        return match headers.contains_key(header::CONTENT_ENCODING) {
            false => Ok(undeclared),
            true => Err(unknown_encoding("several")),
        };
    };
    let name = value.to_str().unwrap_or("?").trim();
    match name.to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "deflate" => Ok(Encoding::Deflate),
        "zstd" => Ok(Encoding::Zstd),
        "snappy" => Ok(Encoding::Snappy),
        _ => Err(unknown_encoding(name)),
    }
}

fn unknown_encoding(name: &str) -> Failure {
    let message = format!("the content-encoding {name} is not read here; send gzip, zstd, deflate, snappy, or none");
    Failure::new(Code::UnsupportedMediaType, message).about("content-encoding")
}

pub(crate) fn decoder<'a>(
    encoding: Encoding,
    sent: impl tokio::io::AsyncBufRead + Send + Unpin + 'a,
) -> Pin<Box<dyn AsyncRead + Send + 'a>> {
    // Several gzip members or zstd frames in sequence are one body: log files are often written that way.
    match encoding {
        Encoding::Identity | Encoding::Snappy => Box::pin(sent),
        Encoding::Deflate => Box::pin(ZlibDecoder::new(sent)),
        Encoding::Gzip => {
            let mut decoder = GzipDecoder::new(sent);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        Encoding::Zstd => {
            let mut decoder = ZstdDecoder::with_params(sent, &[DParameter::window_log_max(WINDOW_LOG)]);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
    }
}

/// How many bytes of its own output a decoder keeps in memory: zstd keeps the whole window, gzip next to nothing.
fn decoder_memory(encoding: Encoding, bytes: usize) -> usize {
    match encoding {
        Encoding::Identity | Encoding::Gzip | Encoding::Deflate | Encoding::Snappy => 0,
        Encoding::Zstd => bytes.min(1 << WINDOW_LOG),
    }
}

/// Decompresses a block of Snappy. Its beginning tells how long its content is, so the memory is reserved before.
///
/// # Errors
/// [`Code::InvalidBody`], [`Code::TooLarge`], and [`Code::TooManyRequests`] as in [`read`].
pub(crate) fn unpack_snappy(
    block: &[u8],
    limit: usize,
    reservation: &mut BodyReservation,
) -> Result<BytesMut, Failure> {
    let bad = |error: &dyn std::fmt::Display| {
        Failure::new(Code::InvalidBody, format!("the body cannot be read as a block of snappy: {error}"))
    };
    let length = snap::raw::decompress_len(block).map_err(|error| bad(&error))?;
    if length > limit {
        return Err(too_large(limit));
    }
    if length > block.len().saturating_mul(SNAPPY_RATIO) {
        return Err(bad(&"its length is not true"));
    }
    reservation.hold(block.len() + length)?;
    let mut content = BytesMut::zeroed(length);
    let written = snap::raw::Decoder::new().decompress(block, &mut content).map_err(|error| bad(&error))?;
    content.truncate(written);
    Ok(content)
}

fn too_large(limit: usize) -> Failure {
    let message = format!("the body is larger than {limit} bytes, sent or decompressed; send smaller batches");
    Failure::new(Code::TooLarge, message)
}

pub(crate) fn unreadable(error: &io::Error, encoding: Encoding, limit: usize) -> Failure {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return too_large(limit);
    }
    let message = match encoding {
        Encoding::Identity | Encoding::Snappy => format!("the body cannot be read: {error}"),
        Encoding::Deflate => format!("the body cannot be read as deflate: {error}"),
        Encoding::Gzip => format!("the body cannot be read as gzip: {error}"),
        Encoding::Zstd => format!("the body cannot be read as zstd: {error}"),
    };
    Failure::new(Code::InvalidBody, message)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::super::body_memory::PERMIT;
    use super::*;
    use async_compression::tokio::bufread::{GzipEncoder, ZlibEncoder, ZstdEncoder};
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    const LIMIT: usize = 1 << 20;

    async fn try_read(encoding: Option<&'static str>, body: impl Into<Bytes>) -> Result<Vec<u8>, Code> {
        let mut headers = HeaderMap::new();
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let received =
            read(&BodyMemory::new(128 << 20), &headers, &mut Full::new(body.into()), LIMIT, Encoding::Identity).await;
        received.map(|received| received.bytes.to_vec()).map_err(|failure| failure.code)
    }

    async fn packed(encoding: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match encoding {
            "gzip" => GzipEncoder::new(bytes).read_to_end(&mut out).await.unwrap(),
            "deflate" => ZlibEncoder::new(bytes).read_to_end(&mut out).await.unwrap(),
            "snappy" => {
                out = snap::raw::Encoder::new().compress_vec(bytes).unwrap();
                0
            }
            _ => ZstdEncoder::new(bytes).read_to_end(&mut out).await.unwrap(),
        };
        out
    }

    #[tokio::test]
    async fn bodies_come_out_as_they_went_in() {
        let text = b"one event, and another".repeat(1000);
        assert_eq!(try_read(None, text.clone()).await.unwrap(), text);
        assert_eq!(try_read(Some("identity"), text.clone()).await.unwrap(), text);
        for encoding in ["deflate", "snappy"] {
            assert_eq!(try_read(Some(encoding), packed(encoding, &text).await).await.unwrap(), text);
        }
        for encoding in ["gzip", "zstd"] {
            let mut two = packed(encoding, &text).await;
            two.extend(packed(encoding, b" behind").await);
            assert_eq!(try_read(Some(encoding), two).await.unwrap(), [&text[..], b" behind"].concat());
        }
    }

    #[tokio::test]
    async fn the_limit_holds_for_what_is_sent_and_for_what_comes_out() {
        assert_eq!(try_read(None, vec![b'x'; LIMIT]).await.unwrap().len(), LIMIT);
        assert_eq!(try_read(None, vec![b'x'; LIMIT + 1]).await, Err(Code::TooLarge));
        for encoding in ["gzip", "deflate", "zstd"] {
            let bomb = packed(encoding, &vec![0; 64 << 20]).await;
            assert!(bomb.len() < LIMIT, "{}", bomb.len());
            assert_eq!(try_read(Some(encoding), bomb).await, Err(Code::TooLarge), "{encoding}");
        }
        let bomb = packed("snappy", &vec![0; LIMIT + 1]).await;
        assert_eq!(try_read(Some("snappy"), bomb).await, Err(Code::TooLarge));
        // A block that promises more than can be in it.
        assert_eq!(try_read(Some("snappy"), vec![0xff, 0xff, 0x3f, 0]).await, Err(Code::InvalidBody));
        // Many bytes that decompress to nothing: skippable frames.
        let frame = [&[0x50, 0x2a, 0x4d, 0x18][..], &(1_u32 << 16).to_le_bytes(), &[0; 1 << 16]].concat();
        assert_eq!(try_read(Some("zstd"), frame.repeat(20)).await, Err(Code::TooLarge));
    }

    #[tokio::test]
    async fn a_window_larger_than_any_body_is_refused() {
        // Magic, a descriptor without content size, a window of 2^27 bytes, one empty raw block.
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, (27 - 10) << 3][..], &[1, 0, 0]].concat();
        assert_eq!(try_read(Some("zstd"), frame).await, Err(Code::InvalidBody));
    }

    #[tokio::test]
    async fn what_is_not_what_it_says_is_refused() {
        for encoding in ["gzip", "deflate", "snappy", "zstd"] {
            assert_eq!(try_read(Some(encoding), "{}").await, Err(Code::InvalidBody), "{encoding}");
            let mut cut = packed(encoding, b"some text that is long enough").await;
            cut.truncate(cut.len() - 9);
            assert_eq!(try_read(Some(encoding), cut).await, Err(Code::InvalidBody), "{encoding} cut");
        }
        for encoding in ["br", "gzip, zstd", "compress"] {
            assert_eq!(try_read(Some(encoding), "{}").await, Err(Code::UnsupportedMediaType), "{encoding}");
        }
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit() {
        let memory = BodyMemory::new(2 * PERMIT);
        let send = async |bytes: usize| {
            let mut body = Full::new(Bytes::from(vec![b'x'; bytes]));
            read(&memory, &HeaderMap::new(), &mut body, LIMIT, Encoding::Identity).await
        };
        let first = send(PERMIT + 1).await.unwrap();
        assert_eq!(send(1).await.unwrap_err().code, Code::TooManyRequests);
        drop(first);
        assert!(send(2 * PERMIT).await.is_ok());
        assert_eq!(memory.used(), 0);
        let mut part = send(PERMIT).await.unwrap().reservation;
        part.hold(100 * PERMIT).unwrap();
        assert_eq!(memory.used(), 2 * PERMIT);
        part.hold(1).unwrap();
        assert_eq!(memory.used(), PERMIT);
        let mut other = memory.reservation();
        other.hold(PERMIT).unwrap();
        assert_eq!(part.hold(PERMIT + 1).unwrap_err().code, Code::TooManyRequests);
    }

    #[tokio::test]
    async fn the_rest_of_a_refused_body_is_read_while_it_comes() {
        let chunk = Bytes::from(vec![0; 1 << 20]);
        let chunks = |count| {
            stream::iter((0..count).map({
                let chunk = chunk.clone();
                move |_| Ok::<_, io::Error>(Frame::data(chunk.clone()))
            }))
        };
        let mut body = StreamBody::new(chunks(5));
        drain(&mut body).await;
        assert!(super::chunks(&mut body).next().await.is_none());
        let mut endless = StreamBody::new(chunks(1000));
        drain(&mut endless).await;
        let mut stalled = StreamBody::new(chunks(1).chain(stream::pending()));
        // Not as long as for one that comes.
        assert!(tokio::time::timeout(DRAIN_TIME, drain(&mut stalled)).await.is_ok());
        assert!(super::chunks(&mut endless).next().await.is_some());
    }
}
