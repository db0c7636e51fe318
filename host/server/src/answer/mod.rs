//! What an endpoint made -> the answer, in the format that the caller asked for.
//!
//! - `format`: which one that is;
//! - `rows`: batches of rows to bytes, under the caps, one way for all formats;
//! - `document`: what a component wrote itself;
//! - `redaction`: personal data is masked in the values, before any format sees them;
//! - `stream`: rows that are sent as they come;
//! - `room`: how much memory all answers may hold until they are read;
//! - `encoded`: an answer in pieces that hold their part of it;
//! - `told`: what a component says of its answer, beside it;
//! - `compression`: what is done for the way, after everything else.

mod compression;
mod document;
mod encoded;
mod format;
mod redaction;
mod room;
mod rows;
mod stream;
mod told;

use std::future::Future;

use futures::StreamExt;
use tidegate_model::{Code, Failure};
use tidegate_runtime::{Answer, Body as Made, Rows};

use encoded::{PIECE, Pieces};

pub(crate) use compression::{compressed, count_compressed, tolerant};
pub(crate) use encoded::{Encoded, Kept};
pub(crate) use format::Format;
pub(crate) use redaction::redact_failure;
pub(crate) use room::{AnswerRoom, Held, Share};
pub(crate) use stream::stream;
pub(crate) use told::Told;

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

/// Waits for what an endpoint makes, and encodes it, in the room that its tenant has.
///
/// # Errors
/// Those of the endpoint and of its rows; an answer over the cap of bytes; a document that the
/// format cannot hold; no room. All of them are redacted where the answer would be.
pub(crate) async fn encode(
    made: impl Future<Output = Result<Answer, Failure>>,
    shape: Shape,
    share: Share,
) -> Result<Encoded, Failure> {
    let encoded = async {
        let Answer { body, max_age, notes, saw_time, usage: _ } = made.await?;
        let told = Told::new(max_age, saw_time, notes, shape.redact);
        match body {
            Made::Rows(rows) => encode_rows(rows, told, shape, share).await,
            Made::Document(document) => encode_document(&document, told, shape, share).await,
            Made::Empty => encode_document("[]", told, shape, share).await,
        }
    };
    encoded.await.map_err(|failure| shape.failure(failure))
}

/// Encodes what a component wrote itself; that is in memory already, and as small as a call of it may be.
async fn encode_document(document: &str, told: Told, shape: Shape, share: Share) -> Result<Encoded, Failure> {
    let (body, truncated) = document::encode(document, shape)?;
    let mut pieces = Pieces::new(share);
    pieces.push(body).await?;
    Ok(Encoded::of(pieces, shape.format.content_type(), truncated, told))
}

/// Reads rows to their end or to the cap, and encodes them.
///
/// # Errors
/// Those of the rows, as they are; an answer over the cap of bytes; no room.
async fn encode_rows(mut rows: Rows, told: Told, shape: Shape, share: Share) -> Result<Encoded, Failure> {
    let mut writer = rows::Writer::new(&rows, shape)?;
    let mut pieces = Pieces::new(share);
    while !writer.is_full()
        && let Some(batch) = rows.batches.next().await
    {
        for part in writer.parts(&batch?)? {
            pieces.hold(writer.held() + part.size()).await?;
            writer.write(&part)?;
            // Signs between the texts, and those that are written with more than they are.
            pieces.hold(writer.held()).await?;
            if writer.held() >= PIECE {
                pieces.push(writer.take()?).await?;
            }
            // A large answer takes long to encode: others who compute have their turn.
            tokio::task::yield_now().await;
        }
    }
    let (rest, truncated) = writer.finish()?;
    pieces.push(rest).await?;
    Ok(Encoded::of(pieces, shape.format.content_type(), truncated, told))
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
