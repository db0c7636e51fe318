//! Workers in this process: for tests, and as the measure of what a network adds.
//!
//! They do what a worker on another machine does: each decodes the bytes of its task, over the segments that the task
//! names and no others, runs the operators within bounds of its own, and hands on their rows as bytes.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use futures::channel::mpsc::{self, Receiver, Sender};
use futures::{SinkExt, StreamExt};
use tidegate_functions::context::{StatementMemory, Stop};
use tidegate_functions::wording::out_of_memory;
use tidegate_model::Failure;
use tidegate_sql::{Engine, EngineOptions, OperatorRows, OperatorRun};

use crate::batch_bytes::BatchBytes;
use crate::task::{Task, TaskBounds, TaskRows, TaskRun, Workers};
use crate::task_runner::TaskRunner;
use crate::worker_failure::WorkerFailure;

/// Batches of a partition that were sent and not read: one in the channel, and one that its sender may always add.
const IN_FLIGHT: usize = 1;

/// Workers in this process, each with an engine of its own.
#[derive(Debug)]
pub struct LocalWorkers {
    runners: Vec<(Arc<str>, TaskRunner)>,
}

impl LocalWorkers {
    /// So many workers, each with an engine of these options.
    ///
    /// # Errors
    /// If an engine cannot be set up.
    pub fn new(count: usize, options: &EngineOptions) -> Result<Self, Failure> {
        let runner = |number| Ok((format!("worker-{number}").into(), TaskRunner::new(Engine::new(options)?)));
        Ok(Self { runners: (0..count).map(runner).collect::<Result<_, _>>()? })
    }

    /// Bytes that the tasks of all workers hold now.
    pub fn memory_held(&self) -> usize {
        self.runners.iter().map(|(_, runner)| runner.memory_held()).sum()
    }
}

impl Workers for LocalWorkers {
    fn names(&self) -> Vec<Arc<str>> {
        self.runners.iter().map(|(name, _)| Arc::clone(name)).collect()
    }

    fn run(&self, task: &Task, bounds: &TaskBounds, _: &Arc<StatementMemory>) -> Result<TaskRun, WorkerFailure> {
        let runner = self.runners.iter().find(|(name, _)| *name == task.worker);
        let Some((_, runner)) = runner else { return Err(WorkerFailure::Gone("there is no such worker".to_owned())) };
        let named = task.plan.segments.iter().map(|(_, name)| name);
        let held = task.held.only(named);
        let (run, stop) = runner.run(&task.plan.bytes, &held, bounds)?;
        let OperatorRun { partitions, cost, memory } = run;
        let stops = Arc::new(StopsWhenDropped(stop));
        let partitions = partitions.into_iter().map(|rows| received(rows, &memory, &stops, task)).collect();
        Ok(TaskRun::new(partitions, move || cost.so_far()))
    }
}

/// Asks a task to stop when nobody reads its rows any more: what computes for long asks for it.
struct StopsWhenDropped(Stop);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// What is sent of the rows of a partition.
enum Sent {
    /// A batch, which counts in the memory of the task until it is read.
    Rows(BatchBytes, MemoryReservation),
    /// There are no more rows. Without it, the sender has failed.
    End,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(bytes, _) => f.debug_tuple("Rows").field(&bytes.len()).finish(),
            Self::End => f.write_str("End"),
        }
    }
}

/// Sends the rows of a partition until they end, fail, or nobody reads them.
async fn sent(mut rows: OperatorRows, memory: Arc<dyn MemoryPool>, mut to: Sender<Result<Sent, WorkerFailure>>) {
    let ended = async {
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(WorkerFailure::of_run)?;
            for piece in BatchBytes::pieces(&batch) {
                let bytes = BatchBytes::of(&piece).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
                let held = MemoryConsumer::new("sent rows").register(&memory);
                held.try_grow(bytes.len()).map_err(|error| WorkerFailure::of_run(out_of_memory(&error.to_string())))?;
                if to.send(Ok(Sent::Rows(bytes, held))).await.is_err() {
                    return Ok(Sent::End);
                }
            }
        }
        Ok(Sent::End)
    };
    let ended = ended.await;
    // What the operators hold goes first.
    drop(rows);
    // An error says that nobody reads.
    let _ = to.send(ended).await;
}

/// The rows of a partition from its sender, which runs as long as this is not dropped.
fn received(rows: OperatorRows, memory: &Arc<dyn MemoryPool>, stops: &Arc<StopsWhenDropped>, task: &Task) -> TaskRows {
    let (to, from) = mpsc::channel(IN_FLIGHT);
    let sender = SpawnedTask::spawn(sent(rows, Arc::clone(memory), to));
    let reading = Reading { from, schema: Arc::clone(&task.schema), is_done: false };
    let batches = futures::stream::unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Some((next, reading))
    });
    let keeps = (sender, Arc::clone(stops));
    batches
        .map(move |batch| {
            let _ = &keeps;
            batch
        })
        .boxed()
}

struct Reading {
    from: Receiver<Result<Sent, WorkerFailure>>,
    schema: SchemaRef,
    is_done: bool,
}

impl Reading {
    /// The next batch; `None` when the sender said that there are no more, and after a failure.
    async fn next(&mut self) -> Option<Result<RecordBatch, WorkerFailure>> {
        if self.is_done {
            return None;
        }
        let read = match self.from.next().await {
            Some(Ok(Sent::Rows(bytes, _held))) => {
                bytes.batch(&self.schema).map_err(|error| WorkerFailure::Nonsense(error.to_string()))
            }
            Some(Ok(Sent::End)) => {
                self.is_done = true;
                return None;
            }
            Some(Err(failure)) => Err(failure),
            None => Err(WorkerFailure::Gone("it ended without saying so".to_owned())),
        };
        self.is_done = read.is_err();
        Some(read)
    }
}
