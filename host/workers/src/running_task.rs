//! A task that runs on a worker, from its start until nobody reads it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use datafusion::arrow::buffer::Buffer;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::StreamExt;
use tidegate_cluster::{BatchBytes, WorkerFailure};
use tidegate_functions::context::Stop;
use tidegate_functions::wording::{out_of_memory, timed_out};
use tidegate_model::{Code, Failure, number};
use tidegate_sql::{OperatorCost, OperatorRows, OperatorRun};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use uuid::Uuid;

use crate::frames;
use crate::messages::CostMessage;

/// How many bytes of a batch are handed to the connection at once.
const PIECE: usize = 64 << 10;

/// Why a task ended before its rows did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nobody wants its rows any more.
    Left,
    /// Its time is over.
    Late,
    /// The worker ends.
    Closing,
}

impl Ended {
    /// As the failure that is sent.
    pub(crate) fn failure(self) -> WorkerFailure {
        match self {
            Self::Left | Self::Closing => WorkerFailure::Busy("the worker is shutting down".to_owned()),
            Self::Late => WorkerFailure::Statement(timed_out()),
        }
    }
}

/// The failure of operators on a worker. What a worker cannot read, another one may.
pub(crate) fn of_run(failure: Failure) -> WorkerFailure {
    match failure.code {
        Code::DataUnavailable | Code::DataDamaged => {
            WorkerFailure::Gone(format!("it cannot read its segments: {}", failure.message))
        }
        _ => WorkerFailure::of_run(failure),
    }
}

/// What all tasks of a worker have sent.
#[derive(Debug, Default)]
pub(crate) struct SentCounts {
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// A task, its operators and what it may hold.
#[derive(Debug)]
pub(crate) struct RunningTask {
    pub(crate) id: Uuid,
    pub(crate) partitions: usize,
    stop: Stop,
    /// What was not asked for yet.
    rows: Mutex<Vec<Option<OperatorRows>>>,
    /// What was sent of partitions and not taken.
    queues: Mutex<Vec<WeakWaiting>>,
    cost: OperatorCost,
    sent: Arc<SentCounts>,
    state: Arc<TaskState>,
    /// Its place among the tasks of the worker, until the last of its rows is gone.
    _place: OwnedSemaphorePermit,
}

impl RunningTask {
    pub(crate) fn new(run: OperatorRun, stop: Stop, sent: Arc<SentCounts>, place: OwnedSemaphorePermit) -> Arc<Self> {
        let OperatorRun { partitions, cost, memory } = run;
        Arc::new(Self {
            id: Uuid::new_v4(),
            partitions: partitions.len(),
            stop,
            rows: Mutex::new(partitions.into_iter().map(Some).collect()),
            queues: Mutex::default(),
            cost,
            sent,
            state: Arc::new(TaskState { memory, ended: watch::Sender::new(None) }),
            _place: place,
        })
    }

    /// What it has cost so far.
    pub(crate) fn cost(&self) -> CostMessage {
        CostMessage::of(&self.cost.so_far())
    }

    /// Ends it: what computes is asked to stop, what waits is dropped with all that it holds. Only the first reason counts.
    pub(crate) fn end(&self, why: Ended) {
        self.stop.ask();
        self.state.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(why);
            is_first
        });
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // A connection whose other end takes nothing does not ask for what is in the queues.
        let queues = std::mem::take(&mut *self.queues.lock().unwrap_or_else(PoisonError::into_inner));
        queues.iter().filter_map(Weak::upgrade).for_each(|queue| clear(&queue));
    }

    /// Waits until it ends before its rows do.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.state.ended.subscribe();
        // The sender is in `self`.
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        why.unwrap_or(Ended::Left)
    }

    /// Takes the rows of a partition; `None` if it has no such partition, or they were taken.
    pub(crate) fn take(&self, partition: usize) -> Option<OperatorRows> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get_mut(partition).and_then(Option::take)
    }

    /// Opens a partition whose rows were taken: what is sent of it comes out of the queue, until the task ends.
    pub(crate) fn open(&self, from: mpsc::Receiver<Part>) -> Queue {
        let waiting = Arc::new(Mutex::new(Some(Waiting { from, batch: None })));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.push(Arc::downgrade(&waiting));
        drop(queues);
        if self.state.why().is_some() {
            clear(&waiting);
        }
        Queue { state: Arc::clone(&self.state), waiting, is_in_frame: false, is_done: false }
    }

    /// Sends the rows of a partition until they end, fail, or nobody reads them.
    pub(crate) async fn send(self: Arc<Self>, rows: OperatorRows, to: mpsc::Sender<Part>) {
        let last = tokio::select! {
            biased;
            // Whoever reads the queue finds that it is closed.
            _ = self.ended() => return,
            sent = self.send_rows(rows, &to) => match sent {
                Ok(true) => frames::end(&self.cost()),
                Ok(false) => return,
                Err(failure) => frames::failed(&failure),
            },
        };
        tokio::select! {
            biased;
            _ = self.ended() => {}
            // An error says that nobody reads.
            _ = to.send(Part::Last(last)) => {}
        }
    }

    /// Sends rows; whether all of them were taken. What the operators hold is gone when it returns.
    async fn send_rows(&self, mut rows: OperatorRows, to: &mpsc::Sender<Part>) -> Result<bool, WorkerFailure> {
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(of_run)?;
            let batch = BatchBytes::of(&batch).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
            let held = self.state.held(batch.len()).map_err(of_run)?;
            self.sent.rows.fetch_add(number(batch.rows), Ordering::Relaxed);
            self.sent.bytes.fetch_add(number(batch.len()), Ordering::Relaxed);
            if to.send(Part::Rows { head: frames::rows_head(&batch), body: batch.body, held }).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What is left of a task for those who still have something of it.
#[derive(Debug)]
struct TaskState {
    memory: Arc<dyn MemoryPool>,
    ended: watch::Sender<Option<Ended>>,
}

impl TaskState {
    /// So much of the memory of the task.
    fn held(&self, bytes: usize) -> Result<MemoryReservation, Failure> {
        let held = MemoryConsumer::new("sent rows").register(&self.memory);
        held.try_grow(bytes).map_err(|error| out_of_memory(&error.to_string()))?;
        Ok(held)
    }

    fn why(&self) -> Option<Ended> {
        *self.ended.borrow()
    }
}

/// What is sent of a partition.
#[derive(Debug)]
pub(crate) enum Part {
    /// A batch, which counts in the memory of the task.
    Rows { head: Vec<u8>, body: Buffer, held: MemoryReservation },
    /// The last frame.
    Last(Bytes),
}

/// What was sent of a partition and not taken.
#[derive(Debug)]
struct Waiting {
    from: mpsc::Receiver<Part>,
    /// The batch that is handed on in pieces, and how many of its bytes are handed on.
    batch: Option<(Buffer, usize, MemoryReservation)>,
}

type SharedWaiting = Arc<Mutex<Option<Waiting>>>;
type WeakWaiting = Weak<Mutex<Option<Waiting>>>;

fn clear(waiting: &Mutex<Option<Waiting>>) {
    let parts = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(parts);
}

/// The bytes of a partition for the connection.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Arc<TaskState>,
    /// `None` when the task has ended.
    waiting: SharedWaiting,
    /// Whether the body of a frame is not handed on to its end.
    is_in_frame: bool,
    is_done: bool,
}

