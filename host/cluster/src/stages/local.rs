//! Workers in this process, which take plans as bytes and hand rows on as bytes, as those of a network do. Each has threads
//! of its own, whose names tell which worker's they are.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, SetPlanRequest, TaskKey, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, EngineOptions, OperatorCost};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use url::Url;

use super::leaf_rows::rows_of_leaves;
use super::slots::TaskSlots;
use super::task::{SentTask, StageTask};
use super::workers::{RunningTask, StageList, StageWorkers, WorkerFaults};
use crate::batch_bytes::BatchBytes;
use crate::encoder::encode_stage;
use crate::error::PlanError;
use crate::held_segments::held_segments;
use crate::local_leaves::LocalLeaves;
use crate::statement_memories::StatementMemories;
use crate::task_bounds::TaskBounds;
use crate::task_figures::TaskFigures;
use crate::worker_failure::WorkerFailure;
use crate::worker_url::place_of;

/// Batches of a partition that are made and not read.
const IN_FLIGHT: usize = 2;

/// Workers in this process.
#[derive(Debug)]
pub struct LocalStageWorkers {
    workers: Vec<LocalWorker>,
}

#[derive(Debug)]
struct LocalWorker {
    name: Arc<str>,
    process: Arc<Process>,
    /// `None` when it goes.
    threads: Option<Runtime>,
}

/// What a worker has.
#[derive(Debug)]
struct Process {
    engine: Engine,
    memories: StatementMemories,
    tasks: TaskSlots<LocalTask>,
}

/// A task, and what it has done.
#[derive(Debug)]
struct LocalTask {
    task: StageTask,
    figures: Arc<TaskFigures>,
}

impl Drop for LocalWorker {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl LocalWorker {
    /// Runs on the threads of the worker, as long as it is waited for.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let Some(task) = self.spawn(work) else { return internal_err!("the worker is gone") };
        task.join().await.map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<SpawnedTask<T>> {
        let _here = self.threads.as_ref()?.enter();
        Some(SpawnedTask::spawn(work))
    }
}

impl LocalStageWorkers {
    /// So many workers, each with an engine of its own.
    ///
    /// # Errors
    /// If an engine cannot be made.
    pub fn new(count: usize, options: &EngineOptions) -> std::result::Result<Self, Failure> {
        let worker = |number| {
            let name = format!("worker-{number}");
            let threads = Builder::new_multi_thread().worker_threads(1).thread_name(&name).enable_all().build();
            let threads = threads.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
            let engine = Engine::new(options)?;
            let memories = StatementMemories::new(engine.clone());
            let process = Process { memories, engine, tasks: TaskSlots::default() };
            let process = Arc::new(process);
            Ok(LocalWorker { name: name.into(), process, threads: Some(threads) })
        };
        Ok(Self { workers: (0..count).map(worker).collect::<std::result::Result<_, Failure>>()? })
    }

    /// Bytes that their tasks hold.
    pub fn memory_held(&self) -> usize {
        self.workers.iter().map(|worker| worker.process.engine.memory_held()).sum()
    }

    /// How many tasks they have.
    pub fn tasks(&self) -> usize {
        self.workers.iter().map(|worker| worker.process.tasks.len()).sum()
    }
}

impl StageWorkers for Arc<LocalStageWorkers> {
    fn list(&self, left_out: &[Arc<str>]) -> StageList {
        let workers = self.workers.iter().enumerate().filter(|(_, worker)| !left_out.contains(&worker.name));
        let (places, names): (Vec<_>, _) = workers.map(|(place, worker)| (place, Arc::clone(&worker.name))).unzip();
        let (faults, started) = (WorkerFaults::default(), Arc::<Mutex<Vec<Started>>>::default());
        let workers = Arc::clone(self);
        let channels =
            Channels { workers, places: places.into(), faults: faults.clone(), started: Arc::clone(&started) };
        let tasks = move || {
            let started = started.lock().unwrap_or_else(PoisonError::into_inner);
            let task = |(key, figures, cost): &Started| RunningTask {
                stage: key.stage_id,
                task: key.task_number,
                taken: figures.taken(),
                rows_sent: figures.rows(),
                cost: cost.so_far(),
            };
            started.iter().map(task).collect()
        };
        StageList { names, channels: Arc::new(channels), tasks: Arc::new(tasks), faults }
    }
}

#[derive(Clone)]
struct Channels {
    workers: Arc<LocalStageWorkers>,
    /// Which workers the statement has.
    places: Arc<[usize]>,
    faults: WorkerFaults,
    started: Arc<Mutex<Vec<Started>>>,
}

/// A task that was started.
type Started = (TaskKey, Arc<TaskFigures>, OperatorCost);

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        match place_of(url).and_then(|place| self.places.get(place)) {
            Some(place) => Ok(Box::new(Channel { place: *place, channels: self.clone() })),
            None => internal_err!("the statement has no worker {url}"),
        }
    }
}

struct Channel {
    place: usize,
    channels: Channels,
}

impl Channel {
    fn worker(&self) -> Result<&LocalWorker> {
        self.channels.workers.workers.get(self.place).map_or_else(|| internal_err!("the worker is not there"), Ok)
    }

