//! Statements whose workers fail: they run elsewhere, or end with an error that says so, and hold nothing afterwards.

#[path = "cluster/mod.rs"]
mod cluster;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::{ROWS, Rows};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value as Json;
use tidegate_cluster::{
    CutCarrier, CutOptions, DamagedCopy, Failover, LocalWorkers, Task, TaskBounds, TaskRun, WorkerFailure, Workers,
};
use tidegate_functions::context::StatementMemory;
use tidegate_model::{Code, Failure};
use tidegate_sql::{CostCounter, Engine, EngineOptions};

const COUNT: &str = "SELECT COUNT(*) AS c, SUM(n) AS s FROM t WHERE n >= 0";
const SORTED: &str = "SELECT * FROM t WHERE n >= 0 ORDER BY event_message";

/// How the workers fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// They take no task.
    Gone,
    /// No row ever comes, and no end.
    Hangs,
    /// They fail after the first batch of each partition.
    BreaksOff,
    /// The same, because a segment is damaged.
    BreaksOffDamaged,
}

#[derive(Debug)]
struct Faulty {
    inner: Arc<LocalWorkers>,
    fault: Mutex<Fault>,
    tasks: AtomicUsize,
}

impl Workers for Faulty {
    fn names(&self) -> Vec<Arc<str>> {
        self.inner.names()
    }

    fn run(&self, task: &Task, bounds: &TaskBounds, home: &Arc<StatementMemory>) -> Result<TaskRun, WorkerFailure> {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let fault = *self.fault.lock().unwrap();
        let gone = || WorkerFailure::Gone("by the test".to_owned());
        if fault == Fault::Gone {
            return Err(gone());
        }
        let mut run = self.inner.run(task, bounds, home)?;
        let partitions = std::mem::take(&mut run.partitions).into_iter().map(|rows| match fault {
            Fault::Hangs => {
                let never = futures::stream::pending();
                // The rows are kept, and so is what the task holds.
                never
                    .map(move |never| {
                        let _ = &rows;
                        never
                    })
                    .boxed()
            }
            Fault::BreaksOff => rows.take(1).chain(futures::stream::iter([Err(gone())])).boxed(),
            Fault::BreaksOffDamaged => {
                let segments = task.plan.segments.iter().map(|(_, segment)| segment.id.to_string());
                let failure =
                    Failure::new(Code::DataDamaged, "a copy is damaged").about(&*segments.take(1).collect::<String>());
                let copy = Box::new(DamagedCopy { failure, is_shared: true });
                rows.take(1).chain(futures::stream::iter([Err(WorkerFailure::Damaged(copy))])).boxed()
            }
            Fault::None | Fault::Gone => rows,
        });
        run.partitions = partitions.collect();
        Ok(run)
    }
}

struct Test {
    rows: Rows,
    faulty: Arc<Faulty>,
    engine: Engine,
}

