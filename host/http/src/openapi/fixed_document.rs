//! The document for callers without a token. It is the same for all of them, so it is made once, and so is its compressed
//! form: a caller who does not read it holds no memory of its own.

use std::io::Write;
use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::accept::accepts_coding;
use crate::response::Accounted;

/// The document, once it was asked for.
#[derive(Debug, Default)]
pub(super) struct FixedDocument(OnceLock<Forms>);

#[derive(Debug)]
struct Forms {
    plain: Bytes,
    /// Nothing if it could not be compressed.
    gzip: Option<Bytes>,
}

impl Forms {
    fn of(document: String) -> Self {
        let plain = Bytes::from(document);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let gzip = gzip.write_all(&plain).and_then(|()| gzip.finish()).ok().map(Bytes::from);
        Self { plain, gzip }
    }
}

impl FixedDocument {
    /// The response, in the best form that the client accepts. `make` writes the document, the first time.
    pub(super) fn response(&self, headers: &HeaderMap, make: impl FnOnce() -> String) -> Response {
        let Forms { plain, gzip } = self.0.get_or_init(|| Forms::of(make()));
        let gzip = gzip.as_ref().filter(|_| accepts_coding(headers, "gzip"));
        let body = gzip.unwrap_or(plain).clone();
        let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        if gzip.is_some() {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.extensions_mut().insert(Accounted);
        response
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::io::Read;

    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn all_callers_share_the_bytes() {
        let document = FixedDocument::default();
        let body = async |coding: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            coding.map(|coding| headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(coding)));
            let response = document.response(&headers, || "{\"paths\": {}}".to_owned());
            assert!(response.extensions().get::<Accounted>().is_some());
            to_bytes(response.into_body(), 1 << 20).await.unwrap()
        };
        let (plain, packed) = (body(None).await, body(Some("br;q=0.5, GZIP")).await);
        assert_eq!(body(Some("gzip;q=0")).await.as_ptr(), plain.as_ptr());
        assert_eq!(body(Some("gzip")).await.as_ptr(), packed.as_ptr());
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
        assert_eq!(plain, "{\"paths\": {}}");
    }
}
