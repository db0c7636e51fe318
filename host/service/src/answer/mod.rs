//! Encodes the answer of an endpoint in the format that the caller asked for.
//!
//! - `format`: the formats;
//! - `rows`: encodes batches of rows within the limits, with the same code for all formats;
//! - `document`: encodes a JSON document that a component wrote itself;
//! - `redaction`: masks personal data in the values, before a format is encoded;
//! - `stream`: answers whose rows are sent while they are read;
//! - `memory`: the memory budget for answers that callers have not read yet;
//! - `shared`: reservations of that budget for bytes that several accounts are sent at once;
//! - `encoded`: complete answers, in pieces with reservations of that budget;
//! - `metadata`: what a component says about its answer besides the body;
//! - `lines`: rows as single lines of JSON;
//! - `columns`: the rows of a statement with the types that the encoders need.

mod columns;
mod document;
mod encoded;
mod format;
mod lines;
mod memory;
mod metadata;
mod options;
mod redaction;
mod rows;
mod shared;
mod stream;

use std::future::Future;

use futures::StreamExt;
use tidegate_model::Failure;
use tidegate_runtime::{Answer, Body, Rows};

use encoded::{PIECE, Pieces};

pub(crate) use columns::{RowLimit, rows_of, rows_with};
pub use encoded::{CachedBody, Encoded, Outgoing};
pub use format::{Format, PARAMETER as FORMAT_PARAMETER};
pub(crate) use lines::LineWriter;
pub use memory::{AccountMemory, Reservation, TransferMemory, counted};
pub use metadata::AnswerMetadata;
pub(crate) use options::EncodingOptions;
pub(crate) use shared::SharedBytes;
pub use stream::Streamed;
pub(crate) use stream::stream;

/// Waits for the answer of an endpoint, and encodes it within the memory budget of its account.
///
/// # Errors
/// A failure of the endpoint or of its rows; an answer that exceeds the limit of bytes; a document that the format
/// cannot represent; a memory budget that is used up. Failures are redacted if the answer would be.
pub(crate) async fn encode(
    made: impl Future<Output = Result<Answer, Failure>>,
    options: EncodingOptions,
    memory: AccountMemory,
) -> Result<Encoded, Failure> {
    let encoded = async {
        let (body, metadata) = AnswerMetadata::of(made.await?, options.redact);
        match body {
            Body::Rows(rows) => encode_rows(rows, metadata, options, memory).await,
            Body::Document(document) => encode_document(&document, metadata, options, memory).await,
            Body::Empty => encode_document("[]", metadata, options, memory).await,
        }
    };
    encoded.await.map_err(|failure| options.failure(failure))
}

/// Encodes a document that a component wrote. The document is in memory already, and the limit on the bytes of one call
/// bounds its size.
async fn encode_document(
    document: &str,
    metadata: AnswerMetadata,
    options: EncodingOptions,
    memory: AccountMemory,
) -> Result<Encoded, Failure> {
    let (body, truncated) = document::encode(document, options)?;
    let mut pieces = Pieces::new(memory);
    pieces.push(body).await?;
    Ok(Encoded::of(pieces, options.format.content_type(), truncated, metadata))
}

/// Reads and encodes rows, up to their end or to the limit of rows.
///
/// # Errors
/// The failures of the rows, unchanged; an answer that exceeds the limit of bytes; a memory budget that is used up.
async fn encode_rows(
    mut rows: Rows,
    metadata: AnswerMetadata,
    options: EncodingOptions,
    memory: AccountMemory,
) -> Result<Encoded, Failure> {
    let mut writer = rows::Writer::new(&rows, options)?;
    let mut pieces = Pieces::new(memory);
    while !writer.is_full()
        && let Some(batch) = rows.batches.next().await
    {
        for part in writer.parts(&batch?)? {
            pieces.hold(writer.held() + part.size()).await?;
            writer.write(&part)?;
            // The encoding may be larger than estimated: separators, and characters that are longer when escaped.
            pieces.hold(writer.held()).await?;
            if writer.held() >= PIECE {
                pieces.push(writer.take()?).await?;
            }
            // Encoding a large answer takes long. Yielding lets other work run on this thread.
            tokio::task::yield_now().await;
        }
    }
    let (rest, truncated) = writer.finish()?;
    pieces.push(rest).await?;
    Ok(Encoded::of(pieces, options.format.content_type(), truncated, metadata))
}
