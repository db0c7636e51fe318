//! The way to the workers of a statement that runs in stages: from its coordinator, and from one worker to another.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::Method;
use hyper::header::HeaderMap;
use tidegate_cluster::stages::{WorkerFaults, place_of, rows_of_leaves};
use tidegate_cluster::{LocalLeaves, TaskBounds, WorkerFailure, encode_stage};
use url::Url;

use crate::frames::{Frame, FrameReader};
use crate::link::{Answer, Link};
use crate::member::{Member, Outcome};
use crate::messages::{Peer, PeerMessage, TASKS, TaskMessage, path_of_cost};
use crate::peer_links::PeerLinks;
use crate::stage_rows::StageRows;
use crate::task_costs::{TaskCost, TaskCosts};
use crate::task_failure::{no_room, of_frame, outcome, started_id, unexpected};

/// How long a statement that has its rows waits for what a task has cost.
const LAST_COST: Duration = Duration::from_millis(500);

/// How a side reaches the workers of a statement.
enum Reach {
    /// A coordinator, by the connections on which it watches them.
    Members(Vec<Arc<Member>>, TaskCosts, WorkerFaults),
    /// A worker.
    Peers(Vec<Peer>, Arc<PeerLinks>),
}

/// The workers of a statement.
#[derive(Clone)]
pub(crate) struct StageChannels(Arc<Reach>);

impl fmt::Debug for StageChannels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageChannels").finish_non_exhaustive()
    }
}

impl StageChannels {
    pub(crate) fn of_coordinator(
        members: Vec<Arc<Member>>,
        costs: TaskCosts,
        faults: WorkerFaults,
    ) -> Arc<dyn ChannelResolver + Send + Sync> {
        Arc::new(Self(Arc::new(Reach::Members(members, costs, faults))))
    }

    pub(crate) fn of_worker(peers: Vec<Peer>, links: &Arc<PeerLinks>) -> Arc<dyn ChannelResolver + Send + Sync> {
        Arc::new(Self(Arc::new(Reach::Peers(peers, Arc::clone(links)))))
    }
}

#[async_trait]
impl ChannelResolver for StageChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        // A plan names workers by number, and no other machine can be reached.
        let place = place_of(url);
        let (link, member) = match (place, &*self.0) {
            (Some(place), Reach::Members(members, _, faults)) => {
                let Some(member) = members.get(place) else {
                    return internal_err!("the statement has no worker {url}");
                };
                let link = member.link().map_err(|why| {
                    member.ended(Outcome::Gone);
                    let failure = WorkerFailure::Gone(why);
                    faults.unstarted(Some(place), &failure);
                    failure.into_error()
                })?;
                (link, Some((place, Arc::clone(member))))
            }
            (Some(place), Reach::Peers(peers, links)) => {
                let Some(peer) = peers.get(place) else { return internal_err!("the statement has no worker {url}") };
                (links.link(peer).await.map_err(WorkerFailure::into_error)?, None)
            }
            (None, _) => return internal_err!("{url} is no worker"),
        };
        Ok(Box::new(Channel { link, member, workers: self.clone() }))
    }
}

/// The way to one worker.
struct Channel {
    link: Link,
    /// What a coordinator knows of it, and its place.
    member: Option<(usize, Arc<Member>)>,
    workers: StageChannels,
}

