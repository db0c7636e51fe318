//! A task that runs on a worker, from its start until nobody reads it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    cost: OperatorCost,
    memory: Arc<dyn MemoryPool>,
    sent: Arc<SentCounts>,
    ended: watch::Sender<Option<Ended>>,
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
            cost,
            memory,
            sent,
            ended: watch::Sender::new(None),
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
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(why);
            is_first
        });
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until it ends before its rows do.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        // The sender is in `self`.
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| *why);
        why.unwrap_or(Ended::Left)
    }

    /// Takes the rows of a partition; `None` if it has no such partition, or they were taken.
    pub(crate) fn take(&self, partition: usize) -> Option<OperatorRows> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get_mut(partition).and_then(Option::take)
    }

    /// Sends the rows of a partition as frames until they end, fail, or nobody reads them.
    pub(crate) async fn send(self: Arc<Self>, rows: OperatorRows, to: mpsc::Sender<Vec<Bytes>>) {
        let last = tokio::select! {
            biased;
            why = self.ended() => match why {
                Ended::Left => return,
                Ended::Late | Ended::Closing => frames::failed(&why.failure()),
            },
            sent = self.send_rows(rows, &to) => match sent {
                Ok(true) => frames::end(&self.cost()),
                Ok(false) => return,
                Err(failure) => frames::failed(&failure),
            },
        };
        // An error says that nobody reads.
        let _ = to.send(vec![last]).await;
    }

    /// Sends rows; whether all of them were taken. What the operators hold is gone when it returns.
    async fn send_rows(&self, mut rows: OperatorRows, to: &mpsc::Sender<Vec<Bytes>>) -> Result<bool, WorkerFailure> {
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(of_run)?;
            let batch = BatchBytes::of(&batch).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
            let held = MemoryConsumer::new("sent rows").register(&self.memory);
            held.try_grow(batch.len()).map_err(|error| of_run(out_of_memory(&error.to_string())))?;
            self.sent.rows.fetch_add(number(batch.rows), Ordering::Relaxed);
            self.sent.bytes.fetch_add(number(batch.len()), Ordering::Relaxed);
            let head = frames::rows_head(&batch);
            let held = Arc::new(held);
            let head = Bytes::from_owner(Held { bytes: head, _held: Arc::clone(&held) });
            let body = Bytes::from_owner(Held { bytes: batch.body, _held: held });
            if to.send(vec![head, body]).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Bytes that count in the memory of their task until the last part of them is sent or dropped.
struct Held<B> {
    bytes: B,
    _held: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for Held<Vec<u8>> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Held<Buffer> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