impl Queue {
    /// The next piece; `None` at the end, which is a good one only if the last piece said so.
    ///
    /// A piece is a copy, because a connection whose other end takes nothing keeps what it was given: a piece, and not the
    /// batch that it is of.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_done {
            return Poll::Ready(None);
        }
        let Some(queue) = waiting.as_mut() else {
            self.is_done = true;
            // In the middle of a frame, another one would be read as a part of it.
            let why = self.state.why().filter(|_| !self.is_in_frame);
            return Poll::Ready(why.map(|why| frames::failed(&why.failure())));
        };
        if let Some((body, from, _)) = &mut queue.batch {
            let to = from.saturating_add(PIECE).min(body.len());
            let piece = body.as_slice().get(*from..to).unwrap_or_default();
            if !piece.is_empty() {
                // Without room the frame is cut, which the reader never takes for its end.
                let held = self.state.held(piece.len()).ok();
                let bytes = held.map(|held| Bytes::from_owner(Held { bytes: piece.to_vec(), _held: held }));
                *from = to;
                self.is_done = bytes.is_none();
                return Poll::Ready(bytes);
            }
        }
        queue.batch = None;
        self.is_in_frame = false;
        match ready!(queue.from.poll_recv(cx)) {
            Some(Part::Rows { head, body, held }) => {
                queue.batch = Some((body, 0, held));
                self.is_in_frame = true;
                Poll::Ready(Some(head.into()))
            }
            Some(Part::Last(frame)) => {
                self.is_done = true;
                Poll::Ready(Some(frame))
            }
            // The task has ended, or what sends broke off: then no frame says that there are no more rows.
            None => {
                self.is_done = true;
                Poll::Ready(self.state.why().map(|why| frames::failed(&why.failure())))
            }
        }
    }
}

/// Bytes that count in the memory of their task until the connection has sent or dropped them.
struct Held {
    bytes: Vec<u8>,
    _held: MemoryReservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::UnboundedMemoryPool;
    use futures::task::noop_waker_ref;

    use super::*;

    /// A task that ends in the middle of a batch says nothing more: what it said would be taken for values.
    #[test]
    fn a_frame_is_never_in_another_one() {
        for pieces in 0..=3 {
            let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            let state = Arc::new(TaskState { memory, ended: watch::Sender::new(None) });
            let (to, from) = mpsc::channel(1);
            let waiting = Arc::new(Mutex::new(Some(Waiting { from, batch: None })));
            let (held, body) = (state.held(3 * PIECE).unwrap(), Buffer::from(vec![7_u8; 2 * PIECE + 1]));
            to.try_send(Part::Rows { head: vec![1], body, held }).unwrap();
            let (is_in_frame, is_done) = (false, false);
            let mut queue = Queue { state: Arc::clone(&state), waiting: Arc::clone(&waiting), is_in_frame, is_done };
            let mut cx = Context::from_waker(noop_waker_ref());
            for _ in 0..pieces {
                assert!(matches!(queue.poll_piece(&mut cx), Poll::Ready(Some(_))));
            }
            state.ended.send_replace(Some(Ended::Late));
            clear(&waiting);
            let Poll::Ready(last) = queue.poll_piece(&mut cx) else { panic!("it waits") };
            // The head and two of three pieces: the frame is not whole.
            assert_eq!(last.is_some(), pieces == 0, "{pieces}");
            assert!(matches!(queue.poll_piece(&mut cx), Poll::Ready(None)));
            assert_eq!(state.memory.reserved(), 0);
        }
    }
}
