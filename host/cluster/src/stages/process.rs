//! A worker that runs tasks of stages.
//!
//! Each task has a `Worker` of its own, so that a task ends with what holds it, and one that nobody sent is not there.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_distributed::{
    BroadcastExec, ChannelResolver, CoordinatorToWorkerMsg, DistributedExt, ExecuteTaskRequest, MaybeEncoded,
    SetPlanRequest, TaskKey, Worker, WorkerQueryContext, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use tidegate_functions::context::{ExecutionContext, Stop, failed};
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, PreparedOperators, RunBounds};
use tidegate_store::HeldSegments;
use tokio::sync::watch;

use super::planner;
use crate::decoder::decode;
use crate::local_leaves::LocalLeaves;
use crate::task::TaskBounds;
use crate::task_runner::TaskRunner;
use crate::worker_failure::WorkerFailure;
use crate::worker_url::url_of;

/// A worker.
pub struct StageProcess {
    engine: Engine,
    runner: TaskRunner,
    tasks: Mutex<HashMap<TaskKey, watch::Sender<Option<Set>>>>,
}

/// What was made of the plan of a task.
type Set = std::result::Result<Arc<Running>, WorkerFailure>;

/// A task that can be read.
struct Running {
    worker: Worker,
    operators: PreparedOperators,
    stop: Stop,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.ask();
    }
}

impl fmt::Debug for StageProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageProcess").finish_non_exhaustive()
    }
}

/// A task as it comes to a worker.
pub struct SentTask<'t> {
    /// Which one it is.
    pub key: TaskKey,
    /// Of how many tasks its stage has.
    pub of: usize,
    /// Its plan.
    pub plan: &'t [u8],
    /// The segments that it reads.
    pub held: &'t HeldSegments,
    /// Rows of the sender.
    pub leaves: &'t LocalLeaves,
    /// What it may use.
    pub bounds: TaskBounds,
    /// How many workers the statement has.
    pub workers: usize,
    /// The way to them.
    pub channels: Arc<dyn ChannelResolver + Send + Sync>,
}

impl fmt::Debug for SentTask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentTask").field("key", &self.key).finish_non_exhaustive()
    }
}

impl StageProcess {
    /// A worker with this engine.
    pub fn new(engine: Engine) -> Self {
        Self { runner: TaskRunner::new(engine.clone()), engine, tasks: Mutex::default() }
    }

    /// Bytes that its tasks hold.
    pub fn memory_held(&self) -> usize {
        self.engine.memory_held()
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn slot(&self, key: TaskKey) -> watch::Sender<Option<Set>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.entry(key).or_insert_with(|| watch::Sender::new(None)).clone()
    }

    /// Makes a task ready, which others read then, until `ends` ends.
    ///
    /// # Errors
    /// If the task is refused.
    pub async fn set(
        self: &Arc<Self>,
        task: SentTask<'_>,
        ends: BoxStream<'static, CoordinatorToWorkerMsg>,
    ) -> std::result::Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>, WorkerFailure> {
        let (key, slot) = (task.key, self.slot(task.key));
        let made = self.made(&task);
        let set = match made {
            Ok(running) => running,
            Err(failure) => {
                slot.send_replace(Some(Err(failure.clone())));
                return Err(failure);
            }
        };
        let request = SetPlanRequest {
            task_key: key,
            task_count: task.of,
            plan: MaybeEncoded::Decoded(Arc::clone(&set.operators.plan)),
            work_unit_feed_declarations: Vec::new(),
            // It is nobody's, so that every task is asked for where it is.
            target_worker_url: url_of(usize::MAX).map_err(|error| WorkerFailure::Nonsense(error.to_string()))?,
            query_start_time_ns: 0,
        };
        let process = Arc::clone(self);
        let ends = ends.map(Ok).chain(futures::stream::once(async move {
            process.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            Ok(CoordinatorToWorkerMsg::WorkUnitEos)
        }));
        let told = set.worker.coordinator_channel(HeaderMap::new(), request, ends.boxed()).await;
        let told = told.map_err(|error| WorkerFailure::Nonsense(error.to_string()))?;
        slot.send_replace(Some(Ok(set)));
        Ok(told)
    }

