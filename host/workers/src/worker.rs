//! A worker: an engine that runs tasks, within bounds of its own, on threads of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_cluster::{LocalLeaves, PlanError, decode};
use tidegate_functions::context::{ExecutionContext, Stop};
use tidegate_model::{Code, Failure, size};
use tidegate_sql::{Engine, EngineOptions, RunBounds};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::messages::{BUILD, PROTOCOL, RefusedMessage, TaskMessage, Unreadable, WorkerStatus};
use crate::running_task::{Ended, RunningTask, SentCounts};
use crate::segment_source::SegmentSource;

/// The stack of a thread that computes, in bytes: plans are walked by recursion. Only what is used is allocated.
const STACK: usize = 64 << 20;

/// The bounds of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its engine: memory of one task and of all together, partitions.
    pub engine: EngineOptions,
    /// Tasks at once.
    pub tasks: usize,
    /// Threads that compute.
    pub threads: usize,
}

/// Why a task is not started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// The worker does not do it, and the statement is not at fault.
    Refused(RefusedMessage),
    /// The statement has failed.
    Failed(Failure),
}

impl NotStarted {
    fn busy(why: impl Into<String>) -> Self {
        Self::Refused(RefusedMessage { is_busy: true, why: why.into() })
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused(RefusedMessage { is_busy: false, why: why.into() })
    }
}

impl From<Unreadable> for NotStarted {
    fn from(unreadable: Unreadable) -> Self {
        Self::refused(unreadable.to_string())
    }
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
}

/// A worker.
#[derive(Debug)]
pub struct Worker {
    engine: Arc<Engine>,
    /// What bodies of tasks hold while they are read.
    bodies: Arc<dyn MemoryPool>,
    memory_limit: usize,
    segments: Arc<dyn SegmentSource>,
    /// Always set, except while `self` is dropped.
    compute: Option<Runtime>,
    places: Arc<Semaphore>,
    max_tasks: usize,
    tasks: Mutex<HashMap<Uuid, Arc<RunningTask>>>,
    draining: AtomicBool,
    pub(crate) counts: WorkerCounts,
    pub(crate) sent: Arc<SentCounts>,
}

impl Worker {
    /// A worker over segments.
    ///
    /// # Errors
    /// If its engine or its threads cannot be started.
    pub fn start(options: &WorkerOptions, segments: Arc<dyn SegmentSource>) -> Result<Arc<Self>, Failure> {
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
            engine: Arc::new(engine),
            memory_limit: options.engine.total_memory,
            segments,
            compute: Some(compute),
            places: Arc::new(Semaphore::new(options.tasks)),
            max_tasks: options.tasks,
            tasks: Mutex::default(),
            draining: AtomicBool::new(false),
            counts: WorkerCounts::default(),
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

    pub(crate) fn status(&self) -> WorkerStatus {
        WorkerStatus {
            protocol: PROTOCOL,
            build: BUILD.to_owned(),
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
        tasks.values().for_each(|task| task.end(Ended::Closing));
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
    ) -> Result<Arc<RunningTask>, NotStarted> {
        let started = self.try_start(body, room).await;
        let count = match &started {
            Ok(_) => &self.counts.started,
            Err(NotStarted::Refused(refused)) if refused.is_busy => &self.counts.busy,
            Err(NotStarted::Refused(_)) => &self.counts.refused,
            Err(NotStarted::Failed(_)) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        started
    }

    async fn try_start(
        self: &Arc<Self>,
        body: Bytes,
        room: MemoryReservation,
    ) -> Result<Arc<RunningTask>, NotStarted> {
        let (message, plan) = TaskMessage::read(&body)?;
        if !message.is_of_this_build() {
            let (protocol, build) = (message.protocol, &message.build);
            let why = format!("the task is of build {build} (protocol {protocol}), the worker of {BUILD} ({PROTOCOL})");
            return Err(NotStarted::refused(why));
        }
        if self.is_draining() {
            return Err(NotStarted::busy("the worker is shutting down"));
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(NotStarted::busy(format!("the worker runs {} tasks already", self.max_tasks)));
        };
        let worker = Arc::clone(self);
        let started = self.compute(async move {
            let names = message.segments.iter().map(|segment| segment.name()).collect::<Result<Vec<_>, _>>()?;
            let stop = Stop::after(message.time_limit().unwrap_or(Duration::MAX));
            let held = worker.segments.hold(names).await.map_err(|failure| NotStarted::refused(failure.message))?;
            let refused = OnceLock::new();
            let bounds = RunBounds { memory: size(message.memory), batch_rows: size(message.batch_rows) };
            let run = ExecutionContext::of_request(stop.clone()).enter(|| {
                let plan = |context: &_| {
                    decode(&plan, &held, context, &LocalLeaves::default()).map_err(|error| {
                        let failure = Failure::new(Code::Internal, error.to_string());
                        let _ = refused.set(error);
                        failure
                    })
                };
                worker.engine.run_operators(plan, bounds)
            });
            drop(room);
            let run = run.map_err(|failure| match refused.into_inner() {
                Some(PlanError::Refused(why) | PlanError::Unsendable(why)) => NotStarted::refused(why),
                None => NotStarted::Failed(failure),
            })?;
            if u32::try_from(run.partitions.len()) != Ok(message.partitions) {
                return Err(NotStarted::refused("the plan has another number of partitions"));
            }
            Ok(RunningTask::new(run, stop, Arc::clone(&worker.sent), place))
        })?;
        let mut started = AbortOnDrop(started);
        let task = (&mut started.0).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the start of a task broke off");
            Err(NotStarted::refused("the task could not be started; the worker's log has the details"))
        })?;
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(task.id, Arc::clone(&task));
        // The worker may have ended while the task was started.
        if self.compute.is_none() {
            task.end(Ended::Closing);
        }
        Ok(task)
    }

    /// Does work on the threads that compute.
    pub(crate) fn compute<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, NotStarted> {
        match &self.compute {
            Some(compute) => Ok(compute.spawn(work)),
            None => Err(NotStarted::busy("the worker is shutting down")),
        }
    }

    /// The task with this id, if it runs.
    pub(crate) fn task(&self, id: Uuid) -> Option<Arc<RunningTask>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).get(&id).map(Arc::clone)
    }

    /// Forgets a task and ends it.
    pub(crate) fn end_task(&self, task: &RunningTask, why: Ended) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&task.id);
        task.end(why);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Code that is asynchronous cannot wait for threads.
        if let Some(compute) = self.compute.take() {
            compute.shutdown_background();
        }
    }
}

/// A task of the runtime that is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct AbortOnDrop<T>(pub(crate) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
