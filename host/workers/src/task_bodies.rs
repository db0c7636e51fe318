//! The two kinds of answers of a task: that of its start, which lasts as long as the task, and that of a partition.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Body, Frame};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use crate::frames;
use crate::messages::StartedMessage;
use crate::partition_queue::Queue;
use crate::running_task::RunningTask;
use crate::task_state::Ended;
use crate::worker::Worker;

/// How often a task says what it has cost so far.
const COST_INTERVAL: Duration = Duration::from_secs(1);

/// Ends a task when it is dropped: with the answer to its start, which is dropped when the coordinator resets it, and when
/// the connection is gone.
struct Lease {
    worker: Arc<Worker>,
    task: Arc<RunningTask>,
    _deadline: Option<AbortOnDropHandle<()>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.worker.end_task(&self.task, Ended::Left);
    }
}

/// The answer to the start of a task: its id, then what it costs, as long as it runs.
pub(crate) struct TaskBody {
    lease: Lease,
    first: Option<Bytes>,
    ticks: Interval,
    ended: Option<BoxFuture<'static, Ended>>,
}

impl TaskBody {
    /// For a task that ends after `time`. Within a runtime.
    pub(crate) fn new(worker: Arc<Worker>, task: Arc<RunningTask>, time: Option<Duration>) -> Self {
        let started = StartedMessage {
            id: task.id.as_bytes().to_vec(),
            partitions: u32::try_from(task.partitions).unwrap_or(u32::MAX),
        };
        // Not in `poll_frame`, which is not called while nobody reads.
        let deadline = time.and_then(|time| Instant::now().checked_add(time)).map(|at| {
            let (worker, task) = (Arc::clone(&worker), Arc::clone(&task));
            AbortOnDropHandle::new(tokio::spawn(async move {
                tokio::time::sleep_until(at).await;
                worker.end_task(&task, Ended::Late);
            }))
        });
        let mut ticks = tokio::time::interval_at(Instant::now() + COST_INTERVAL, COST_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ended = {
            let task = Arc::clone(&task);
            async move { task.ended().await }.boxed()
        };
        Self {
            lease: Lease { worker, task, _deadline: deadline },
            first: Some(frames::started(&started)),
            ticks,
            ended: Some(ended),
        }
    }
}

impl Body for TaskBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
        if let Poll::Ready(why) = ended.poll_unpin(cx) {
            self.ended = None;
            return Poll::Ready(Some(Ok(Frame::data(frames::failed(&why.failure())))));
        }
        ready!(self.ticks.poll_tick(cx));
        Poll::Ready(Some(Ok(Frame::data(frames::cost(&self.lease.task.cost())))))
    }
}

/// The rows of a partition. What sends them ends when this is dropped.
pub(crate) struct PartitionBody {
    queue: Queue,
    _sender: AbortOnDropHandle<()>,
}

impl PartitionBody {
    pub(crate) fn new(queue: Queue, sender: AbortOnDropHandle<()>) -> Self {
        Self { queue, _sender: sender }
    }
}

impl Body for PartitionBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.queue.poll_piece(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
