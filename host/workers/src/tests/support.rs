//! A store with segments, and workers over it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tidegate_cluster::{
    CutCarrier, CutOptions, CutReport, Task, TaskBounds, TaskRows, TaskRun, WorkerFailure, Workers,
};
use tidegate_functions::context::StatementMemory;
use tidegate_model::Failure;
use tidegate_sql::{Engine, EngineOptions, ResultStream};
use tidegate_store::{SegmentFiles, Store};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

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

/// Keeps the last task.
#[derive(Debug)]
pub(super) struct Spy {
    pub(super) workers: Arc<RemoteWorkers>,
    pub(super) tasks: Mutex<Vec<(Task, TaskBounds, Arc<StatementMemory>)>>,
}

impl Workers for Spy {
    fn names(&self) -> Vec<Arc<str>> {
        self.workers.names()
    }

    fn run(&self, task: &Task, bounds: &TaskBounds, home: &Arc<StatementMemory>) -> Result<TaskRun, WorkerFailure> {
        self.tasks.lock().unwrap().push((task.clone(), *bounds, Arc::clone(home)));
        self.workers.run(task, bounds, home)
    }
}

pub(super) struct Cluster {
    pub(super) store: Arc<Store>,
    pub(super) served: Vec<Served>,
    pub(super) workers: Arc<RemoteWorkers>,
    pub(super) spy: Arc<Spy>,
    pub(super) cut: Engine,
    pub(super) whole: Engine,
    pub(super) last: Arc<Mutex<CutReport>>,
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
        let spy = Arc::new(Spy { workers: Arc::clone(&workers), tasks: Mutex::default() });
        let last = Arc::<Mutex<CutReport>>::default();
        let told = Arc::clone(&last);
        let carrier = CutCarrier::new(Arc::clone(&spy) as _, CutOptions::ALL, move |report| {
            *told.lock().unwrap() = report.clone();
        });
        let engine = engine_options(partitions);
        let whole = Engine::new(&engine).unwrap();
        let cut = Engine::new(&engine).unwrap().with_carrier(Arc::new(carrier));
        Self { store, served: Vec::new(), workers, spy, cut, whole, last, folder }
    }

    /// Waits until so many workers can be used.
    pub(super) async fn usable(&self, count: usize) {
        let began = Instant::now();
        while self.workers.names().len() != count {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", self.workers.views());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A partition of a task of the statement whose first rows have come, in small batches, so that it runs on.
    pub(super) async fn begun(&self, sql: &str, time: Option<Duration>) -> (TaskRows, Arc<StatementMemory>) {
        self.rows(&self.cut, sql).await.unwrap();
        let (task, bounds, home) = self.spy.tasks.lock().unwrap().pop().unwrap();
        let bounds = TaskBounds { batch_rows: 10, time, ..bounds };
        let mut run = self.workers.run(&task, &bounds, &home).unwrap();
        let mut rows = run.partitions.swap_remove(0);
        // A scan in the order of times keeps the last row of a batch until it knows the next one.
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 9);
        (rows, home)
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
    fn cut(&self) -> &Engine {
        &self.cut
    }

    fn whole(&self) -> &Engine {
        &self.whole
    }

    async fn run(&self, engine: &Engine, sql: &str) -> Result<ResultStream, Failure> {
        engine.run(plan(&self.store, engine, sql)?, Some(100_000)).await
    }

    fn was_cut(&self) -> bool {
        self.last.lock().unwrap().is_cut()
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
