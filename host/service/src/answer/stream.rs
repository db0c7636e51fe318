//! Streamed answers: rows are sent while they are read, one per line.
//!
//! The HTTP status is sent with the first rows, so that most failures still get their own status. A later failure is
//! written as a last line, `{"error": {...}}`. Then the body is aborted, so that a client that checks only the transfer
//! sees that the answer is incomplete. An answer that is cut at the limit of rows ends with the line
//! `{"truncated": {"rows": ...}}`. The work ends with the body: when its time is over, or when the caller
//! disconnects.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tidegate_model::{Code, Failure};
use tidegate_runtime::{Answer, Body};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::encoded::piece;
use super::memory::AccountMemory;
use super::metadata::AnswerMetadata;
use super::options::{EncodingOptions, lost};
use super::{document, rows};
use crate::admission::Permit;
use crate::compute::Compute;
use crate::deadline::{GRACE, late};
use crate::failures;
use crate::in_turn::InTurn;

/// The number of parts that are buffered for the caller. When the buffer is full, the statement waits.
const WAITING: usize = 4;
/// The time to send the last line before the body is aborted.
const PARTING: Duration = Duration::from_millis(50);

/// An answer whose rows are sent while they are read.
pub struct Streamed {
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// What the component says about the answer.
    pub metadata: Option<AnswerMetadata>,
    /// The budget in which the lines are counted, for middleware that replaces the bytes, such as compression.
    pub memory: AccountMemory,
    /// The body. After a failure, it ends with a line that gives the reason, and then an error that aborts it.
    pub lines: BoxStream<'static, io::Result<Bytes>>,
    /// Whether the rows were cut at their limit. Known when the lines have ended.
    pub truncated: Arc<AtomicBool>,
}

impl std::fmt::Debug for Streamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { content_type, metadata, memory: _, lines: _, truncated: _ } = self;
        f.debug_struct("Streamed")
            .field("content_type", content_type)
            .field("metadata", metadata)
            .finish_non_exhaustive()
    }
}

/// Streams the rows of an endpoint. The body begins with the first rows. `guard` is dropped with the body and stops
/// what the work has started. `limit` is the time limit of the whole request.
///
/// # Errors
/// The failures before the first rows.
pub(crate) async fn stream(
    compute: &Compute,
    made: impl Future<Output = Result<Answer, Failure>> + Send + 'static,
    options: EncodingOptions,
    memory: AccountMemory,
    guard: impl Send + 'static,
    permit: Arc<Permit>,
    limit: Duration,
) -> Result<Streamed, Failure> {
    let own = memory.clone();
    let deadline = Instant::now() + limit + GRACE;
    let (sender, parts) = mpsc::channel(WAITING);
    let (end, ended) = oneshot::channel();
    let metadata = Arc::new(OnceLock::new());
    let tell = Arc::clone(&metadata);
    // The work holds the permit, and it ends within its time limit. A caller that reads slowly holds memory, but no
    // permit.
    let work = async move {
        // The caller's side has the same time limit, but it is not polled while the caller does not read.
        let done = timeout(limit + GRACE, produce(made, tell, options, own, sender))
            .await
            .unwrap_or_else(|_| Err(late(limit)));
        let _ = end.send(done);
    };
    let task = compute.start_work(InTurn::new(permit, work.boxed()))?;
    let truncated = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&truncated);
    let mut source =
        Source { parts, ended: Some(ended), truncated: told, deadline, limit, options, _task: task, _guard: guard };
    let first = source.next().await.transpose()?;
    let state = State::Rows(first, source);
    let lines = futures::stream::unfold(state, State::step);
    // The work sets the metadata before it sends the first rows.
    let metadata = metadata.get().cloned();
    Ok(Streamed { content_type: options.format.content_type(), metadata, memory, lines: lines.boxed(), truncated })
}

/// Sends the rows, and returns whether they were cut at their limit.
async fn produce(
    made: impl Future<Output = Result<Answer, Failure>>,
    tell: Arc<OnceLock<AnswerMetadata>>,
    options: EncodingOptions,
    memory: AccountMemory,
    sender: mpsc::Sender<Bytes>,
) -> Result<bool, Failure> {
    let gone = |_| Failure::new(Code::Internal, "the caller hung up");
    let (body, metadata) = AnswerMetadata::of(made.await?, options.redact);
    let _ = tell.set(metadata);
    let mut rows = match body {
        Body::Rows(rows) => rows,
        Body::Document(text) => {
            let (body, truncated) = document::encode(&text, options)?;
            let held = memory.take(body.len()).await?;
            sender.send(piece(body, held)).await.map_err(gone)?;
            return Ok(truncated);
        }
        Body::Empty => return Ok(false),
    };
    let mut writer = rows::Writer::new(&rows, options)?;
    let mut begun = false;
    while !writer.is_full()
        && let Some(batch) = rows.batches.next().await
    {
        for part in writer.parts(&batch?)? {
            // A started answer is not aborted for lack of memory. It waits for memory until its time limit.
            let mut held = if begun { memory.wait(part.size()).await } else { memory.take(part.size()).await? };
            begun = true;
            writer.write(&part)?;
            let line = writer.take()?;
            // The encoding may be larger than estimated: separators, and characters that are longer when escaped.
            held.join(memory.note(line.len().saturating_sub(held.bytes())));
            sender.send(piece(line, held)).await.map_err(gone)?;
            tokio::task::yield_now().await;
        }
    }
    Ok(writer.is_full())
}

/// The caller's side of a streamed request.
struct Source<G> {
    parts: mpsc::Receiver<Bytes>,
    /// The result of the work, sent after its last part.
    ended: Option<oneshot::Receiver<Result<bool, Failure>>>,
    truncated: Arc<AtomicBool>,
    deadline: Instant,
    limit: Duration,
    options: EncodingOptions,
    _task: AbortOnDropHandle<()>,
    _guard: G,
}

impl<G> Source<G> {
    async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        let deadline = self.deadline;
        let next = timeout_at(deadline, async {
            if let Some(part) = self.parts.recv().await {
                return Some(Ok(part));
            }
            match self.ended.take()?.await {
                Ok(Ok(false)) => None,
                Ok(Ok(true)) => {
                    self.truncated.store(true, Ordering::Relaxed);
                    Some(Ok(format!("{}\n", json!({"truncated": {"rows": self.options.rows}})).into()))
                }
                Ok(Err(failure)) => Some(Err(failure)),
                Err(_) => Some(Err(lost("the work on a streamed answer broke off"))),
            }
        });
        let next = next.await.unwrap_or_else(|_| Some(Err(late(self.limit))));
        next.map(|part| part.map_err(|failure| self.options.failure(failure)))
    }
}

enum State<G> {
    /// A part that is already read, and the source of the following parts.
    Rows(Option<Bytes>, Source<G>),
    Broken,
}

impl<G> State<G> {
    async fn step(self) -> Option<(io::Result<Bytes>, Self)> {
        match self {
            Self::Rows(Some(part), source) => Some((Ok(part), Self::Rows(None, source))),
            Self::Rows(None, mut source) => match source.next().await? {
                Ok(part) => Some((Ok(part), Self::Rows(None, source))),
                Err(failure) => {
                    tracing::info!(code = failure.code.name(), "a streamed answer broke off");
                    let line = format!("{}\n", failures::document(&failure));
                    Some((Ok(line.into()), Self::Broken))
                }
            },
            Self::Broken => {
                tokio::time::sleep(PARTING).await;
                Some((Err(io::Error::other("the answer is not whole")), Self::Broken))
            }
        }
    }
}