impl Test {
    async fn new() -> Self {
        let options = EngineOptions {
            partitions: 2,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let inner = Arc::new(LocalWorkers::new(3, &options).unwrap());
        let faulty = Arc::new(Faulty { inner, fault: Mutex::new(Fault::None), tasks: AtomicUsize::new(0) });
        let engine = Engine::new(&options).unwrap();
        let failover = Failover::new(Arc::clone(&faulty) as _, &engine, Arc::default());
        let carrier = CutCarrier::new(Arc::new(failover), CutOptions::ALL, |_| {});
        Self { rows: Rows::new().await, faulty, engine: engine.with_carrier(Arc::new(carrier)) }
    }

    fn with(&self, fault: Fault) {
        *self.faulty.fault.lock().unwrap() = fault;
    }

    async fn count(&self, sql: &str, memory: usize) -> Result<usize, Failure> {
        let rows = self.engine.run_within(self.rows.plan(&self.engine, sql)?, None, memory).await?;
        let batches: Vec<_> = rows.try_collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    async fn idle(&self) {
        cluster::wait(|| self.faulty.inner.memory_held() + self.engine.memory_held() == 0).await;
    }
}

#[tokio::test]
async fn without_workers_statements_run_here() {
    let test = Test::new().await;
    for (sql, rows) in [(COUNT, 1), (SORTED, ROWS)] {
        test.with(Fault::None);
        assert_eq!(test.count(sql, 1 << 29).await.unwrap(), rows);
        let tasks = test.faulty.tasks.swap(0, Ordering::Relaxed);
        test.with(Fault::Gone);
        assert_eq!(test.count(sql, 1 << 29).await.unwrap(), rows);
        assert_eq!(test.faulty.tasks.swap(0, Ordering::Relaxed), 2 * tasks, "each on two workers");
        test.idle().await;
    }
}

#[tokio::test]
async fn the_report_says_where_a_task_went() {
    let test = Test::new().await;
    test.with(Fault::Gone);
    let counter = Arc::<CostCounter>::default();
    let rows = test.engine.run(test.rows.plan(&test.engine, COUNT).unwrap(), None).await.unwrap();
    let _: Vec<_> = rows.counted_in(Arc::clone(&counter)).try_collect().await.unwrap();
    let report: Json = serde_json::from_str(&counter.reports()[0]).unwrap();
    let tasks = report["remote"][0]["tasks"].as_array().unwrap();
    for task in tasks {
        let attempts = task["ran"]["attempts"].as_array().unwrap();
        let workers: Vec<_> = attempts.iter().map(|attempt| &attempt["worker"]).collect();
        assert!(workers.len() == 3 && *workers[0] == task["worker"] && workers[2].is_null(), "{task}");
        assert!(
            attempts[0]["failure"].as_str().unwrap().contains("by the test") && attempts[2].get("failure").is_none()
        );
        assert!(task["ran"]["rows_read"].as_u64().unwrap() > 0);
    }
    assert_eq!((counter.cost().tasks, counter.cost().moves), (tasks.len() as u64, 2 * tasks.len() as u64));
    assert_eq!(counter.cost().rows_read, ROWS as u64);
}

/// What runs here counts in the memory of its statement.
#[tokio::test]
async fn what_does_not_fit_here_is_told() {
    let test = Test::new().await;
    test.with(Fault::Gone);
    let failure = test.count(SORTED, 200 << 10).await.unwrap_err();
    assert_eq!((failure.code, failure.retry_after), (Code::Overloaded, Some(1)), "{failure}");
    assert!(failure.message.contains("workers") && failure.message.contains("no memory left"), "{failure}");
    assert_eq!(test.count(COUNT, 8 << 20).await.unwrap(), 1);
    test.idle().await;
}

#[tokio::test]
async fn after_its_first_rows_a_task_that_breaks_off_ends_the_statement() {
    let test = Test::new().await;
    test.with(Fault::BreaksOff);
    let failure = test.count(SORTED, 1 << 29).await.unwrap_err();
    assert_eq!((failure.code, failure.code.status()), (Code::DataUnavailable, 503), "{failure}");
    test.idle().await;
}

/// The copy is not to blame on the worker, and the next statement does not ask any for it.
#[tokio::test]
async fn after_its_first_rows_a_task_that_meets_damage_says_so_once() {
    let test = Test::new().await;
    test.with(Fault::BreaksOffDamaged);
    let mut failed = 0;
    loop {
        test.faulty.tasks.store(0, Ordering::Relaxed);
        match test.count(SORTED, 1 << 29).await {
            Ok(rows) => {
                assert_eq!((rows, test.faulty.tasks.load(Ordering::Relaxed)), (ROWS, 0));
                break;
            }
            Err(failure) => {
                assert_eq!((failure.code, failure.retry_after), (Code::DataUnavailable, Some(1)), "{failure}");
                assert!(failure.message.starts_with("a copy is damaged"), "{failure}");
            }
        }
        failed += 1;
        // Each failure tells of the copy that one task met, of three at most.
        assert!(failed <= 3, "what is damaged is asked for again");
    }
    assert!(failed > 0);
    test.idle().await;
}

/// Who ends a statement is whoever waits for it: the server after the time of the request.
#[tokio::test]
async fn workers_that_hang_are_left_with_their_statement() {
    let test = Test::new().await;
    test.with(Fault::Hangs);
    for sql in [COUNT, SORTED] {
        let late = tokio::time::timeout(Duration::from_millis(200), test.count(sql, 1 << 29)).await;
        assert!(late.is_err());
        test.idle().await;
    }
}