    /// Starts a task, which lasts until `ends` ends.
    async fn start(
        &self,
        request: SetPlanRequest,
        ends: BoxStream<'static, CoordinatorToWorkerMsg>,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let SetPlanRequest { task_key, task_count, plan: MaybeEncoded::Decoded(plan), .. } = request else {
            return internal_err!("the plan of a task is encoded twice");
        };
        let mut leaves = LocalLeaves::default();
        let encoded = encode_stage(&plan, context.session_config().options(), &mut leaves);
        let encoded = encoded.map_err(PlanError::into_engine)?;
        let rows = rows_of_leaves(&leaves, context).await?;
        let bounds = TaskBounds::of_statement(task_key.query_id, context)?;
        let held = held_segments(&plan);
        let (workers, channels) = (self.channels.places.len(), Arc::new(self.channels.clone()));
        let all = Arc::clone(&self.channels.started);
        let process = Arc::clone(&self.worker()?.process);
        let set = async move {
            let (plan, rows, held) = (&encoded.bytes, &rows, &held);
            let sent = SentTask { key: task_key, of: task_count, plan, rows, held, bounds, workers, channels };
            let memory = process.memories.of(&bounds);
            let started = StageTask::start(&process.engine, memory, sent)
                .await
                .map(|task| Arc::new(LocalTask { figures: Arc::new(TaskFigures::new(task.partitions())), task }));
            process.tasks.put(task_key, started.clone())?;
            let sent = SentTo { process, key: task_key };
            let LocalTask { task, figures } = &*started?;
            let started = (task_key, Arc::clone(figures), task.cost());
            all.lock().unwrap_or_else(PoisonError::into_inner).push(started);
            Ok(sent)
        };
        let sent = self.worker()?.run(set).await?.map_err(WorkerFailure::into_error)?;
        self.channels.faults.started();
        // The task ends with the messages to it.
        let ended = async move {
            ends.for_each(|_| async {}).await;
            drop(sent);
        };
        Ok(futures::stream::once(ended).filter_map(|()| async { None }).boxed())
    }
}

#[async_trait]
impl WorkerChannel for Channel {
    async fn coordinator_channel(
        &mut self,
        _: HeaderMap,
        request: SetPlanRequest,
        ends: BoxStream<'static, CoordinatorToWorkerMsg>,
        _: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let started = self.start(request, ends, context).await;
        started.or_else(|error| {
            self.channels.faults.unstarted_because(&error);
            Ok(futures::stream::empty().boxed())
        })
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        _: ExecutionPlanMetricsSet,
        _: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let worker = self.worker()?;
        let read = |partition| {
            let (to, from) = mpsc::channel(IN_FLIGHT);
            let process = Arc::clone(&worker.process);
            let sender = worker.spawn(async move {
                let last = match send(&process, request.task_key, partition, &to).await {
                    Ok(()) => Sent::End,
                    Err(failure) => Sent::Failed(failure),
                };
                let _ = to.send(last).await;
            });
            futures::stream::unfold((from, sender), received).boxed()
        };
        Ok((request.target_partition_start..request.target_partition_end).map(read).collect())
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: String::new() })
    }
}

/// A task that ends when this is dropped.
struct SentTo {
    process: Arc<Process>,
    key: TaskKey,
}

impl Drop for SentTo {
    fn drop(&mut self) {
        self.process.tasks.remove(self.key);
    }
}

/// What is on its way of a partition.
enum Sent {
    Rows(BatchBytes, SchemaRef),
    Failed(WorkerFailure),
    /// There are no more rows. Without it, the sender has failed.
    End,
}

/// Sends the rows of a partition, as long as they are taken.
async fn send(
    process: &Process,
    key: TaskKey,
    partition: usize,
    to: &mpsc::Sender<Sent>,
) -> std::result::Result<(), WorkerFailure> {
    let task = process.tasks.get(key).await?;
    let (mut rows, figures) = (task.task.rows(partition).await?, Arc::clone(&task.figures));
    // What waits for its reader does not keep the task.
    drop(task);
    while let Some(batch) = rows.next().await {
        for piece in BatchBytes::pieces(&batch.map_err(WorkerFailure::of_run)?) {
            let bytes = BatchBytes::of(&piece).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
            figures.sent(piece.num_rows());
            if to.send(Sent::Rows(bytes, piece.schema())).await.is_err() {
                return Ok(());
            }
        }
    }
    figures.partition_ended();
    Ok(())
}

type Received = (mpsc::Receiver<Sent>, Option<SpawnedTask<()>>);

/// The next batch of a partition. Nothing comes after a failure.
async fn received((mut from, sender): Received) -> Option<(Result<RecordBatch>, Received)> {
    let batch = match from.recv().await {
        Some(Sent::Rows(bytes, schema)) => {
            bytes.batch(&schema).map_err(|error| WorkerFailure::Nonsense(error.to_string()))
        }
        Some(Sent::Failed(failure)) => Err(failure),
        Some(Sent::End) => return None,
        None if sender.is_none() => return None,
        None => Err(WorkerFailure::Gone("it ended without saying so".to_owned())),
    };
    let sender = sender.filter(|_| batch.is_ok());
    Some((batch.map_err(WorkerFailure::into_error), (from, sender)))
}
