//! Workers in this process that fail as a test says: when they are sent a task, or while their rows are read.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use tidegate_cluster::stages::{LocalStageWorkers, StageList, StageWorkers, WorkerFaults, place_of};
use tidegate_cluster::{LocalLeaves, WorkerFailure, encode_stage};
use url::Url;

/// The rows of a partition of a task.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch>>;

/// How workers fail.
pub(crate) trait Faults: fmt::Debug + Send + Sync + 'static {
    /// Why the worker of this name takes no task that reads these segments.
    fn refuses(&self, worker: &str, segments: &[String]) -> Option<WorkerFailure>;

    /// What comes of the rows of a partition. `blame` notes why the worker fails, and makes the error of it.
    fn rows(&self, worker: &str, rows: Rows, blame: Blame) -> Rows;
}

/// Notes that a worker has failed.
pub(crate) type Blame = Box<dyn Fn(WorkerFailure) -> datafusion::error::DataFusionError + Send + Sync>;

/// Workers that fail.
#[derive(Debug)]
pub(crate) struct Faulty<F> {
    pub(crate) inner: Arc<LocalStageWorkers>,
    pub(crate) faults: Arc<F>,
}

impl<F: Faults> StageWorkers for Faulty<F> {
    fn list(&self, left_out: &[Arc<str>]) -> StageList {
        let list = self.inner.list(left_out);
        let channels = Channels {
            inner: Arc::clone(&list.channels),
            names: list.names.clone(),
            noted: list.faults.clone(),
            faults: Arc::clone(&self.faults),
        };
        StageList { channels: Arc::new(channels), ..list }
    }
}

struct Channels<F> {
    inner: Arc<dyn ChannelResolver + Send + Sync>,
    names: Vec<Arc<str>>,
    noted: WorkerFaults,
    faults: Arc<F>,
}

#[async_trait]
impl<F: Faults> ChannelResolver for Channels<F> {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let place = place_of(url).unwrap();
        let inner = self.inner.get_worker_client_for_url(url).await?;
        let (worker, noted, faults) = (Arc::clone(&self.names[place]), self.noted.clone(), Arc::clone(&self.faults));
        Ok(Box::new(Channel { inner, place, worker, noted, faults }))
    }
}

struct Channel<F> {
    inner: Box<dyn WorkerChannel>,
    place: usize,
    worker: Arc<str>,
    noted: WorkerFaults,
    faults: Arc<F>,
}

#[async_trait]
impl<F: Faults> WorkerChannel for Channel<F> {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        ends: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let MaybeEncoded::Decoded(plan) = &request.plan else { panic!("a plan that is encoded") };
        let encoded = encode_stage(plan, context.session_config().options(), &mut LocalLeaves::default()).unwrap();
        let segments: Vec<_> = encoded.segments.iter().map(|(_, segment)| segment.id.to_string()).collect();
        if let Some(failure) = self.faults.refuses(&self.worker, &segments) {
            self.noted.unstarted(Some(self.place), &failure);
            return Ok(futures::stream::empty().boxed());
        }
        self.inner.coordinator_channel(headers, request, ends, metrics, context).await
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<Rows>> {
        let partitions = self.inner.execute_task(headers, request, metrics, context).await?;
        let rows = partitions.into_iter().map(|rows| {
            let (place, noted) = (self.place, self.noted.clone());
            let blame = move |failure: WorkerFailure| {
                noted.blame(place, &failure);
                failure.into_error()
            };
            self.faults.rows(&self.worker, rows, Box::new(blame))
        });
        Ok(rows.collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.inner.get_worker_info(request).await
    }
}
