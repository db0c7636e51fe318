//! Compression of answers: what `Accept-Encoding` asks for, where it pays.

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use axum::middleware::Next;
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};

/// The shortest body that is compressed, in bytes: a shorter one fits one packet anyway.
const SHORTEST: u64 = 1 << 10;

/// A layer that compresses whole answers with gzip, zstd or Brotli, whichever the caller takes.
pub(crate) fn compressed() -> CompressionLayer<Whole> {
    // The fastest level: it has most of the effect, and answers must not keep a processor busy.
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(Whole)
}

/// Answers whose length is known. A compressor would hold lines of a stream back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole;

impl Predicate for Whole {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        response.body().size_hint().exact().is_some_and(|length| length >= SHORTEST)
    }
}

/// A caller who refuses even the plain form gets it all the same: a true status says more than a
/// 406, which the layer would put in its place.
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
