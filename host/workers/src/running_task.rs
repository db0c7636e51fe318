//! A task that runs on a worker, from its start until nobody reads it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use tidegate_cluster::{BatchBytes, WorkerFailure};
use tidegate_functions::context::Stop;
use tidegate_model::number;
use tidegate_sql::{OperatorCost, OperatorRows, OperatorRun};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use uuid::Uuid;

use crate::frames;
use crate::messages::CostMessage;
use crate::partition_queue::{Part, Queue, WeakQueue};
use crate::task_state::{Ended, TaskState, of_run};

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
    queues: Mutex<Vec<WeakQueue>>,
    cost: OperatorCost,
    /// Whether its segments are objects.
    reads_objects: bool,
    sent: Arc<SentCounts>,
    state: Arc<TaskState>,
    /// Its place among the tasks of the worker, until the last of its rows is gone.
    _place: OwnedSemaphorePermit,
}

impl RunningTask {
    pub(crate) fn new(
        (run, stop): (OperatorRun, Stop),
        reads_objects: bool,
        sent: Arc<SentCounts>,
        place: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let OperatorRun { partitions, cost, memory } = run;
        Arc::new(Self {
            id: Uuid::new_v4(),
            partitions: partitions.len(),
            stop,
            rows: Mutex::new(partitions.into_iter().map(Some).collect()),
            queues: Mutex::default(),
            cost,
            reads_objects,
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
        queues.iter().for_each(WeakQueue::clear);
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
        let queue = Queue::new(Arc::clone(&self.state), from);
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push(queue.weak());
        if self.state.why().is_some() {
            queue.weak().clear();
        }
        queue
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
            let batch = batch.map_err(|failure| of_run(failure, self.reads_objects))?;
            for piece in BatchBytes::pieces(&batch) {
                let piece = BatchBytes::of(&piece).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
                let held = self.state.held(piece.len()).map_err(|failure| of_run(failure, self.reads_objects))?;
                self.sent.rows.fetch_add(number(piece.rows), Ordering::Relaxed);
                self.sent.bytes.fetch_add(number(piece.len()), Ordering::Relaxed);
                if to.send(Part::Rows { head: frames::rows_head(&piece), body: piece.body, held }).await.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
