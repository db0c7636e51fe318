//! Statements in stages: what runs on workers, what they fail with, and that nothing of them is left.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tidegate_cluster::stages::{
    LocalStageWorkers, StageCarrier, StageList, StageOptions, StageWorkers, WorkerFaults, place_of,
};
use tidegate_cluster::{StatementReport, WorkerFailure};
use tidegate_model::{Arguments, Code, Failure};
use tidegate_sql::{Binding, CostCounter, Engine, EngineOptions, ResultStream, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};
use url::Url;

struct Stored(Arc<Store>);

impl Sources for Stored {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        vec!["logs".to_owned()]
    }
}

/// Workers of which the first do not take a task.
#[derive(Debug)]
struct Failing {
    workers: Arc<LocalStageWorkers>,
    gone: usize,
}

impl StageWorkers for Failing {
    fn list(&self, left_out: &[Arc<str>]) -> StageList {
        let list = self.workers.list(left_out);
        let gone = list.names.iter().map(|name| {
            let number: usize = name.rsplit('-').next().unwrap().parse().unwrap();
            number < self.gone
        });
        let (gone, channels, faults) = (gone.collect(), Arc::clone(&list.channels), list.faults.clone());
        StageList { channels: Arc::new(FailingChannels { channels, gone, faults }), ..list }
    }
}

struct FailingChannels {
    channels: Arc<dyn ChannelResolver + Send + Sync>,
    gone: Vec<bool>,
    faults: WorkerFaults,
}

#[async_trait]
impl ChannelResolver for FailingChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> datafusion::error::Result<Box<dyn WorkerChannel>> {
        let place = place_of(url).unwrap();
        if self.gone[place] {
            let failure = WorkerFailure::Gone("it is not there".to_owned());
            self.faults.unstarted(Some(place), &failure);
            return Err(failure.into_error());
        }
        self.channels.get_worker_client_for_url(url).await
    }
}

/// Segments and rows in memory, and an engine with three workers.
struct World {
    sources: Stored,
    workers: Arc<LocalStageWorkers>,
    whole: Engine,
    staged: Engine,
    last: Arc<Mutex<StatementReport>>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(options: StageOptions) -> Self {
        Self::with(options, 0).await
    }

    /// The first `gone` workers of three take no task.
    async fn with(options: StageOptions, gone: usize) -> Self {
        Self::of(options, gone, 3).await
    }

    async fn of(options: StageOptions, gone: usize, workers: usize) -> Self {
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        let folder = tempfile::tempdir().unwrap();
        let store_options = StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("data"), store_options).unwrap();
        store.create_source("logs").unwrap();
        for part in 0..9_usize {
            let rows = (0..200).map(|n| {
                let n = part * 200 + n;
                let texts = ["a", "b", "c", "d", "e"];
                json!({"event_message": format!("message {n}"), "n": n, "k": n % 37, "t": texts[n % texts.len()]})
            });
            store.ingest("logs", rows.collect()).await.unwrap();
            if part < 8 {
                store.flush().await.unwrap();
            }
        }
        let engines = EngineOptions {
            partitions: 2,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let workers = Arc::new(LocalStageWorkers::new(workers, &engines).unwrap());
        let last = Arc::<Mutex<StatementReport>>::default();
        let told = Arc::clone(&last);
        let listed = Arc::new(Failing { workers: Arc::clone(&workers), gone });
        let carrier = StageCarrier::new(listed, options).telling(move |report| {
            *told.lock().unwrap() = report.clone();
        });
        let whole = Engine::new(&engines).unwrap();
        let staged = whole.clone().with_carrier(Arc::new(carrier));
        Self { sources: Stored(store), workers, whole, staged, last, _folder: folder }
    }

    async fn start(&self, engine: &Engine, sql: &str) -> Result<ResultStream, Failure> {
        let arguments = Arguments::default();
        let plan = engine.plan(sql, Binding::new(&self.sources, &arguments, 0))?;
        engine.run(plan, Some(10_000)).await
    }

