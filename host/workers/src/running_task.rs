//! A task that runs on a worker, from its start until nobody reads it any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::execution::memory_pool::MemoryPool;
use datafusion_distributed::TaskKey;
use futures::StreamExt;
use tidegate_cluster::stages::{StageTask, columns_to_bytes};
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

/// What a task runs.
#[derive(Debug)]
pub(crate) enum Work {
    /// Operators, whose partitions were started.
    Part(Vec<Option<OperatorRows>>, Stop),
    /// A task of a stage, and which of its partitions were asked for.
    Stage(Arc<StageTask>, Vec<bool>),
}

/// A task, its operators and what it may hold.
#[derive(Debug)]
pub(crate) struct RunningTask {
    pub(crate) id: Uuid,
    pub(crate) partitions: usize,
    /// Which task of a stage it is, if it is one.
    pub(crate) key: Option<TaskKey>,
    /// What was not asked for yet; `None` when it has ended.
    work: Mutex<Option<Work>>,
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
    pub(crate) fn of_part(
        (run, stop): (OperatorRun, Stop),
        reads_objects: bool,
        sent: Arc<SentCounts>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let OperatorRun { partitions, cost, memory } = run;
        let count = partitions.len();
        let work = Work::Part(partitions.into_iter().map(Some).collect(), stop);
        Self::of(work, count, (cost, memory), reads_objects, sent, place)
    }

    pub(crate) fn of_stage(
        task: StageTask,
        reads_objects: bool,
        sent: Arc<SentCounts>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let (key, count, run) = (task.key(), task.partitions(), (task.cost(), task.memory()));
        let work = Work::Stage(Arc::new(task), vec![false; count]);
        Self { key: Some(key), ..Self::of(work, count, run, reads_objects, sent, place) }
    }

    fn of(
        work: Work,
        partitions: usize,
        (cost, memory): (OperatorCost, Arc<dyn MemoryPool>),
        reads_objects: bool,
        sent: Arc<SentCounts>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            id: Uuid::new_v4(),
            partitions,
            key: None,
            work: Mutex::new(Some(work)),
            queues: Mutex::default(),
            cost,
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
        CostMessage::of(&self.cost.so_far())
    }

    /// Ends it: what computes is asked to stop, what waits is dropped with all that it holds. Only the first reason counts.
    pub(crate) fn end(&self, why: Ended) {
        let work = self.work().take();
        match &work {
            Some(Work::Part(_, stop)) => stop.ask(),
            Some(Work::Stage(task, _)) => task.end(),
            None => {}
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
        let task = match &mut *self.work() {
            Some(Work::Part(rows, _)) => {
                return rows.get_mut(partition).and_then(Option::take).ok_or_else(not_there);
            }
            Some(Work::Stage(task, asked)) => match asked.get_mut(partition) {
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
    async fn send_rows(&self, partition: usize, to: &mpsc::Sender<Part>) -> Result<bool, WorkerFailure> {
        let mut rows = self.take(partition).await?;
        if self.key.is_some() {
            // Whoever reads it has no plan of it.
            let columns =
                columns_to_bytes(&rows.schema()).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
            if to.send(Part::Small(frames::columns(columns))).await.is_err() {
                return Ok(false);
            }
        }
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

fn not_there() -> WorkerFailure {
    WorkerFailure::Nonsense("the task has no such partition, or not any more".to_owned())
}
