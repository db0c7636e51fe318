//! Rows that are sent as they come, one a line.
//!
//! The status waits for the first rows, so that most failures have a true one. A later failure is
//! told in a last line, `{"error": {...}}`, and then the body breaks off: whoever reads only the
//! transfer sees that it is not whole. What runs ends with the body: at the end of its time, or
//! when the caller hangs up.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use tidegate_model::{Code, Failure};
use tidegate_runtime::{Answer, Body as Made};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::encoded::{piece, respond};
use super::{Shape, Share, Told, document, lost, rows};
use crate::admission::Permit;
use crate::compute::{AbortOnDrop, Compute};
use crate::execute::{GRACE, late};
use crate::turns::InTurn;

/// Parts that may wait for the caller; with more, the statement waits.
const WAITING: usize = 4;
/// How long a last line may take to leave before the body breaks off behind it.
const PARTING: Duration = Duration::from_millis(50);

/// Answers with the rows of what an endpoint makes, while they come. `guard` is dropped with the
/// body: it ends what the work began. `limit` is the time of the whole request.
///
/// # Errors
/// Those before the first rows.
pub(crate) async fn stream(
    compute: &Compute,
    made: impl Future<Output = Result<Answer, Failure>> + Send + 'static,
    shape: Shape,
    share: Share,
    guard: impl Send + 'static,
    place: Arc<Permit>,
    limit: Duration,
) -> Result<Response<Body>, Failure> {
    let own = share.clone();
    let deadline = Instant::now() + limit + GRACE;
    let (sender, parts) = mpsc::channel(WAITING);
    let (end, ended) = oneshot::channel();
    let told = Arc::new(OnceLock::new());
    let tell = Arc::clone(&told);
    // The place among those that compute goes with the work, which ends in its time; a caller who reads
    // slowly holds the answer, and no place.
    let work = async move {
        // The caller's side has the same limit, but is not asked while the caller does not read.
        let done =
            timeout(limit + GRACE, produce(made, tell, shape, own, sender)).await.unwrap_or_else(|_| Err(late(limit)));
        let _ = end.send(done);
    };
    let task = compute.start_work(InTurn::new(place, work.boxed()))?;
    let mut source = Source { parts, ended: Some(ended), deadline, limit, shape, _task: task, _guard: guard };
    let first = source.next().await.transpose()?;
    let state = State::Rows(first, source);
    let lines = futures::stream::unfold(state, State::step);
    let mut response = respond(Body::from_stream(lines), shape.format.content_type(), false, share);
    // It was told before the first rows.
    if let Some(told) = told.get() {
        told.write(response.headers_mut());
    }
    Ok(response)
}

async fn produce(
    made: impl Future<Output = Result<Answer, Failure>>,
    tell: Arc<OnceLock<Told>>,
    shape: Shape,
    share: Share,
    sender: mpsc::Sender<Bytes>,
) -> Result<(), Failure> {
    let gone = |_| Failure::new(Code::Internal, "the caller hung up");
    let Answer { body, max_age, notes, saw_time, usage: _ } = made.await?;
    let _ = tell.set(Told::new(max_age, saw_time, notes, shape.redact));
    let mut rows = match body {
        Made::Rows(rows) => rows,
        Made::Document(text) => {
            let (body, _) = document::encode(&text, shape)?;
            let held = share.take(body.len()).await?;
            return sender.send(piece(body, held)).await.map_err(gone);
        }
        Made::Empty => return Ok(()),
    };
    let mut writer = rows::Writer::new(&rows, shape)?;
    let mut begun = false;
    while !writer.is_full()
        && let Some(batch) = rows.batches.next().await
    {
        for part in writer.parts(&batch?)? {
            // An answer that is begun is not broken off for others: it waits for room until its time is over.
            let mut held = if begun { share.wait(part.size()).await } else { share.take(part.size()).await? };
            begun = true;
            writer.write(&part)?;
            let line = writer.take()?;
            // Signs between the texts, and those that are written with more than they are.
            held.join(share.note(line.len().saturating_sub(held.bytes())));
            sender.send(piece(line, held)).await.map_err(gone)?;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// The caller's end of a running request.
struct Source<G> {
    parts: mpsc::Receiver<Bytes>,
    /// How the work ended; it says so after its last part.
    ended: Option<oneshot::Receiver<Result<(), Failure>>>,
    deadline: Instant,
    limit: Duration,
    shape: Shape,
    _task: AbortOnDrop<()>,
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
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(Err(failure)),
                Err(_) => Some(Err(lost("the work on a streamed answer broke off"))),
            }
        });
        let next = next.await.unwrap_or_else(|_| Some(Err(late(self.limit))));
        next.map(|part| part.map_err(|failure| self.shape.failure(failure)))
    }
}

enum State<G> {
    /// A part that is there already, and where the others come from.
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
                    let line = format!("{}\n", crate::failure::document(&failure));
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