impl Channel {
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
        let (Some((place, member)), Reach::Members(members, costs, faults)) = (&self.member, &*self.workers.0) else {
            return internal_err!("a worker sends a task");
        };
        let mut leaves = LocalLeaves::default();
        let encoded = encode_stage(&plan, context.session_config().options(), &mut leaves);
        let encoded = encoded.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let rows = rows_of_leaves(&leaves, context).await?;
        let bounds = TaskBounds::of_statement(task_key.query_id, context)?;
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let partitions = plan.output_partitioning().partition_count();
        let message = TaskMessage {
            stage: short(task_key.stage_id),
            task: short(task_key.task_number),
            tasks: short(task_count),
            workers: members.iter().map(|member| PeerMessage::from(&member.peer())).collect(),
            rows,
            ..TaskMessage::of((&encoded, partitions), &bounds, member.build())
        };
        let body = message.body(&encoded.bytes);
        let body = body.map_err(|unreadable| WorkerFailure::Nonsense(unreadable.to_string()).into_error())?;
        let room = MemoryConsumer::new("task").register(context.memory_pool());
        room.try_grow(body.len()).map_err(|error| no_room(&error).into_error())?;
        let started = async {
            let mut frames = self.link.ask(Method::POST, TASKS, Some(body)).await?;
            let id = started_id(&mut frames, partitions).await?;
            Ok((frames, path_of_cost(id)))
        };
        let (frames, path) = started.await.map_err(|failure| {
            costs.of(task_key).count(member, outcome(&failure));
            faults.unstarted(Some(*place), &failure);
            failure.into_error()
        })?;
        faults.started();
        let (link, member, faults) = (self.link.clone(), Arc::clone(member), (*place, faults.clone()));
        let cost = costs.of(task_key);
        let lease = Lease { frames, link, path, member, partitions, cost, faults, ended: None };
        Ok(futures::stream::once(lease.held(ends)).filter_map(|()| async { None }).boxed())
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
        let (Err(error), Reach::Members(_, _, faults)) = (&started, &*self.workers.0) else { return started };
        faults.unstarted_because(error);
        // The statement ends with that, unless it has its rows already: then nothing may come of it.
        Ok(futures::stream::empty().boxed())
    }

    async fn execute_task(
        &mut self,
        _: HeaderMap,
        request: ExecuteTaskRequest,
        _: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let partitions = request.target_partition_start..request.target_partition_end;
        let of_statement = match (&self.member, &*self.workers.0) {
            (Some((place, member)), Reach::Members(_, costs, faults)) => {
                Some((*place, Arc::clone(member), costs.of(request.task_key), faults.clone()))
            }
            _ => None,
        };
        let cost = of_statement.as_ref().map(|(_, _, cost, _)| Arc::clone(cost));
        let rows = partitions
            .map(|partition| StageRows::read(&self.link, (request.task_key, partition), cost.clone(), context));
        let error = move |failure: WorkerFailure| match &of_statement {
            Some((place, member, cost, faults)) => {
                cost.count(member, outcome(&failure));
                faults.blame(*place, &failure);
                failure.into_error()
            }
            None => failure.into_error_of_peer(),
        };
        let rows = rows.map(|rows| {
            let error = error.clone();
            rows.map(move |batch| batch.map_err(&error)).boxed()
        });
        Ok(rows.collect())
    }

    async fn get_worker_info(&mut self, _: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        Ok(GetWorkerInfoResponse { version: String::new() })
    }
}

/// The answer to the start of a task. When it is dropped, the worker ends the task.
struct Lease {
    frames: FrameReader<Answer>,
    link: Link,
    /// Where its cost is asked for.
    path: String,
    member: Arc<Member>,
    partitions: usize,
    cost: Arc<TaskCost>,
    /// The place of the worker, and where is noted that it failed.
    faults: (usize, WorkerFaults),
    ended: Option<Outcome>,
}

impl Lease {
    /// Holds the task until the messages to it end, or it fails. Whoever reads its rows learns that it has failed: when all rows
    /// have come, it does not matter any more.
    async fn held(mut self, mut ends: BoxStream<'static, CoordinatorToWorkerMsg>) {
        loop {
            tokio::select! {
                biased;
                message = ends.next() => match message {
                    Some(_) => {}
                    None => {
                        self.ended = Some(Outcome::Done);
                        if self.cost.is_last(self.partitions) {
                            return;
                        }
                        // The statement has its rows, so that nothing else may come of it.
                        let last = tokio::time::timeout(LAST_COST, self.last_cost()).await;
                        if !matches!(last, Ok(Ok(()))) {
                            tracing::debug!("what a task of a stage has cost in the end is not known");
                        }
                        return;
                    }
                },
                frame = self.frames.next_without_rows() => {
                    let failure = match frame {
                        Ok(Some(Frame::Cost(so_far))) => {
                            self.cost.add(so_far);
                            continue;
                        }
                        Ok(Some(Frame::Failed(failure))) => failure,
                        Ok(Some(_)) => unexpected(),
                        Ok(None) => WorkerFailure::Gone("the task ended without a reason".to_owned()),
                        Err(error) => of_frame(error),
                    };
                    tracing::debug!(%failure, "a task of a stage has ended early");
                    self.ended = Some(outcome(&failure));
                    let (place, faults) = &self.faults;
                    faults.blame(*place, &failure);
                    return;
                }
            }
        }
    }

    /// What the task has cost: the worker tells it now and then by itself.
    async fn last_cost(&self) -> Result<(), WorkerFailure> {
        match self.link.ask(Method::GET, &self.path, None).await?.next_without_rows().await.map_err(of_frame)? {
            Some(Frame::Cost(last)) => {
                self.cost.add(last);
                Ok(())
            }
            Some(Frame::Failed(failure)) => Err(failure),
            _ => Err(unexpected()),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.cost.count(&self.member, self.ended.unwrap_or(Outcome::Left));
    }
}
