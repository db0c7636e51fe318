//! A worker: an engine that runs tasks, within bounds of its own, on threads of its own.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_distributed::TaskKey;
use tidegate_cluster::stages::{SentTask, StageTask, TaskSlots};
use tidegate_cluster::{StatementMemories, WorkerFailure};
use tidegate_functions::wording::out_of_memory;
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, EngineOptions};
use tidegate_store::{ObjectStats, SegmentError, SegmentFiles};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::messages::{PROTOCOL, TaskMessage, Unreadable, WorkerStatus};
use crate::peer_links::PeerLinks;
use crate::running_task::{RunningTask, SentCounts};
use crate::stage_channels::StageChannels;
use crate::task_state::{Ended, of_run};
use crate::transport::Connect;

/// The stack of a thread that computes, in bytes: plans are walked by recursion. Only what is used is allocated.
const STACK: usize = 64 << 20;

/// How often the log tells of a refused connection at most.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The bounds of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its engine: memory of one task and of all together, partitions.
    pub engine: EngineOptions,
    /// Tasks at once.
    pub tasks: usize,
    /// Threads that compute.
    pub threads: usize,
    /// The name of this build, which differs where the sources of two do: only servers of the same one are served.
    pub build: Arc<str>,
    /// How it connects to other workers, whose rows its tasks read.
    pub connect: Connect,
}

/// What a worker has done since its start.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounts {
    pub(crate) started: AtomicU64,
    /// Because of its own bounds, or because it ends.
    pub(crate) busy: AtomicU64,
    /// What cannot be understood, or is of another version.
    pub(crate) refused: AtomicU64,
    /// Statements that failed before their first row.
    pub(crate) failed: AtomicU64,
    /// Connections whose other end may not connect.
    pub(crate) handshakes: AtomicU64,
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    memories: StatementMemories,
    /// Those in `tasks` by their keys.
    stages: TaskSlots<RunningTask>,
    peers: Arc<PeerLinks>,
    /// What bodies of tasks hold while they are read.
    bodies: Arc<dyn MemoryPool>,
    memory_limit: usize,
    segments: SegmentFiles,
    /// Always set, except while `self` is dropped.
    compute: Option<Runtime>,
    places: Arc<Semaphore>,
    max_tasks: usize,
    build: Arc<str>,
    tasks: Mutex<HashMap<Uuid, Arc<RunningTask>>>,
    draining: AtomicBool,
    pub(crate) counts: WorkerCounts,
    /// When the log last told of a refused connection.
    warned: Mutex<Option<Instant>>,
    pub(crate) sent: Arc<SentCounts>,
}

