//! A store with segments, and workers over it.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::header::HeaderMap;
use tidegate_cluster::StatementReport;
use tidegate_cluster::stages::{StageCarrier, StageList, StageOptions, StageWorkers};
use tidegate_functions::context::{ExecutionContext, PlanningBudget, StatementMemory, Stop};
use tidegate_model::Failure;
use tidegate_sql::{Engine, EngineOptions, ResultStream, own_failure};
use tidegate_store::{SegmentFiles, Store};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use url::Url;
use uuid::Uuid;

use super::cluster::{plan, store};
use super::promises::Coordinator;
use crate::server::{ConnectionBounds, serve_within};
use crate::{Accept, Connect, RemoteWorkers, Worker, WorkerAddress, WorkerListeners, WorkerOptions};

/// The name of the build of all of them.
pub(super) const BUILD: &str = "1.2.3+45";

/// A worker that listens.
pub(super) struct Served {
    pub(super) worker: Arc<Worker>,
    pub(super) address: SocketAddr,
    /// Where it answers probes only.
    pub(super) probes: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Served {
    pub(super) async fn start(folder: &Path, options: &WorkerOptions, address: SocketAddr) -> Self {
        Self::start_within(folder, options, address, ConnectionBounds::default()).await
    }

    pub(super) async fn start_within(
        folder: &Path,
        options: &WorkerOptions,
        address: SocketAddr,
        bounds: ConnectionBounds,
    ) -> Self {
        let segments = SegmentFiles::folder(&folder.join("data")).unwrap();
        let worker = Worker::start(options, segments).unwrap();
        let tasks = TcpListener::bind(address).await.unwrap();
        let address = tasks.local_addr().unwrap();
        let probes = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let probes_at = probes.local_addr().unwrap();
        let grace = Duration::from_secs(10);
        let listeners = WorkerListeners { tasks, accept: Accept::Loopback, probes: Some(probes), grace };
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve_within(Arc::clone(&worker), listeners, bounds, async move {
            let _ = stopped.await;
        }));
        Self { worker, address, probes: probes_at, stop: Some(stop), serving }
    }

    /// Ends it as a signal does.
    pub(super) async fn stop(mut self) {
        drop(self.stop.take());
        let _ = (&mut self.serving).await;
    }

    /// Begins to end it.
    pub(super) fn drain(&mut self) {
        drop(self.stop.take());
    }

    /// Ends it as a crash does.
    pub(super) async fn kill(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

/// A task that was sent.
struct Sent {
    place: Url,
    request: SetPlanRequest,
    context: Arc<TaskContext>,
}

/// Keeps the tasks that are sent.
#[derive(Default)]
pub(super) struct Spy {
    workers: Option<Arc<RemoteWorkers>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spy")
    }
}

impl StageWorkers for Spy {
    fn list(&self, left_out: &[Arc<str>]) -> StageList {
        let list = self.workers.as_ref().unwrap().list(left_out);
        let channels = SpyChannels { inner: Arc::clone(&list.channels), sent: Arc::clone(&self.sent) };
        StageList { channels: Arc::new(channels), ..list }
    }
}

struct SpyChannels {
    inner: Arc<dyn ChannelResolver + Send + Sync>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

#[async_trait]
impl ChannelResolver for SpyChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let inner = self.inner.get_worker_client_for_url(url).await?;
        Ok(Box::new(SpyChannel { inner, place: url.clone(), sent: Arc::clone(&self.sent) }))
    }
}

struct SpyChannel {
    inner: Box<dyn WorkerChannel>,
    place: Url,
    sent: Arc<Mutex<Vec<Sent>>>,
}

fn same(request: &SetPlanRequest, task_key: TaskKey) -> SetPlanRequest {
    let MaybeEncoded::Decoded(plan) = &request.plan else { panic!("a plan that is encoded") };
    SetPlanRequest {
        task_key,
        task_count: request.task_count,
        plan: MaybeEncoded::Decoded(Arc::clone(plan)),
        work_unit_feed_declarations: Vec::new(),
        target_worker_url: request.target_worker_url.clone(),
        query_start_time_ns: request.query_start_time_ns,
    }
}

