//! A task of a stage on the worker that runs it.
//!
//! Each task has a `Worker` of its own, so that a task is gone with what holds it, and one that nobody sent is not there.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    BroadcastExec, ChannelResolver, CoordinatorToWorkerMsg, DistributedExt, DistributedTaskContext, ExecuteTaskRequest,
    MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, Worker, WorkerQueryContext,
};
use futures::StreamExt;
use http::HeaderMap;
use tidegate_functions::context::{ExecutionContext, StatementMemory, Stop};
use tidegate_functions::wording::out_of_memory;
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, OperatorCost, OperatorRows, PreparedOperators, RunBounds};
use tidegate_store::HeldSegments;
use tokio::sync::oneshot;

use super::{copies, leaf_rows, planner, received};
use crate::decoder::decode;
use crate::task_bounds::TaskBounds;
use crate::worker_failure::WorkerFailure;
use crate::worker_url::url_of;

/// A task as it comes to a worker.
pub struct SentTask<'t> {
    /// Which one it is.
    pub key: TaskKey,
    /// Of how many tasks its stage has.
    pub of: usize,
    /// Its plan.
    pub plan: &'t [u8],
    /// The rows that its sender has in memory ([`leaf_rows`](super::rows_of_leaves)).
    pub rows: &'t [u8],
    /// The segments that it reads.
    pub held: &'t HeldSegments,
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

/// A task whose rows can be read.
pub struct StageTask {
    key: TaskKey,
    worker: Worker,
    operators: PreparedOperators,
    stop: Stop,
    /// What is above the operators: how the stage that reads this one wants its rows.
    head: ProducerHead,
    partitions: usize,
    ends: Mutex<Option<oneshot::Sender<CoordinatorToWorkerMsg>>>,
    /// The rows of the sender, as long as operators may read them.
    _leaf_memory: MemoryReservation,
}

impl fmt::Debug for StageTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageTask").field("key", &self.key).finish_non_exhaustive()
    }
}

impl StageTask {
    /// A task whose operators are made, in this memory of its statement. Within a runtime, on which it runs.
    ///
    /// # Errors
    /// If the task is refused, if there is no memory, or if its operators cannot be made.
    pub async fn start(
        engine: &Engine,
        memory: Arc<StatementMemory>,
        task: SentTask<'_>,
    ) -> Result<Self, WorkerFailure> {
        let SentTask { key, of, plan, rows, held, bounds, workers, channels } = task;
        let stop = Stop::after(bounds.time.unwrap_or(Duration::MAX));
        let nonsense = |error: &dyn fmt::Display| WorkerFailure::Nonsense(error.to_string());
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let leaf_memory = MemoryConsumer::new("rows of the sender").register(&pool);
        let no_room = |error: DataFusionError| WorkerFailure::of_run(out_of_memory(&error.to_string()));
        leaf_memory.try_grow(rows.len()).map_err(no_room)?;
        let leaves = leaf_rows::decoded(rows).map_err(|error| nonsense(&error))?;
        let (mut refused, mut head) = (None, (ProducerHead::None, 0));
        let decoded = |context: &_| {
            let plan = decode(plan, held, context, &leaves).map_err(|error| {
                refused = Some(error.to_string());
                Failure::new(Code::Internal, error.to_string())
            })?;
            let (input, of, partitions) = without_head(plan);
            let is_copied = matches!(of, ProducerHead::BroadcastExec { .. });
            head = (of, partitions);
            let input = received::checked(input).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
            Ok(if is_copied { copies::counted(input) } else { input })
        };
        let bounds = RunBounds { memory, batch_rows: bounds.batch_rows };
        let prepared = ExecutionContext::of_request(stop.clone()).enter(|| engine.prepare_operators(decoded, bounds));
        let operators = match refused {
            Some(why) => return Err(WorkerFailure::Nonsense(why)),
            None => prepared.map_err(WorkerFailure::of_run)?,
        };
        let config = planner::settings(operators.task.session_config().clone(), workers);
        let config = config.map_err(|error| nonsense(&error))?.with_distributed_channel_resolver(channels);
        let runtime = operators.task.runtime_env();
        let session = move |mut context: WorkerQueryContext| {
            let (mut config, runtime) = (config.clone(), Arc::clone(&runtime));
            // Of the settings that the library would have, the number of the task is needed.
            let place = context.builder.config().take().and_then(|of| of.get_extension::<DistributedTaskContext>());
            if let Some(place) = place {
                config = config.with_extension(place);
            }
            async move {
                let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime);
                Ok::<_, DataFusionError>(builder.build())
            }
        };
        let worker = Worker::from_session_builder(session);
        let request = SetPlanRequest {
            task_key: key,
            task_count: of,
            plan: MaybeEncoded::Decoded(Arc::clone(&operators.plan)),
            work_unit_feed_declarations: Vec::new(),
            // It is nobody's, so that every task is asked for where it is.
            target_worker_url: url_of(usize::MAX).map_err(|error| nonsense(&error))?,
            query_start_time_ns: 0,
        };
        let (ends, ended) = oneshot::channel();
        let messages = futures::stream::once(ended).filter_map(|message| async { message.ok().map(Ok) });
        // What it would tell are metrics, which are off.
        let _ = worker
            .coordinator_channel(HeaderMap::new(), request, messages.boxed())
            .await
            .map_err(|error| nonsense(&error))?;
        let (head, partitions) = head;
        Ok(Self {
            key,
            worker,
            operators,
            stop,
            head,
            partitions,
            ends: Mutex::new(Some(ends)),
            _leaf_memory: leaf_memory,
        })
    }

    /// Which task of its statement it is.
    pub fn key(&self) -> TaskKey {
        self.key
    }

    /// How many partitions it has.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// What it costs.
    pub fn cost(&self) -> OperatorCost {
        self.operators.cost()
    }

    /// The memory of its statement here.
    pub fn memory(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(self.operators.task.memory_pool())
    }

    /// The rows of a partition, each of which is read once.
    ///
    /// # Errors
    /// If it has no such partition.
    pub async fn rows(&self, partition: usize) -> Result<OperatorRows, WorkerFailure> {
        let request = ExecuteTaskRequest {
            task_key: self.key,
            target_partition_start: partition,
            target_partition_end: partition.saturating_add(1),
            producer_head: self.head.clone(),
        };
        let started = self.worker.execute_task(request).await;
        let rows = started.map_err(|error| WorkerFailure::Nonsense(error.to_string()))?.0.pop();
        let rows = rows.ok_or_else(|| WorkerFailure::Nonsense("the task has no such partition".to_owned()))?;
        Ok(self.operators.rows(rows))
    }

    /// Ends it: what computes is asked to stop.
    pub fn end(&self) {
        self.stop.ask();
        drop(self.ends.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for StageTask {
    fn drop(&mut self) {
        self.end();
    }
}

/// The operators below the head of a stage, the head, and how many partitions it has.
fn without_head(plan: Arc<dyn ExecutionPlan>) -> (Arc<dyn ExecutionPlan>, ProducerHead, usize) {
    let partitions = plan.output_partitioning().partition_count();
    let head = match plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::partitioning) {
        Some(of @ Partitioning::Hash(..)) => {
            ProducerHead::RepartitionExec { partitioning: MaybeEncoded::Decoded(of.clone()) }
        }
        None if plan.is::<BroadcastExec>() => ProducerHead::BroadcastExec { output_partitions: partitions },
        _ => return (plan, ProducerHead::None, partitions),
    };
    let input = plan.children().first().map(|input| Arc::clone(input));
    (input.unwrap_or(plan), head, partitions)
}