impl Worker {
    /// A worker over segments.
    ///
    /// # Errors
    /// If its engine or its threads cannot be started.
    pub fn start(options: &WorkerOptions, segments: SegmentFiles) -> Result<Arc<Self>, Failure> {
        let engine = Engine::new(&options.engine)?;
        let compute = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_stack_size(STACK)
            .thread_name("tidegate-compute")
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Code::Internal, format!("the threads cannot be started: {error}")))?;
        Ok(Arc::new(Self {
            bodies: engine.memory(),
            memories: StatementMemories::new(engine.clone()),
            engine,
            stages: TaskSlots::default(),
            peers: Arc::new(PeerLinks::new(options.connect.clone())),
            memory_limit: options.engine.total_memory,
            segments,
            compute: Some(compute),
            places: Arc::new(Semaphore::new(options.tasks)),
            max_tasks: options.tasks,
            build: Arc::clone(&options.build),
            tasks: Mutex::default(),
            draining: AtomicBool::new(false),
            counts: WorkerCounts::default(),
            warned: Mutex::default(),
            sent: Arc::default(),
        }))
    }

    /// Bytes that its tasks hold now.
    pub fn memory_held(&self) -> usize {
        self.engine.memory_held()
    }

    /// Tasks that run now: each counts until the last of what it held is gone.
    pub fn tasks(&self) -> usize {
        self.max_tasks.saturating_sub(self.places.available_permits())
    }

    /// How it connects to other workers.
    pub(crate) fn connect(&self) -> &Connect {
        self.peers.connect()
    }

    /// Counts a connection whose other end may not connect. The log tells of one in ten seconds: whoever can reach the port can
    /// have them written.
    pub(crate) fn handshake_refused(&self, peer: SocketAddr, why: &(dyn Error + Send + Sync)) {
        let refused = self.counts.handshakes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|last| last.elapsed() >= WARN_INTERVAL) {
            *warned = Some(Instant::now());
            tracing::warn!(%peer, %why, refused, "a connection is refused");
        }
    }

    /// What reading from an object store took.
    pub(crate) fn object_stats(&self) -> ObjectStats {
        self.segments.stats()
    }

    pub(crate) fn status(&self) -> WorkerStatus {
        WorkerStatus {
            protocol: PROTOCOL,
            build: self.build.as_ref().to_owned(),
            draining: self.is_draining(),
            tasks: self.tasks(),
            max_tasks: self.max_tasks,
            memory_held: self.memory_held(),
            memory_limit: self.memory_limit,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Takes no new tasks from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Ends all tasks.
    pub(crate) fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.values().for_each(|task| self.end_task(task, Ended::Closing));
    }

    /// A reservation for the body of a task.
    pub(crate) fn body_room(&self) -> MemoryReservation {
        MemoryConsumer::new("task").register(&self.bodies)
    }

    /// Starts a task. `room` is that of its body.
    pub(crate) async fn start_task(
        self: &Arc<Self>,
        body: Bytes,
        room: MemoryReservation,
    ) -> Result<(Arc<RunningTask>, Option<Duration>), WorkerFailure> {
        let started = self.try_start(body, room).await;
        let count = match &started {
            Ok(_) => &self.counts.started,
            Err(WorkerFailure::Busy(_)) => &self.counts.busy,
            Err(WorkerFailure::Gone(_) | WorkerFailure::Nonsense(_)) => &self.counts.refused,
            Err(WorkerFailure::Statement(_) | WorkerFailure::Damaged(_)) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        started
    }

    async fn try_start(
        self: &Arc<Self>,
        body: Bytes,
        room: MemoryReservation,
    ) -> Result<(Arc<RunningTask>, Option<Duration>), WorkerFailure> {
        let nonsense = |unreadable: Unreadable| WorkerFailure::Nonsense(unreadable.to_string());
        let (message, plan) = TaskMessage::read(&body).map_err(nonsense)?;
        if !message.is_of_build(&self.build) {
            let (protocol, build, own) = (message.protocol, &message.build, &self.build);
            let why = format!("the task is of build {build} (protocol {protocol}), the worker of {own} ({PROTOCOL})");
            return Err(WorkerFailure::Nonsense(why));
        }
        let bounds = message.bounds().map_err(nonsense)?;
        let names = message.segments.iter().map(|segment| segment.name()).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(nonsense)?;
        let (key, peers) = (message.key(bounds.statement), message.peers().map_err(nonsense)?);
        if self.is_draining() {
            return Err(Ended::Closing.failure());
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(WorkerFailure::Busy(format!("it runs {} tasks already", self.max_tasks)));
        };
        let worker = Arc::clone(self);
        let started = self.compute(async move {
            let reads_objects = worker.segments.reads_objects();
            let memory = worker.memories.of(&bounds);
            let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
            let held =
                worker.segments.hold_within(names, &pool).await.map_err(|error| not_held(error, reads_objects))?;
            let of_run = |failure| match failure {
                WorkerFailure::Statement(failure) => of_run(failure, reads_objects),
                other => other,
            };
            let task = SentTask {
                key,
                of: message.tasks as usize,
                plan: &plan,
                rows: &message.rows,
                held: &held,
                bounds,
                workers: peers.len(),
                channels: StageChannels::of_worker(peers, &worker.peers),
            };
            let task = StageTask::start(&worker.engine, memory, task).await.map_err(of_run)?;
            let task = RunningTask::new(task, reads_objects, Arc::clone(&worker.sent), place);
            drop((body, plan, room));
            if u32::try_from(task.partitions) != Ok(message.partitions) {
                return Err(WorkerFailure::Nonsense("the plan has another number of partitions".to_owned()));
            }
            Ok(Arc::new(task))
        })?;
        let mut started = AbortOnDropHandle::new(started);
        let task = (&mut started).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the start of a task broke off");
            Err(WorkerFailure::Nonsense("the start of the task broke off".to_owned()))
        })?;
        self.stages.put(task.key, Ok(Arc::clone(&task)))?;
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(task.id, Arc::clone(&task));
        Ok((task, bounds.time))
    }

    /// Does work on the threads that compute.
    pub(crate) fn compute<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, WorkerFailure> {
        match &self.compute {
            Some(compute) => Ok(compute.spawn(work)),
            None => Err(Ended::Closing.failure()),
        }
    }

    /// The task with this id, if it runs.
    pub(crate) fn task(&self, id: Uuid) -> Result<Arc<RunningTask>, WorkerFailure> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tasks.get(&id).map(Arc::clone);
        task.ok_or_else(|| WorkerFailure::Nonsense("the worker runs no such task".to_owned()))
    }

    /// The task with this key, as soon as it runs: workers read each other's before all of them were sent.
    pub(crate) async fn stage_task(&self, key: TaskKey) -> Result<Arc<RunningTask>, WorkerFailure> {
        self.stages.get(key).await
    }

    /// Forgets a task and ends it.
    pub(crate) fn end_task(&self, task: &RunningTask, why: Ended) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&task.id);
        self.stages.remove(task.key);
        task.end(why);
    }
}

/// Why the segments of a task are not held.
fn not_held(error: SegmentError, reads_objects: bool) -> WorkerFailure {
    let failure = match &error {
        SegmentError::NoMemory { reason, .. } => out_of_memory(reason),
        _ => error.failure(),
    };
    of_run(failure, reads_objects)
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Code that is asynchronous cannot wait for threads.
        if let Some(compute) = self.compute.take() {
            compute.shutdown_background();
        }
    }
}