#[async_trait]
impl WorkerChannel for SpyChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        ends: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg, DataFusionError>>, DataFusionError> {
        let kept = same(&request, request.task_key);
        let sent = Sent { place: self.place.clone(), request: kept, context: Arc::clone(context) };
        self.sent.lock().unwrap().push(sent);
        self.inner.coordinator_channel(headers, request, ends, metrics, context).await
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<TaskRows>, DataFusionError> {
        self.inner.execute_task(headers, request, metrics, context).await
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse, DataFusionError> {
        self.inner.get_worker_info(request).await
    }
}

/// The rows of a partition of a task.
type TaskRows = BoxStream<'static, Result<RecordBatch, DataFusionError>>;

/// A task that runs.
pub(super) struct Begun {
    /// The rows of each partition.
    pub(super) partitions: Vec<TaskRows>,
    /// The memory of its statement here.
    pub(super) home: Arc<StatementMemory>,
    _lease: AbortOnDropHandle<()>,
    _ends: mpsc::UnboundedSender<CoordinatorToWorkerMsg>,
}

/// What a reader of rows is told.
pub(super) fn failure(error: &DataFusionError) -> Failure {
    own_failure(error).unwrap_or_else(|| panic!("{error}"))
}

pub(super) struct Cluster {
    pub(super) store: Arc<Store>,
    pub(super) served: Vec<Served>,
    pub(super) workers: Arc<RemoteWorkers>,
    pub(super) spy: Arc<Spy>,
    pub(super) remote: Engine,
    pub(super) whole: Engine,
    pub(super) last: Arc<Mutex<StatementReport>>,
    pub(super) folder: tempfile::TempDir,
}

pub(super) fn engine_options(partitions: usize) -> EngineOptions {
    EngineOptions {
        partitions,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    }
}

pub(super) fn worker_options() -> WorkerOptions {
    WorkerOptions { engine: engine_options(2), tasks: 64, threads: 4, build: BUILD.into(), connect: Connect::Loopback }
}

impl Cluster {
    pub(super) async fn new() -> Self {
        Self::with(8, 2, 20, &worker_options()).await
    }

    /// With rows that do not all fit on the way to their reader.
    pub(super) async fn large() -> Self {
        Self::with(8, 2, 3_000, &worker_options()).await
    }

    pub(super) async fn with(segments: i64, partitions: usize, length: usize, options: &WorkerOptions) -> Self {
        let (store, folder) = store(segments, length).await;
        let mut served = Vec::new();
        for _ in 0..3 {
            served.push(Served::start(folder.path(), options, ([127, 0, 0, 1], 0).into()).await);
        }
        let addresses: Vec<SocketAddr> = served.iter().map(|served| served.address).collect();
        let mut cluster = Self::over(store, folder, &addresses, partitions);
        cluster.served = served;
        cluster.usable(3).await;
        cluster
    }

    /// With workers at these addresses.
    pub(super) fn over(
        store: Arc<Store>,
        folder: tempfile::TempDir,
        addresses: &[SocketAddr],
        partitions: usize,
    ) -> Self {
        let addresses: Vec<_> = addresses.iter().copied().map(WorkerAddress::Fixed).collect();
        let workers = RemoteWorkers::start(&addresses, Connect::Loopback, BUILD.into()).unwrap();
        let last = Arc::<Mutex<StatementReport>>::default();
        let told = Arc::clone(&last);
        let spy = Arc::new(Spy { workers: Some(Arc::clone(&workers)), ..Spy::default() });
        let carrier = StageCarrier::new(Arc::clone(&spy) as _, StageOptions::GATHERED).telling(move |report| {
            *told.lock().unwrap() = report.clone();
        });
        let engine = engine_options(partitions);
        let whole = Engine::new(&engine).unwrap();
        let remote = Engine::new(&engine).unwrap().with_carrier(Arc::new(carrier));
        Self { store, served: Vec::new(), workers, spy, remote, whole, last, folder }
    }

