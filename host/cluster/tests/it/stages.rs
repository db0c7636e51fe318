//! Statements in stages: what runs on workers, what they fail with, and that nothing of them is left.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::TryStreamExt;
use serde_json::json;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions, StageReport};
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Binding, Engine, EngineOptions, ResultStream, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

struct Stored(Arc<Store>);

impl Sources for Stored {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        vec!["logs".to_owned()]
    }
}

/// Segments and rows in memory, and an engine with three workers.
struct World {
    sources: Stored,
    workers: Arc<LocalStageWorkers>,
    whole: Engine,
    staged: Engine,
    last: Arc<Mutex<Option<StageReport>>>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(options: StageOptions) -> Self {
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
        let workers = Arc::new(LocalStageWorkers::new(3, &engines).unwrap());
        let last = Arc::<Mutex<Option<StageReport>>>::default();
        let told = Arc::clone(&last);
        let carrier = StageCarrier::new(Arc::new(Arc::clone(&workers)), options, move |report| {
            *told.lock().unwrap() = Some(report.clone());
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
        let batches: Vec<RecordBatch> = self.start(engine, sql).await?.try_collect().await?;
        let text = pretty_format_batches(&batches).unwrap().to_string();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
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

    fn report(&self) -> StageReport {
        self.last.lock().unwrap().clone().unwrap()
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
        let report = world.report();
        assert!(matches!(report, StageReport::Stages(stages) if stages > 2), "{report:?} {sql}");
    }
    world.wait_for_nothing().await;
}

#[tokio::test]
async fn few_rows_are_not_exchanged() {
    let world = World::new(StageOptions { least_exchanged_rows: 1_000_000, copies: true }).await;
    let mut whole = 0;
    for sql in EXCHANGED {
        let expected = world.rows(&world.whole, sql).await.unwrap();
        assert_eq!(world.rows(&world.staged, sql).await.unwrap(), expected, "{sql}");
        // Each scan is a stage, and what is above them runs here.
        match world.report() {
            StageReport::Stages(stages) => assert!(stages <= 3, "{stages} {sql}"),
            report => {
                eprintln!("{report:?} {sql}");
                whole += 1;
            }
        }
    }
    assert!(whole < 3);
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
        assert!(matches!(world.report(), StageReport::Stages(_)), "{:?} {sql}", world.report());
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

/// The value of a subquery is on one machine, and so are those who compare with it.
#[tokio::test]
async fn what_needs_the_value_of_a_subquery_runs_where_that_is() {
    let world = World::new(StageOptions::ALL).await;
    let sql = "SELECT k, COUNT(*) AS c FROM logs WHERE n > (SELECT AVG(n) FROM logs) GROUP BY k";
    let expected = world.rows(&world.whole, sql).await.unwrap();
    assert_eq!(world.rows(&world.staged, sql).await.unwrap(), expected);
    assert_eq!(world.report(), StageReport::Stages(2), "the average is of workers");
    let two = "SELECT k FROM logs WHERE n = (SELECT n FROM logs WHERE n < 2)";
    let expected = world.rows(&world.whole, two).await.unwrap_err();
    assert_eq!(world.rows(&world.staged, two).await.unwrap_err().message, expected.message);
}
