//! A task that runs on a worker, from its start until nobody reads it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_distributed::TaskKey;
use futures::StreamExt;
use tidegate_cluster::stages::{StageTask, columns_to_bytes};
use tidegate_cluster::{BatchBytes, TaskFigures, WorkerFailure};
use tidegate_model::number;
use tidegate_sql::{OperatorCost, OperatorRows};
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

/// What a task runs, and which of its partitions were asked for.
#[derive(Debug)]
struct Work {
    task: Arc<StageTask>,
    asked: Vec<bool>,
}

/// A task, its operators and what it may hold.
#[derive(Debug)]
pub(crate) struct RunningTask {
    pub(crate) id: Uuid,
    pub(crate) key: TaskKey,
    pub(crate) partitions: usize,
    /// `None` when it has ended.
    work: Mutex<Option<Work>>,
    /// What was sent of partitions and not taken.
    queues: Mutex<Vec<WeakQueue>>,
    cost: OperatorCost,
    figures: TaskFigures,
    /// Whether its segments are objects.
    reads_objects: bool,
    sent: Arc<SentCounts>,
    state: Arc<TaskState>,
    /// Its place among the tasks of the worker, until the last of its rows is gone.
    _place: OwnedSemaphorePermit,
}

impl RunningTask {
    pub(crate) fn new(
        task: StageTask,
        reads_objects: bool,
        sent: Arc<SentCounts>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let (key, partitions, cost, memory) = (task.key(), task.partitions(), task.cost(), task.memory());
        let work = Work { task: Arc::new(task), asked: vec![false; partitions] };
        Self {
            id: Uuid::new_v4(),
            key,
            partitions,
            work: Mutex::new(Some(work)),
            queues: Mutex::default(),
            cost,
            figures: TaskFigures::new(partitions),
            reads_objects,
            sent,
            state: Arc::new(TaskState { memory, ended: watch::Sender::new(None) }),
            _place: place,
        }
    }

    fn work(&self) -> MutexGuard<'_, Option<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has cost so far.
    pub(crate) fn cost(&self) -> CostMessage {
        CostMessage::of(&self.cost.so_far(), &self.figures)
    }

    /// Ends it: what computes is asked to stop, what waits is dropped with all that it holds. Only the first reason counts.
    pub(crate) fn end(&self, why: Ended) {
        let work = self.work().take();
        if let Some(Work { task, .. }) = &work {
            task.end();
        }
        self.state.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(why);
            is_first
        });
        drop(work);
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

    /// Takes the rows of a partition.
    async fn take(&self, partition: usize) -> Result<OperatorRows, WorkerFailure> {
        let not_there = || WorkerFailure::Nonsense("the task has no such partition, or not any more".to_owned());
        let task = match &mut *self.work() {
            Some(Work { task, asked }) => match asked.get_mut(partition) {
                Some(asked) if !*asked => {
                    *asked = true;
                    Arc::clone(task)
                }
                _ => return Err(not_there()),
            },
            None => return Err(not_there()),
        };
        task.rows(partition).await
    }

    /// Opens a partition: what is sent of it comes out of the queue, until the task ends.
    pub(crate) fn open(&self, from: mpsc::Receiver<Part>) -> Queue {
        let queue = Queue::new(Arc::clone(&self.state), from);
        {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            // As many as are read: whoever asks again and again adds none.
            queues.retain(WeakQueue::is_there);
            queues.push(queue.weak());
        }
        if self.state.why().is_some() {
            queue.weak().clear();
        }
        queue
    }

    /// Sends the rows of a partition until they end, fail, or nobody reads them.
    pub(crate) async fn send(self: Arc<Self>, partition: usize, to: mpsc::Sender<Part>) {
        let last = tokio::select! {
            biased;
            // Whoever reads the queue finds that it is closed.
            _ = self.ended() => return,
            sent = self.send_rows(partition, &to) => match sent {
                Ok(true) => {
                    self.figures.partition_ended();
                    frames::end(&self.cost())
                }
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
    async fn send_rows(&self, partition: usize, to: &mpsc::Sender<Part>) -> Result<bool, WorkerFailure> {
        let mut rows = self.take(partition).await?;
        let nonsense = |error: &dyn std::fmt::Display| WorkerFailure::Nonsense(error.to_string());
        // Whoever reads it may have no plan of it.
        let columns = columns_to_bytes(&rows.schema()).map_err(|error| nonsense(&error))?;
        if to.send(Part::Small(frames::columns(columns))).await.is_err() {
            return Ok(false);
        }
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|failure| of_run(failure, self.reads_objects))?;
            for piece in BatchBytes::pieces(&batch) {
                let piece = BatchBytes::of(&piece).map_err(|error| nonsense(&error))?;
                let held = self.state.held(piece.len()).map_err(|failure| of_run(failure, self.reads_objects))?;
                self.figures.sent(piece.rows);
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
