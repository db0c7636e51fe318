//! Rows -> the JSON answer: the row cap, redaction, the envelope.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures::StreamExt;
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_runtime::{Made, Rows};
use tidegate_sql::{ColumnEncoder, Style, Type};

use crate::redact::redact_json;
use crate::statements::{ColumnTypes, type_of};

/// How rows are turned into an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// The most rows.
    pub(crate) rows: usize,
    /// The most bytes of the body.
    pub(crate) bytes: usize,
    /// Whether personal data is masked.
    pub(crate) redact: bool,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
}

/// An encoded answer.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) body: Bytes,
    /// Whether there were more rows than the cap.
    pub(crate) truncated: bool,
}

impl Encoded {
    pub(crate) fn respond(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.truncated {
            headers.insert("x-result-truncated", HeaderValue::from_static("true"));
        }
        response
    }
}

/// Reads rows to their end, or to the cap, and encodes them: `{"result": [...]}`.
pub(crate) async fn encode_rows(rows: Rows, shape: Shape) -> Result<Encoded, Failure> {
    let Rows { columns, mut batches, context, .. } = rows;
    let types: Vec<Type> = if context.is::<Made>() {
        columns.iter().map(|column| type_of(column.kind)).collect()
    } else {
        let types = context.downcast_ref::<ColumnTypes>().ok_or_else(|| lost("the types of the columns"))?;
        let of = |origin: Option<usize>| origin.and_then(|at| types.get(at)).cloned();
        columns
            .iter()
            .map(|column| of(column.origin).ok_or_else(|| lost("a column's type")))
            .collect::<Result<_, _>>()?
    };
    let mut body = b"{\"result\":[".to_vec();
    let (mut count, mut truncated) = (0, false);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let mut encoders = Vec::with_capacity(columns.len());
        for ((column, ty), array) in columns.iter().zip(&types).zip(batch.columns()) {
            let mut key = serde_json::to_vec(&column.name).map_err(|error| lost(&error.to_string()))?;
            key.push(b':');
            let encoder = ColumnEncoder::new(array, ty, Style::Result).map_err(|error| lost(&error.to_string()))?;
            encoders.push((key, encoder));
        }
        for row in 0..batch.num_rows() {
            if count == shape.rows {
                truncated = true;
                break;
            }
            body.push(if count == 0 { b'{' } else { b',' });
            if count > 0 {
                body.push(b'{');
            }
            for (i, (key, encoder)) in encoders.iter().enumerate() {
                if i > 0 {
                    body.push(b',');
                }
                body.extend_from_slice(key);
                encoder.write(row, &mut body);
            }
            body.push(b'}');
            count += 1;
            if body.len() > shape.bytes {
                let message = format!(
                    "the answer is larger than {} bytes; select fewer columns or rows, or narrow the time range",
                    shape.bytes
                );
                return Err(Failure::new(Code::LimitExceeded, message));
            }
        }
        if truncated {
            break;
        }
    }
    body.extend_from_slice(b"]}");
    if shape.redact {
        body = redacted(&body)?;
    }
    Ok(Encoded { body: body.into(), truncated })
}

/// A document that a component made, in the envelope.
pub(crate) fn encode_document(document: &str, shape: Shape) -> Result<Encoded, Failure> {
    let mut body = b"{\"result\":".to_vec();
    body.extend_from_slice(document.as_bytes());
    body.push(b'}');
    if shape.redact {
        body = redacted(&body)?;
    }
    Ok(Encoded { body: body.into(), truncated: false })
}

fn redacted(body: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut value: Value = serde_json::from_slice(body).map_err(|error| lost(&error.to_string()))?;
    if let Some(result) = value.get_mut("result") {
        redact_json(result);
    }
    serde_json::to_vec(&value).map_err(|error| lost(&error.to_string()))
}

fn lost(what: &str) -> Failure {
    tracing::error!(what, "an answer cannot be encoded");
    Failure::new(Code::Internal, "the answer could not be encoded; the server's log has the details")
}