    /// Waits until so many workers can be used.
    pub(super) async fn usable(&self, count: usize) {
        let began = Instant::now();
        while self.names().len() != count {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", self.workers.views());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The workers that can be used.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.workers.list(&[]).names
    }

    /// A task of the statement that runs once more, in small batches.
    pub(super) async fn task(&self, sql: &str, time: Option<Duration>) -> Begun {
        self.rows(&self.remote, sql).await.unwrap();
        let Sent { place, request, context } = self.spy.sent.lock().unwrap().pop().unwrap();
        let home = {
            let execution = context.session_config().get_extension::<ExecutionContext>().unwrap();
            Arc::clone(execution.memory().unwrap())
        };
        let stop = Stop::after(time.unwrap_or(Duration::MAX));
        let budget = PlanningBudget::new(&self.remote.memory(), 1 << 20);
        let execution = ExecutionContext::of_request(stop)
            .enter(|| ExecutionContext::of_run(Arc::clone(&home), Arc::clone(budget.patterns())));
        let config = context.session_config().clone().with_batch_size(10).with_extension(execution);
        let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
        let context = Arc::new(context);
        let key = TaskKey { query_id: Uuid::new_v4(), ..request.task_key };
        let again = same(&request, key);
        let MaybeEncoded::Decoded(plan) = &request.plan else { panic!("a plan that is encoded") };
        let partitions = plan.output_partitioning().partition_count();
        let channels = self.workers.list(&[]).channels;
        let mut channel = channels.get_worker_client_for_url(&place).await.unwrap();
        let (ends, ended) = mpsc::unbounded_channel();
        let ended = futures::stream::unfold(ended, |mut ended| async move { Some((ended.recv().await?, ended)) });
        let lease = channel.coordinator_channel(HeaderMap::new(), again, ended.boxed(), Default::default(), &context);
        let lease = lease.await.unwrap();
        let lease = AbortOnDropHandle::new(tokio::spawn(lease.for_each(|_| async {})));
        let request = ExecuteTaskRequest {
            task_key: key,
            target_partition_start: 0,
            target_partition_end: partitions,
            producer_head: ProducerHead::None,
        };
        let partitions = channel.execute_task(HeaderMap::new(), request, Default::default(), &context).await.unwrap();
        let partitions = partitions.into_iter().map(|rows| rows.fuse().boxed()).collect();
        Begun { partitions, home, _lease: lease, _ends: ends }
    }

    /// A partition of a task of the statement whose first rows have come, in small batches, so that it runs on.
    pub(super) async fn begun(&self, sql: &str, time: Option<Duration>) -> (TaskRows, Begun) {
        let mut task = self.task(sql, time).await;
        let mut rows = task.partitions.swap_remove(0);
        // A scan in the order of times keeps the last row of a batch until it knows the next one.
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 9);
        (rows, task)
    }

    /// Waits until so many tasks have ended so, or more.
    pub(super) async fn counted(&self, wanted: crate::Outcome, least: u64) {
        let began = Instant::now();
        while self.count(wanted) < least {
            assert!(began.elapsed() < Duration::from_secs(20), "{wanted:?}: {:?}", self.workers.views());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// How many tasks ended so, over all workers.
    pub(super) fn count(&self, wanted: crate::Outcome) -> u64 {
        let views = self.workers.views();
        let counts = views.iter().flat_map(|view| view.tasks);
        counts.filter(|(outcome, _)| *outcome == wanted).map(|(_, count)| count).sum()
    }
}

impl Coordinator for Cluster {
    fn remote(&self) -> &Engine {
        &self.remote
    }

    fn whole(&self) -> &Engine {
        &self.whole
    }

    async fn run(&self, engine: &Engine, sql: &str) -> Result<ResultStream, Failure> {
        engine.run(plan(&self.store, engine, sql)?, Some(100_000)).await
    }

    fn was_remote(&self) -> bool {
        self.last.lock().unwrap().is_remote()
    }

    async fn idle(&self) {
        let began = Instant::now();
        loop {
            let held: Vec<_> =
                self.served.iter().map(|served| (served.worker.tasks(), served.worker.memory_held())).collect();
            if held.iter().all(|held| *held == (0, 0)) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "tasks and bytes: {held:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
