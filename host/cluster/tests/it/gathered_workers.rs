//! What workers promise: failures keep their code and text, nobody waits for what nobody reads, what was held is given
//! back, and the report tells what workers do.

#[path = "cluster/mod.rs"]
mod cluster;
#[path = "promises/mod.rs"]
mod promises;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{One, Rows};
use datafusion::arrow::array::AsArray;
use futures::TryStreamExt;
use promises::Coordinator;
use serde_json::{Value as Json, json};
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_cluster::{StatementReport, Stay};
use tidegate_model::{Arguments, Code, Failure};
use tidegate_sql::{Binding, CostCounter, Engine, EngineOptions, ResultStream, Stop};
use tidegate_store::{Store, StoreOptions};

struct Cluster {
    rows: Rows,
    workers: Arc<LocalStageWorkers>,
    remote: Engine,
    whole: Engine,
    last: Arc<Mutex<StatementReport>>,
}

impl Cluster {
    async fn new(options: StageOptions) -> Self {
        let engine = EngineOptions {
            partitions: 2,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let workers = Arc::new(LocalStageWorkers::new(3, &engine).unwrap());
        let last = Arc::<Mutex<StatementReport>>::default();
        let told = Arc::clone(&last);
        let carrier = StageCarrier::new(Arc::new(Arc::clone(&workers)), options).telling(move |report| {
            *told.lock().unwrap() = report.clone();
        });
        let whole = Engine::new(&engine).unwrap();
        let remote = Engine::new(&engine).unwrap().with_carrier(Arc::new(carrier));
        Self { rows: Rows::new().await, workers, remote, whole, last }
    }

    async fn report(&self, sql: &str) -> StatementReport {
        drop(self.run(&self.remote, sql).await.unwrap());
        self.last.lock().unwrap().clone()
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
        engine.run(self.rows.plan(engine, sql)?, Some(100_000)).await
    }

    fn was_remote(&self) -> bool {
        self.last.lock().unwrap().is_remote()
    }

    async fn idle(&self) {
        cluster::wait(|| self.workers.memory_held() + self.workers.tasks() == 0).await;
    }
}

#[tokio::test]
async fn failures_keep_their_code_and_text() {
    promises::failures_keep_their_code_and_text(&Cluster::new(StageOptions::GATHERED).await).await;
}

#[tokio::test]
async fn what_nobody_reads_ends_and_gives_its_memory_back() {
    promises::what_nobody_reads_ends_and_gives_its_memory_back(&Cluster::new(StageOptions::GATHERED).await).await;
}

#[tokio::test]
async fn a_task_ends_with_the_time_of_its_statement() {
    let cluster = Cluster::new(StageOptions::GATHERED).await;
    let stop = Stop::after(Duration::from_millis(300));
    let sql = "SELECT COUNT(*) AS c FROM t WHERE REGEXP_CONTAINS(event_message, r'r.*7.*t.*z')";
    let late = async {
        let rows = cluster.run(&cluster.remote, sql).await?;
        // A task is started when its rows are asked for: then it has no time.
        std::thread::sleep(Duration::from_millis(400));
        rows.try_collect::<Vec<_>>().await
    };
    let ended = stop.cover(late).await.unwrap_err();
    assert_eq!(ended.code, Code::Timeout, "{ended}");
    assert!(cluster.last.lock().unwrap().is_remote());
    cluster.idle().await;
}

#[tokio::test]
async fn what_workers_read_is_part_of_the_cost() {
    let cluster = Cluster::new(StageOptions::GATHERED).await;
    let mut costs = Vec::new();
    for engine in [&cluster.whole, &cluster.remote] {
        let counter = Arc::<CostCounter>::default();
        let rows = cluster.run(engine, "SELECT SUM(n) AS s FROM t WHERE n >= 0").await.unwrap();
        let _: Vec<_> = rows.counted_in(Arc::clone(&counter)).try_collect().await.unwrap();
        costs.push(counter.cost());
    }
    assert_eq!((costs[0].rows_read, costs[1].rows_read), (4500, 4500));
    assert_eq!(costs[0].bytes_read, costs[1].bytes_read);
    assert_eq!((costs[0].statements, costs[1].statements), (1, 1));
}

#[tokio::test]
async fn the_cost_of_a_statement_says_what_each_task_did() {
    let cluster = Cluster::new(StageOptions::GATHERED).await;
    let counter = Arc::<CostCounter>::default();
    let sql = ["SELECT SUM(n) AS s FROM t WHERE n >= 0", "SELECT id FROM t WHERE n < 100", "SELECT 1 AS one"];
    for sql in sql {
        let rows = cluster.run(&cluster.remote, sql).await.unwrap();
        let _: Vec<_> = rows.counted_in(Arc::clone(&counter)).try_collect().await.unwrap();
    }
    let reports: Vec<Json> = counter.reports().iter().map(|report| serde_json::from_str(report).unwrap()).collect();
    let tasks = |statement: usize| reports[statement]["remote"][0]["tasks"].as_array().unwrap();
    assert_eq!((reports.len(), &reports[2]["local"][0]["reason"]), (3, &json!("no_segments")));
    assert_eq!(counter.cost().tasks as usize, tasks(0).len() + tasks(1).len());
    assert_eq!(counter.cost().moves, 0);
    let sum = |statement: usize, field: &str| {
        tasks(statement).iter().map(|task| task["ran"][field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum(0, "rows_read"), sum(1, "rows_sent")), (4000, 100));
    assert!(sum(0, "bytes_read") > 0 && sum(0, "memory") > 0 && sum(0, "rows_sent") <= 6, "{}", reports[0]);
    assert!(tasks(0).iter().all(|task| task["ran"]["milliseconds"].as_f64().unwrap() > 0.0));
    // What was not read has no figures.
    let counter = Arc::<CostCounter>::default();
    let rows = cluster.run(&cluster.remote, sql[0]).await.unwrap().counted_in(Arc::clone(&counter));
    drop(rows);
    let report: Json = serde_json::from_str(&counter.reports()[0]).unwrap();
    assert_eq!(report["remote"][0]["tasks"][0].get("ran"), None, "{report}");
    assert_eq!((counter.cost().statements, counter.cost().tasks), (1, 0));
}

#[tokio::test]
async fn the_report_says_what_workers_do() {
    let cluster = Cluster::new(StageOptions::GATHERED).await;
    let report = cluster.report("SELECT MOD(n, 7) AS k, COUNT(*) AS c FROM t WHERE n > 9 GROUP BY k").await;
    let [leaf] = report.leaves.as_slice() else { panic!("{report}") };
    assert_eq!((leaf.source.as_str(), report.stays.as_slice()), ("t", &[] as &[Stay]));
    assert_eq!(leaf.operators.first().map(String::as_str), Some("AggregateExec"));
    assert_eq!(leaf.operators.last().map(String::as_str), Some("DataSourceExec"));
    assert_eq!(leaf.tasks.iter().map(|task| task.segments).sum::<usize>(), 8);
    assert_eq!(leaf.tasks.iter().map(|task| task.rows).sum::<u64>(), 4000);
    assert!(leaf.tasks.iter().all(|task| task.bytes > 0 && task.partitions > 0));
    let text = report.to_string();
    assert!(text.contains("source `t`: workers run AggregateExec over") && text.contains("worker-"), "{text}");
    let shown = serde_json::to_value(&report).unwrap();
    assert_eq!(shown["remote"][0]["tasks"].as_array().unwrap().len(), leaf.tasks.len());
    // Workers read both sides of a join, each by itself.
    let join =
        "SELECT a.id FROM (SELECT id FROM t WHERE n > 5) AS a JOIN (SELECT id FROM t WHERE n < 90) AS b ON a.id = b.id";
    assert_eq!(cluster.report(join).await.leaves.len(), 2);
}

#[tokio::test]
async fn the_report_says_why_a_statement_stays_whole() {
    let cluster =
        Cluster::new(StageOptions { least_bytes: 1, least_rows: 3000, always: false, ..StageOptions::GATHERED }).await;
    for (sql, reason) in [
        ("SELECT 1 AS one", "no_segments"),
        ("SELECT id FROM t WHERE timestamp > TIMESTAMP_SECONDS(1763604100) AND n > 0", "no_segments"),
        ("SELECT COUNT(n) AS c FROM t WHERE timestamp > TIMESTAMP_SECONDS(1763603100) AND n > 0", "little"),
        ("SELECT id FROM t LIMIT 10", "early_limit"),
        ("SELECT id, timestamp FROM t ORDER BY timestamp DESC LIMIT 10", "little"),
        ("SELECT a.id, b.n FROM t AS a JOIN t AS b ON a.id = b.id ORDER BY b.n LIMIT 10", "nothing_to_do"),
    ] {
        let report = cluster.report(sql).await;
        assert!(report.stays.iter().any(|stay| stay.name() == reason), "{sql}\n{report}");
        let shown = serde_json::to_value(&report).unwrap();
        assert!(shown["local"].as_array().unwrap().iter().any(|stay| stay["reason"] == reason));
    }
    let remote = [
        "SELECT COUNT(n) AS c FROM t",
        "SELECT id FROM t WHERE n > 4 ORDER BY timestamp DESC LIMIT 10",
        "SELECT id FROM t WHERE n > (SELECT AVG(n) FROM t) ORDER BY n LIMIT 10",
    ];
    for sql in remote {
        assert!(cluster.report(sql).await.is_remote(), "{sql}\n{}", cluster.report(sql).await);
    }
}

/// The order of one partition is that of the answer, though the column is not handed on and nothing above asks for it.
#[tokio::test]
async fn an_order_that_nothing_asks_for_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() };
    let store = Store::open(&folder.path().join("data"), settings).unwrap();
    store.create_source("t").unwrap();
    for part in 0..6_i64 {
        let rows = (0..4).map(|n| {
            let number = part * 4 + n;
            json!({"id": format!("{number:05}"), "timestamp": 1_763_600_000_000_000 + number * 1_000_000, "n": number})
        });
        store.ingest("t", rows.collect()).await.unwrap();
        store.flush().await.unwrap();
    }
    let (sources, arguments) = (One(store.table("t").unwrap()), Arguments::new());
    for partitions in [1, 2] {
        let engine = EngineOptions {
            partitions,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let carrier =
            StageCarrier::new(Arc::new(Arc::new(LocalStageWorkers::new(3, &engine).unwrap())), StageOptions::GATHERED);
        let engine = Engine::new(&engine).unwrap().with_carrier(Arc::new(carrier));
        for condition in ["true", "MOD(n, 2) = 1"] {
            let sql = format!(
                "WITH newest AS (SELECT id, timestamp FROM t WHERE {condition} ORDER BY timestamp DESC) SELECT id FROM newest LIMIT 3"
            );
            let plan = engine.plan(&sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000)).unwrap();
            let rows: Vec<_> = engine.run(plan, Some(100)).await.unwrap().try_collect().await.unwrap();
            let ids: Vec<String> = rows
                .iter()
                .flat_map(|batch| {
                    batch.column(0).as_string_view().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
                })
                .collect();
            let expected = if condition == "true" { ["00023", "00022", "00021"] } else { ["00023", "00021", "00019"] };
            assert_eq!(ids, expected, "{sql} with {partitions} partitions");
        }
    }
}
