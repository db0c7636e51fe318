//! Compression of responses: with a coding that `Accept-Encoding` names, where it is worth its cost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use axum::middleware::Next;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_service::answer::{AccountMemory, Reservation, counted};
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

use super::counting::NOBODY;
use crate::holding_body::LONGEST_PIECE;

/// The shortest body that is compressed, in bytes: a shorter one fits one packet anyway.
const SHORTEST: u64 = 1 << 10;

/// A layer that compresses whole responses with gzip, zstd or Brotli, whichever the client accepts.
pub(crate) fn compressed() -> CompressionLayer<Whole> {
    // The fastest level has most of the effect, and compression must not keep a processor busy.
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(Whole)
}

/// Selects responses whose compressor has its memory ([`reserve_compressor`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole;

impl Predicate for Whole {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        response.extensions().get::<Compressor>().is_some()
    }
}

/// The memory of a response's compressor, and the length of the response.
#[derive(Debug, Clone)]
struct Compressor {
    held: Arc<Reservation>,
    length: usize,
}

/// Reserves the memory of a compressor before there is one, in the budget for answers that the response counts in. If
/// the budget has no room, the response is sent uncompressed: its text is counted already and needs nothing more. So are
/// answers to callers without a token, whose budget is small: compressors would take it from the answers of others. Only
/// responses of known length are compressed. Others are streams, and a compressor would hold their lines back.
pub(crate) async fn reserve_compressor(request: Request, next: Next) -> axum::response::Response {
    let is_asked = request.headers().contains_key(header::ACCEPT_ENCODING);
    let mut response = next.run(request).await;
    let length = response.body().size_hint().exact().filter(|length| is_asked && *length >= SHORTEST);
    let memory = response.extensions().get::<AccountMemory>().filter(|memory| memory.account() != NOBODY);
    if let (Some(length), Some(memory)) = (length, memory) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // The coding is chosen later.
        let most = CODINGS.map(|coding| compressor_bytes(coding, length)).into_iter().max().unwrap_or_default();
        if let Some(held) = memory.try_take(most) {
            response.extensions_mut().insert(Compressor { held: Arc::new(held), length });
        }
    }
    response
}

/// Keeps the memory of the compressor as long as the response, and counts the compressed bytes. They take the place of
/// uncompressed ones, which were reserved.
pub(crate) async fn count_compressed(request: Request, next: Next) -> axum::response::Response {
    let mut response = next.run(request).await;
    let compressor = response.extensions_mut().remove::<Compressor>();
    let coding = response.headers().get(header::CONTENT_ENCODING);
    let memory = response.extensions().get::<AccountMemory>();
    let (Some(Compressor { mut held, length }), Some(coding), Some(memory)) = (compressor, coding, memory.cloned())
    else {
        return response;
    };
    if let Some(held) = Arc::get_mut(&mut held) {
        held.shrink(compressor_bytes(coding.as_bytes(), length));
    }
    response.map(|body| Body::new(Compressed { body, memory, _compressor: held }))
}

/// The codings that this service compresses with.
const CODINGS: [&[u8]; 3] = [b"gzip", b"zstd", b"br"];

/// How many bytes the compressor of a body of this length holds at its fastest level, approximately.
fn compressor_bytes(coding: &[u8], length: usize) -> usize {
    match coding {
        // Its window, tables and output are allocated at once.
        b"gzip" | b"deflate" => 320 << 10,
        // Tables, and of its window of 512 KiB, its literals and its output what the body fills.
        b"zstd" => (160 << 10) + 3 * length.min(512 << 10),
        // Tables, and an output that is twice as long as a piece of the body.
        _ => (192 << 10) + 2 * length.min(LONGEST_PIECE),
    }
}

/// The body of a compressed response, whose bytes count in the memory budget.
struct Compressed {
    body: Body,
    memory: AccountMemory,
    _compressor: Arc<Reservation>,
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let memory = &self.memory;
        let count = |bytes: Bytes| {
            let held = memory.note(bytes.len());
            counted(bytes, Arc::new(held))
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(count))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Sends the uncompressed form even to a client that refuses it: the real status says more than the 406 that the
/// compression layer would send instead.
pub(crate) async fn tolerant(mut request: Request, next: Next) -> axum::response::Response {
    let plain_refused = |coding: &str| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let zero = quality.trim().strip_prefix(['q', 'Q']).is_some_and(|rest| {
            let value = rest.trim_start().trim_start_matches('=').trim();
            value.parse::<f32>().is_ok_and(|value| value == 0.0)
        });
        zero && matches!(name.trim().to_ascii_lowercase().as_str(), "*" | "identity")
    };
    let headers = request.headers_mut();
    let values: Vec<&str> =
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.iter().any(|value| value.split(',').any(plain_refused)) {
        let codings: Vec<&str> =
            values.iter().flat_map(|value| value.split(',')).filter(|coding| !plain_refused(coding)).collect();
        match HeaderValue::from_str(&codings.join(",")) {
            Ok(value) => drop(headers.insert(header::ACCEPT_ENCODING, value)),
            Err(_) => drop(headers.remove(header::ACCEPT_ENCODING)),
        }
    }
    next.run(request).await
}
