//! What an endpoint made -> the answer, in the format that the caller asked for.
//!
//! - `format`: which one that is;
//! - `rows`: batches of rows to bytes, under the caps, one way for all formats;
//! - `document`: what a component wrote itself;
//! - `redaction`: personal data is masked in the values, before any format sees them;
//! - `stream`: rows that are sent as they come;
//! - `compression`: what is done for the way, after everything else.

mod compression;
mod document;
mod format;
mod redaction;
mod rows;
mod stream;

use std::future::Future;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures::StreamExt;
use tidegate_model::{Code, Failure};
use tidegate_runtime::Body as Made;

pub(crate) use compression::{compressed, tolerant};
pub(crate) use format::Format;
pub(crate) use redaction::redact_failure;
pub(crate) use stream::stream;

/// How an answer is made of what an endpoint made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) format: Format,
    /// The most rows.
    pub(crate) rows: usize,
    /// The most bytes of the body.
    pub(crate) bytes: usize,
    /// Whether personal data is masked.
    pub(crate) redact: bool,
}

impl Shape {
    /// A failure in place of the answer: its text may quote what the answer would mask.
    fn failure(self, failure: Failure) -> Failure {
        if self.redact { redact_failure(failure) } else { failure }
    }
}

/// A whole answer; clones share its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) body: Bytes,
    pub(crate) content_type: &'static str,
    /// Whether there were more rows than the cap.
    pub(crate) truncated: bool,
}

impl Encoded {
    pub(crate) fn respond(self) -> Response<Body> {
        respond(Body::from(self.body), self.content_type, self.truncated)
    }
}

fn respond(body: Body, content_type: &'static str, truncated: bool) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if truncated {
        headers.insert("x-result-truncated", HeaderValue::from_static("true"));
    }
    response
}

/// Waits for what an endpoint makes, reads its rows to their end or to the cap, and encodes them.
///
/// # Errors
/// Those of the endpoint and of its rows; an answer over the cap of bytes; a document that the
/// format cannot hold. All of them are redacted where the answer would be.
pub(crate) async fn encode(
    made: impl Future<Output = Result<Made, Failure>>,
    shape: Shape,
) -> Result<Encoded, Failure> {
    let encoded = async {
        match made.await? {
            Made::Rows(mut rows) => {
                let mut writer = rows::Writer::new(&rows, shape)?;
                while let Some(batch) = rows.batches.next().await {
                    for part in writer.parts(&batch?)? {
                        writer.write(&part)?;
                    }
                    if writer.is_full() {
                        break;
                    }
                }
                writer.finish()
            }
            Made::Document(document) => document::encode(&document, shape),
            Made::Empty => document::encode("[]", shape),
        }
    };
    encoded.await.map_err(|failure| shape.failure(failure))
}

fn too_large(limit: usize) -> Failure {
    let message =
        format!("the answer is larger than {limit} bytes; select fewer columns or rows, or narrow the time range");
    Failure::new(Code::LimitExceeded, message)
}

fn lost(what: impl std::fmt::Display) -> Failure {
    tracing::error!(%what, "an answer cannot be encoded");
    Failure::new(Code::Internal, "the answer could not be encoded; the server's log has the details")
}
