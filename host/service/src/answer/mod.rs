//! The answer of an endpoint, encoded in the format that the caller asked for.
//!
//! - `format`: the formats;
//! - `rows`: batches of rows to bytes under the limits, one way for all formats;
//! - `document`: a JSON document that a component wrote itself;
//! - `redaction`: personal data is masked in the values, before any format is encoded;
//! - `stream`: rows that are sent while they are read;
//! - `memory`: the budget for answers that are not read yet;
//! - `encoded`: a whole answer in pieces that hold reservations of that budget;
//! - `metadata`: what a component says about its answer besides the body;
//! - `columns`: rows of a statement with the types that the encoders need.

mod columns;
mod document;
mod encoded;
mod format;
mod memory;
mod metadata;
mod options;
mod redaction;
mod rows;
mod stream;

use std::future::Future;

use futures::StreamExt;
use tidegate_model::Failure;
use tidegate_runtime::{Answer, Body as Made, Rows};

use encoded::{PIECE, Pieces};

pub(crate) use columns::rows_of;
pub use encoded::{CachedBody, Encoded, Outgoing};
pub use format::{Format, PARAMETER as FORMAT_PARAMETER};
pub use memory::{AnswerMemory, Reservation, TenantMemory, counted};
pub use metadata::AnswerMetadata;
pub(crate) use options::EncodingOptions;
pub use stream::Streamed;
pub(crate) use stream::stream;

/// Waits for what an endpoint produces and encodes it within its tenant's memory budget.
///
/// # Errors
/// Those of the endpoint and of its rows; an answer over the limit of bytes; a document that the format cannot hold; a
/// memory budget that is used up. All of them are redacted where the answer would be.
pub(crate) async fn encode(
    made: impl Future<Output = Result<Answer, Failure>>,
    options: EncodingOptions,
    memory: TenantMemory,
) -> Result<Encoded, Failure> {
    let encoded = async {
        let Answer { body, max_age, notes, saw_time, usage: _ } = made.await?;
        let metadata = AnswerMetadata::new(max_age, saw_time, notes, options.redact);
        match body {
            Made::Rows(rows) => encode_rows(rows, metadata, options, memory).await,
            Made::Document(document) => encode_document(&document, metadata, options, memory).await,
            Made::Empty => encode_document("[]", metadata, options, memory).await,
        }
    };
    encoded.await.map_err(|failure| options.failure(failure))
}

/// Encodes a document that a component wrote. It is in memory already, and bounded by the limit of bytes of one call.
async fn encode_document(
    document: &str,
    metadata: AnswerMetadata,
    options: EncodingOptions,
    memory: TenantMemory,
) -> Result<Encoded, Failure> {
    let (body, truncated) = document::encode(document, options)?;
    let mut pieces = Pieces::new(memory);
    pieces.push(body).await?;
    Ok(Encoded::of(pieces, options.format.content_type(), truncated, metadata))
}

/// Reads rows to their end or to the limit of rows, and encodes them.
///
/// # Errors
/// Those of the rows, unchanged; an answer over the limit of bytes; a memory budget that is used up.
async fn encode_rows(
    mut rows: Rows,
    metadata: AnswerMetadata,
    options: EncodingOptions,
    memory: TenantMemory,
) -> Result<Encoded, Failure> {
    let mut writer = rows::Writer::new(&rows, options)?;
    let mut pieces = Pieces::new(memory);
    while !writer.is_full()
        && let Some(batch) = rows.batches.next().await
    {
        for part in writer.parts(&batch?)? {
            pieces.hold(writer.held() + part.size()).await?;
            writer.write(&part)?;
            // For separators, and for characters that are longer when escaped.
            pieces.hold(writer.held()).await?;
            if writer.held() >= PIECE {
                pieces.push(writer.take()?).await?;
            }
            // A large answer takes long to encode: other work gets the thread in between.
            tokio::task::yield_now().await;
        }
    }
    let (rest, truncated) = writer.finish()?;
    pieces.push(rest).await?;
    Ok(Encoded::of(pieces, options.format.content_type(), truncated, metadata))
}