    /// The rows of a statement, sorted.
    async fn rows(&self, engine: &Engine, sql: &str) -> Result<Vec<String>, Failure> {
        let (rows, _) = self.counted(engine, sql).await?;
        Ok(rows)
    }

    /// The same, and what the statement has cost.
    async fn counted(&self, engine: &Engine, sql: &str) -> Result<(Vec<String>, Arc<CostCounter>), Failure> {
        let cost = Arc::<CostCounter>::default();
        let stream = self.start(engine, sql).await?.counted_in(Arc::clone(&cost));
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        Ok((lines, cost))
    }

    /// Waits until the workers have nothing.
    async fn wait_for_nothing(&self) {
        let since = Instant::now();
        while self.workers.tasks() > 0 || self.workers.memory_held() > 0 || self.whole.memory_held() > 0 {
            let (tasks, memory) = (self.workers.tasks(), self.workers.memory_held());
            assert!(since.elapsed() < Duration::from_secs(30), "{tasks} tasks and {memory} bytes are left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn report(&self) -> StatementReport {
        self.last.lock().unwrap().clone()
    }

    /// How many stages the last statement had, if workers exchanged rows.
    fn stages(&self) -> usize {
        self.report().exchange.map_or(0, |exchange| exchange.stages)
    }
}

/// What workers read counts, however short the statement.
#[tokio::test]
async fn what_workers_read_is_told() {
    let world = World::new(StageOptions::ALL).await;
    for sql in EXCHANGED {
        let (_, whole) = world.counted(&world.whole, sql).await.unwrap();
        let (_, staged) = world.counted(&world.staged, sql).await.unwrap();
        let (whole, cost) = (whole.cost(), staged.cost());
        assert!(whole.rows_read >= 1800 && whole.bytes_read > 0, "{whole:?}");
        assert!(cost.tasks >= 3 && cost.moves == 0, "{cost:?}");
        // The engine may look at a row twice where each worker does so once.
        assert!(cost.rows_read >= whole.rows_read / 2 && cost.bytes_read > 0, "{cost:?} {whole:?} {sql}");
    }
    world.wait_for_nothing().await;
}

#[tokio::test]
async fn a_statement_runs_again_without_the_worker_that_failed() {
    for gone in 1..=3 {
        let world = World::with(StageOptions::ALL, gone).await;
        for sql in EXCHANGED {
            let expected = world.rows(&world.whole, sql).await.unwrap();
            let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
            assert_eq!(rows, expected, "{sql}");
            let report: Value = serde_json::from_str(&cost.reports()[0]).unwrap();
            let attempts = report["attempts"].as_array().unwrap();
            assert!(!attempts.is_empty() && attempts.len() <= 2, "{report}");
            assert_eq!(cost.cost().moves, attempts.len() as u64);
            let failed: Vec<_> = attempts.iter().map(|attempt| attempt["worker"].as_str().unwrap()).collect();
            assert!(attempts.iter().all(|of| of["failure"] == "the worker is gone: it is not there"), "{report}");
            // Of two that are gone, both may be known at once: then the third runs it.
            let fell_back = report.get("fell_back").is_some();
            assert!(fell_back == (gone == 3) || gone == 2, "{report} {sql}");
            let mut again = report["remote"].as_array().unwrap().iter().flat_map(|of| of["tasks"].as_array().unwrap());
            let is_other = |task: &Value| !failed.contains(&task["worker"].as_str().unwrap());
            assert!(fell_back || again.all(is_other), "{report}");
            assert!(gone > 1 || report.get("exchange").is_some(), "{report}");
            assert!(cost.cost().rows_read >= 1800, "{:?} {sql}", cost.cost());
        }
        world.wait_for_nothing().await;
    }
}

/// What one machine did alone before: each of these has an exchange between workers.
const EXCHANGED: [&str; 8] = [
    "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM logs GROUP BY k",
    "SELECT DISTINCT k, t FROM logs",
    "SELECT COUNT(DISTINCT event_message) AS c FROM logs",
    "SELECT t, COUNT(DISTINCT event_message) AS c FROM logs GROUP BY t",
    "SELECT n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS r FROM logs",
    "SELECT n, SUM(n) OVER (PARTITION BY t ORDER BY n ROWS 3 PRECEDING) AS s FROM logs",
    "SELECT a.n, b.k FROM logs AS a JOIN (SELECT event_message, k FROM logs WHERE n > 40) AS b ON a.event_message = b.event_message",
    "SELECT a.n FROM logs AS a WHERE NOT EXISTS (SELECT 1 FROM logs AS b WHERE b.event_message = a.event_message AND b.k < 3)",
];

#[tokio::test]
async fn workers_exchange_rows_by_their_keys() {
    let world = World::new(StageOptions::ALL).await;
    for sql in EXCHANGED {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        assert_eq!(world.rows(&world.staged, sql).await.unwrap(), expected, "{sql}");
        assert!(world.stages() > 2, "{:?} {sql}", world.report());
    }
    world.wait_for_nothing().await;
}

/// Workers read the scans, and what is above them runs here.
#[tokio::test]
async fn few_rows_are_not_exchanged() {
    let world = World::new(StageOptions { least_exchanged_rows: 1_000_000, ..StageOptions::ALL }).await;
    for sql in EXCHANGED {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
        assert_eq!(rows, expected, "{sql}");
        assert!(world.stages() == 0 && world.report().is_remote(), "{:?} {sql}", world.report());
        assert!(cost.cost().tasks > 0 && cost.cost().rows_read >= 1800, "{:?} {sql}", cost.cost());
    }
    world.wait_for_nothing().await;
}

/// One worker has nobody to exchange rows with, and reads all segments.
#[tokio::test]
async fn one_worker_reads_what_there_is() {
    let world = World::of(StageOptions::ALL, 0, 1).await;
    for sql in EXCHANGED {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
        assert_eq!(rows, expected, "{sql}");
        let report: Value = serde_json::from_str(&cost.reports()[0]).unwrap();
        let task = &report["remote"][0]["tasks"][0];
        assert_eq!((&task["worker"], &task["segments"]), (&json!("worker-0"), &json!(8)), "{report} {sql}");
        assert!(task["ran"]["rows_read"].as_u64().unwrap() > 0, "{report} {sql}");
    }
    world.wait_for_nothing().await;
}

/// What travels with a task is bounded; over it, the rows stay, and workers exchange none.
#[tokio::test]
async fn more_rows_in_memory_than_travel_stay() {
    let world = World::new(StageOptions::ALL).await;
    let text = "x".repeat(10_000);
    for part in 0..10 {
        let rows = (0..100).map(|n| json!({"event_message": format!("{part} {n} {text}"), "n": n, "k": n, "t": "m"}));
        world.sources.0.ingest("logs", rows.collect()).await.unwrap();
    }
    let sql = "SELECT event_message, COUNT(*) AS c FROM logs GROUP BY event_message";
    let expected = world.rows(&world.whole, sql).await.unwrap();
    let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
    assert!(rows == expected, "{sql}");
    assert!(world.stages() > 2, "{:?}", world.report());
    let report: Value = serde_json::from_str(&cost.reports()[0]).unwrap();
    assert_eq!((report.get("exchange"), report.get("fell_back")), (None, None), "{report}");
    assert!(report["attempts"][0]["failure"].as_str().unwrap().contains("too many rows in memory"), "{report}");
    assert!(report["remote"][0]["tasks"][0]["ran"]["rows_read"].as_u64().unwrap() > 0, "{report}");
    world.wait_for_nothing().await;
}

/// The small side of a join goes to all workers, and counts in the memory of the statement there.
#[tokio::test]
async fn copies_have_the_memory_of_their_statement() {
    let world = World::new(StageOptions::ALL).await;
    let sql = "SELECT a.k, COUNT(*) AS c, MAX(b.m) AS m FROM logs AS a JOIN (SELECT k, CONCAT(event_message, REPEAT('x', 20000)) AS m FROM logs WHERE n < 300) AS b ON a.k = b.k GROUP BY a.k";
    let expected = world.rows(&world.whole, sql).await.unwrap();
    assert!(world.rows(&world.staged, sql).await.unwrap() == expected, "{sql}");
    assert!(world.stages() > 2, "{:?}", world.report());
    let arguments = Arguments::default();
    let plan = world.staged.plan(sql, Binding::new(&world.sources, &arguments, 0)).unwrap();
    let small = world.staged.run_within(plan, None, 3 << 20).await.unwrap().try_collect::<Vec<_>>().await;
    assert_eq!(small.unwrap_err().code, Code::LimitExceeded);
    world.wait_for_nothing().await;
}

#[tokio::test]
async fn a_failure_of_a_worker_is_that_of_the_statement() {
    let world = World::new(StageOptions::ALL).await;
    for sql in [
        "SELECT k, SUM(DIV(1, n - 700)) AS s FROM logs GROUP BY k",
        "SELECT k, ROW_NUMBER() OVER (PARTITION BY ERROR(t) ORDER BY n) AS r FROM logs",
        "SELECT MAX(c) AS m FROM (SELECT k, DIV(10, COUNT(*) - 49) AS c FROM logs GROUP BY k) AS x",
    ] {
        let expected = world.rows(&world.whole, sql).await.unwrap_err();
        let failure = world.rows(&world.staged, sql).await.unwrap_err();
        assert_eq!((failure.code, &failure.message), (expected.code, &expected.message), "{sql}");
        assert!(world.report().is_remote(), "{:?} {sql}", world.report());
    }
    world.wait_for_nothing().await;
}

#[tokio::test]
async fn statements_that_nobody_reads_any_more_end() {
    let world = World::new(StageOptions::ALL).await;
    for sql in EXCHANGED {
        drop(world.start(&world.staged, sql).await.unwrap());
        let mut rows = world.start(&world.staged, sql).await.unwrap();
        rows.try_next().await.unwrap();
        drop(rows);
    }
    world.wait_for_nothing().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_one_time_do_not_wait_for_each_other() {
    let world = World::new(StageOptions::ALL).await;
    let mut expected = Vec::new();
    for sql in EXCHANGED {
        expected.push(world.rows(&world.whole, sql).await.unwrap());
    }
    for _ in 0..3 {
        let all = EXCHANGED.map(|sql| world.rows(&world.staged, sql));
        let all = tokio::time::timeout(Duration::from_secs(120), futures::future::try_join_all(all));
        assert_eq!(all.await.unwrap().unwrap(), expected);
    }
    world.wait_for_nothing().await;
}

/// A join whose one side has no rows drops the other one unread.
#[tokio::test]
async fn what_is_dropped_unread_holds_nobody_up() {
    let world = World::new(StageOptions::ALL).await;
    let sql = "SELECT COUNT(*) AS c FROM logs AS a JOIN (SELECT event_message FROM logs WHERE n < 0) AS b ON a.event_message = b.event_message";
    let read = tokio::time::timeout(Duration::from_secs(60), world.rows(&world.staged, sql));
    assert_eq!(read.await.unwrap().unwrap(), world.rows(&world.whole, sql).await.unwrap());
    world.wait_for_nothing().await;
}

/// The value of a subquery is there first, and goes to workers as a constant.
#[tokio::test]
async fn workers_compare_with_the_values_of_subqueries() {
    let world = World::new(StageOptions::ALL).await;
    for sql in [
        "SELECT k, COUNT(*) AS c FROM logs WHERE n > (SELECT AVG(n) FROM logs) GROUP BY k",
        "SELECT k, SUM(n) AS s FROM logs GROUP BY k HAVING SUM(n) > (SELECT COUNT(DISTINCT event_message) FROM logs)",
        "SELECT k, COUNT(*) AS c FROM logs WHERE t = (SELECT MAX(t) FROM logs WHERE n < 0) GROUP BY k",
        "SELECT n FROM logs WHERE n > (SELECT AVG(n) + (SELECT MIN(k) FROM logs) FROM logs) ORDER BY n LIMIT 7",
        "SELECT x.k, (SELECT COUNT(DISTINCT t) FROM logs) AS c FROM (SELECT k, COUNT(*) AS m FROM logs GROUP BY k) AS x",
    ] {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
        assert_eq!(rows, expected, "{sql}");
        assert!(world.report().leaves.len() > 1, "{:?} {sql}", world.report());
        assert!(cost.cost().tasks > 3 && cost.cost().moves == 0, "{:?} {sql}", cost.cost());
    }
    let two = "SELECT k FROM logs WHERE n = (SELECT n FROM logs WHERE n < 2)";
    let expected = world.rows(&world.whole, two).await.unwrap_err();
    assert_eq!(world.rows(&world.staged, two).await.unwrap_err().message, expected.message);
    world.wait_for_nothing().await;
}

/// What several operators read.
const SHARED: [&str; 3] = [
    "WITH g AS (SELECT k, COUNT(*) AS c, SUM(n) AS s FROM logs GROUP BY k) SELECT a.k, b.s FROM g AS a JOIN g AS b ON a.k = b.k WHERE a.c > 40 OR b.s > 9",
    "WITH g AS (SELECT t, k, COUNT(*) AS c FROM logs GROUP BY t, k) SELECT t, c FROM g UNION ALL SELECT t, SUM(c) FROM g GROUP BY t",
    "WITH d AS (SELECT DISTINCT k, t FROM logs), g AS (SELECT t, COUNT(*) AS c FROM d GROUP BY t) SELECT d.k, g.c FROM d JOIN g ON d.t = g.t UNION ALL SELECT 0, c FROM g UNION ALL SELECT k, 1 FROM d",
];

/// Workers compute the part for each of those who read it.
#[tokio::test]
async fn parts_that_several_operators_read_are_shared_out() {
    for gone in [0, 1, 3] {
        let world = World::with(StageOptions::ALL, gone).await;
        for sql in SHARED {
            let expected = world.rows(&world.whole, sql).await.unwrap();
            let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
            assert_eq!(rows, expected, "{sql}");
            assert!(world.stages() > 2, "{:?} {sql}", world.report());
            let report: Value = serde_json::from_str(&cost.reports()[0]).unwrap();
            assert_eq!(report.get("fell_back").is_some(), gone == 3, "{report} {sql}");
            assert_eq!(cost.cost().moves > 0, gone > 0, "{:?} {sql}", cost.cost());
        }
        world.wait_for_nothing().await;
    }
}

/// Where workers exchange no rows, a part is computed once, with the rows that workers read.
#[tokio::test]
async fn parts_that_several_operators_read_are_computed_once() {
    for gone in [0, 1, 3] {
        let world = World::with(StageOptions::GATHERED, gone).await;
        for sql in SHARED {
            let expected = world.rows(&world.whole, sql).await.unwrap();
            let (rows, cost) = world.counted(&world.staged, sql).await.unwrap();
            assert_eq!(rows, expected, "{sql}");
            // Each scan for one of its readers only.
            let scans = if sql == SHARED[2] { 2 } else { 1 };
            assert_eq!((world.stages(), world.report().leaves.len()), (0, scans), "{:?} {sql}", world.report());
            // A worker without segments is not asked.
            let is_gone = |worker: &str| (0..gone).any(|number| worker == format!("worker-{number}"));
            let report = world.report();
            let fails = report.leaves.iter().flat_map(|leaf| &leaf.tasks).any(|task| is_gone(&task.worker));
            assert_eq!(cost.cost().moves > 0, fails, "{:?} {sql}", cost.cost());
        }
        world.wait_for_nothing().await;
    }
}

/// A filter that the first run has made would leave out rows of the second.
#[tokio::test]
async fn what_a_failed_run_has_learnt_is_forgotten() {
    let world = World::with(StageOptions::ALL, 1).await;
    for sql in [
        "SELECT n, k FROM logs ORDER BY n LIMIT 3",
        "SELECT a.n, g.c FROM (SELECT k, COUNT(*) AS c FROM logs GROUP BY k) AS g JOIN logs AS a ON g.k = a.k ORDER BY a.n DESC LIMIT 2",
    ] {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        assert_eq!(world.rows(&world.staged, sql).await.unwrap(), expected, "{sql}");
    }
}