    fn made(&self, task: &SentTask<'_>) -> Set {
        let stop = Stop::after(task.bounds.time.unwrap_or(std::time::Duration::MAX));
        let memory = self.runner.memory_of(&task.bounds);
        let bounds = RunBounds { memory, batch_rows: task.bounds.batch_rows };
        let mut refused = None;
        let decoded = |context: &_| {
            let plan = decode(task.plan, task.held, context, task.leaves).map_err(|error| {
                refused = Some(error.to_string());
                Failure::new(Code::Internal, error.to_string())
            })?;
            Ok(without_head(plan))
        };
        let prepared =
            ExecutionContext::of_request(stop.clone()).enter(|| self.engine.prepare_operators(decoded, bounds));
        let operators = match refused {
            Some(why) => return Err(WorkerFailure::Nonsense(why)),
            None => prepared.map_err(WorkerFailure::of_run)?,
        };
        let config = operators.task.session_config().clone();
        let config = planner::settings(config, task.workers)
            .map_err(|error| WorkerFailure::Nonsense(error.to_string()))?
            .with_distributed_channel_resolver(Arc::clone(&task.channels));
        let runtime = operators.task.runtime_env();
        let session = move |mut context: WorkerQueryContext| {
            let (mut config, runtime) = (config.clone(), Arc::clone(&runtime));
            let theirs = context.builder.config().take();
            async move {
                if let Some(place) =
                    theirs.and_then(|of| of.get_extension::<datafusion_distributed::DistributedTaskContext>())
                {
                    config = config.with_extension(place);
                }
                Ok::<_, DataFusionError>(
                    SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).build(),
                )
            }
        };
        Ok(Arc::new(Running { worker: Worker::from_session_builder(session), operators, stop }))
    }

    /// The rows of partitions of a task, as soon as it is there.
    ///
    /// # Errors
    /// If the task is refused, or has no such partitions.
    pub async fn read(
        &self,
        request: ExecuteTaskRequest,
    ) -> std::result::Result<Vec<BoxStream<'static, std::result::Result<RecordBatch, WorkerFailure>>>, WorkerFailure>
    {
        let mut set = self.slot(request.task_key).subscribe();
        let set = set.wait_for(Option::is_some).await;
        let set = set.map_err(|_| WorkerFailure::Gone("the task is not there".to_owned()))?.clone();
        let running = set.unwrap_or_else(|| Err(WorkerFailure::Gone("the task is not there".to_owned())))?;
        let rows = running.worker.execute_task(request).await;
        let (rows, _) = rows.map_err(|error| of_engine(&error))?;
        let rows = rows.into_iter().map(|rows| {
            let running = Arc::clone(&running);
            running.operators.rows(rows).map(move |batch| {
                let _ = &running;
                batch.map_err(WorkerFailure::of_run)
            })
        });
        Ok(rows.map(StreamExt::boxed).collect())
    }
}

fn of_engine(error: &DataFusionError) -> WorkerFailure {
    WorkerFailure::Nonsense(error.to_string())
}

/// The operators below the head of a stage, which the reader of the stage names.
fn without_head(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let shuffles = plan.downcast_ref::<RepartitionExec>();
    if shuffles.is_some_and(|of| matches!(of.partitioning(), Partitioning::Hash(..))) || plan.is::<BroadcastExec>() {
        if let Some(input) = plan.children().first() {
            return Arc::clone(input);
        }
    }
    plan
}

/// The failure of a worker as one of the statement.
pub(super) fn of_worker(failure: WorkerFailure) -> DataFusionError {
    failed(failure.into_failure())
}
