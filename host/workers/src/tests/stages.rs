//! Statements in stages over the network: workers read each other's rows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::{StreamExt, TryStreamExt};
use tidegate_cluster::StatementReport;
use tidegate_cluster::stages::{StageCarrier, StageOptions};
use tidegate_model::Failure;
use tidegate_sql::{CostCounter, Engine, ResultStream};

use super::promises::Coordinator;
use super::support::{Cluster, Served, engine_options, worker_options};

/// Each has an exchange between workers; the third part of the rows is in memory.
const EXCHANGED: [&str; 7] = [
    "SELECT MOD(n, 97) AS k, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY k",
    "SELECT DISTINCT id FROM t",
    "SELECT COUNT(DISTINCT event_message) AS c FROM t",
    "SELECT n, ROW_NUMBER() OVER (PARTITION BY MOD(n, 7) ORDER BY n) AS r FROM t",
    "SELECT a.n, b.id FROM t AS a JOIN (SELECT id, n FROM t WHERE n > 1000) AS b ON a.id = b.id",
    "SELECT a.id FROM t AS a WHERE NOT EXISTS (SELECT 1 FROM t AS b WHERE b.id = a.id AND MOD(b.n, 3) = 0)",
    "SELECT a.n FROM t AS a JOIN (SELECT id FROM t WHERE n < 0) AS b ON a.id = b.id",
];

fn staged(cluster: &Cluster) -> (Engine, Arc<Mutex<StatementReport>>) {
    let last = Arc::<Mutex<StatementReport>>::default();
    let told = Arc::clone(&last);
    let carrier = StageCarrier::new(Arc::clone(&cluster.workers) as _, StageOptions::ALL).telling(move |report| {
        *told.lock().unwrap() = report.clone();
    });
    (Engine::new(&engine_options(2)).unwrap().with_carrier(Arc::new(carrier)), last)
}

async fn rows(cluster: &Cluster, engine: &Engine, sql: &str) -> Result<Vec<String>, Failure> {
    sorted(cluster.run(engine, sql).await?).await
}

async fn sorted(stream: ResultStream) -> Result<Vec<String>, Failure> {
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_exchange_rows_over_the_network() {
    let cluster = Cluster::new().await;
    let (staged, last) = staged(&cluster);
    for sql in EXCHANGED {
        let expected = rows(&cluster, &cluster.whole, sql).await.unwrap();
        let cost = Arc::<CostCounter>::default();
        let stream = cluster.run(&staged, sql).await.unwrap().counted_in(Arc::clone(&cost));
        assert_eq!(sorted(stream).await.unwrap(), expected, "{sql}");
        // Also of a statement that is over before a worker tells of it by itself.
        let cost = cost.cost();
        assert!(cost.rows_read > 1000 && cost.bytes_read > 0 && cost.tasks >= 3, "{cost:?} {sql}");
        let report = std::mem::take(&mut *last.lock().unwrap());
        assert!(report.exchange.as_ref().is_some_and(|exchange| exchange.stages > 2), "{report:?} {sql}");
    }
    cluster.idle().await;
    assert_eq!((staged.memory_held(), cluster.whole.memory_held()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_any_stage_keeps_its_code_and_text() {
    let cluster = Cluster::new().await;
    let (staged, _) = staged(&cluster);
    for sql in [
        "SELECT MOD(n, 9) AS k, SUM(DIV(1, n - 700)) AS s FROM t GROUP BY k",
        "SELECT MAX(c) AS m FROM (SELECT MOD(n, 9) AS k, DIV(10, COUNT(*) - 500) AS c FROM t GROUP BY k) AS x",
        "SELECT n, ROW_NUMBER() OVER (PARTITION BY IF(n = 700, ERROR('no'), id) ORDER BY n) AS r FROM t",
    ] {
        let expected = rows(&cluster, &cluster.whole, sql).await.unwrap_err();
        let failure = rows(&cluster, &staged, sql).await.unwrap_err();
        assert_eq!((failure.code, &failure.message), (expected.code, &expected.message), "{sql}");
    }
    cluster.idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_reads_ends_on_all_workers() {
    let cluster = Cluster::large().await;
    let (staged, _) = staged(&cluster);
    for sql in EXCHANGED {
        drop(cluster.run(&staged, sql).await.unwrap());
        let mut begun = cluster.run(&staged, sql).await.unwrap();
        let _ = begun.next().await;
        drop(begun);
    }
    cluster.idle().await;
    assert_eq!(staged.memory_held(), 0);
}

/// The statements of one time each need all workers.
#[tokio::test(flavor = "multi_thread")]
async fn statements_of_one_time_do_not_wait_for_each_other() {
    let cluster = Cluster::new().await;
    let (staged, _) = staged(&cluster);
    let mut expected = Vec::new();
    for sql in EXCHANGED {
        expected.push(rows(&cluster, &cluster.whole, sql).await.unwrap());
    }
    let all = EXCHANGED.map(|sql| rows(&cluster, &staged, sql));
    let all = tokio::time::timeout(Duration::from_secs(60), futures::future::try_join_all(all)).await;
    assert_eq!(all.unwrap().unwrap(), expected);
    cluster.idle().await;
}

/// A statement gives all of its rows, or an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_makes_no_short_answer() {
    let mut cluster = Cluster::with(8, 2, 200, &worker_options()).await;
    let (staged, _) = staged(&cluster);
    let sql = EXCHANGED[4];
    let expected = rows(&cluster, &cluster.whole, sql).await.unwrap();
    for wait in [0, 2, 5, 10, 20, 40] {
        let address = cluster.served[0].address;
        let killed = cluster.served.swap_remove(0);
        let asked = rows(&cluster, &staged, sql);
        let killing = async {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            killed.kill().await;
        };
        let (got, ()) = tokio::join!(asked, killing);
        match got {
            Ok(got) => assert_eq!(got, expected),
            Err(failure) => assert_eq!(failure.code.status(), 503, "{failure}"),
        }
        cluster.served.push(Served::start(cluster.folder.path(), &worker_options(), address).await);
        cluster.usable(3).await;
    }
    cluster.idle().await;
}

/// Nobody has learnt anything of it: it runs again without the worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_before_the_first_row_costs_no_answer() {
    let mut cluster = Cluster::new().await;
    let (staged, _) = staged(&cluster);
    for sql in EXCHANGED {
        let expected = rows(&cluster, &cluster.whole, sql).await.unwrap();
        let address = cluster.served[0].address;
        cluster.served.swap_remove(0).kill().await;
        assert_eq!(rows(&cluster, &staged, sql).await.unwrap(), expected, "{sql}");
        cluster.served.push(Served::start(cluster.folder.path(), &worker_options(), address).await);
        cluster.usable(3).await;
    }
    cluster.idle().await;
    assert_eq!((staged.memory_held(), cluster.whole.memory_held()), (0, 0));
}
