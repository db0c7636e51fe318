//! Compression of responses: with a coding that `Accept-Encoding` names, where it is worth its cost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::middleware::Next;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_service::answer::{Reservation, TenantMemory, counted};
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// The shortest body that is compressed, in bytes: a shorter one fits one packet anyway.
const SHORTEST: u64 = 1 << 10;

/// A layer that compresses whole responses with gzip, zstd or Brotli, whichever the client accepts.
pub(crate) fn compressed() -> CompressionLayer<Whole> {
    // The fastest level has most of the effect, and compression must not keep a processor busy.
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(Whole)
}

/// Selects responses of known length. Others are streams, and a compressor would hold their lines back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole;

impl Predicate for Whole {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        response.body().size_hint().exact().is_some_and(|length| length >= SHORTEST)
    }
}

/// Counts the compressed form of a response, and the memory of its compressor, in the budget for answers. The
/// uncompressed text is counted already. This does not wait for free memory: the text could not be sent without it.
pub(crate) async fn count_compressed(request: Request, next: Next) -> axum::response::Response {
    let response = next.run(request).await;
    let Some(memory) = response.extensions().get::<TenantMemory>().cloned() else { return response };
    match compressor_bytes(response.headers()) {
        Some(bytes) => {
            let compressor = memory.note(bytes);
            response.map(|body| Body::new(Compressed { body, memory, _compressor: compressor }))
        }
        None => response,
    }
}

/// How many bytes the compressor of a response holds at its fastest level, approximately: its window and its tables.
fn compressor_bytes(headers: &HeaderMap) -> Option<usize> {
    let coding = headers.get(header::CONTENT_ENCODING)?;
    Some(match coding.as_bytes() {
        b"gzip" | b"deflate" => 320 << 10,
        _ => 2 << 20,
    })
}

/// The body of a compressed response, whose bytes count in the memory budget.
struct Compressed {
    body: Body,
    memory: TenantMemory,
    _compressor: Reservation,
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
