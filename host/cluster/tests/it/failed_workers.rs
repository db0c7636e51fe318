//! Statements whose workers fail: they run elsewhere, or end with an error that says so, and hold nothing afterwards.

#[path = "cluster/mod.rs"]
mod cluster;
#[path = "faulty/mod.rs"]
mod faulty;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cluster::ROWS;
use faulty::{Blame, Faults, Faulty};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value as Json;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_cluster::{DamagedCopy, WorkerFailure};
use tidegate_model::{Code, Failure};
use tidegate_sql::{CostCounter, Engine, EngineOptions};

const COUNT: &str = "SELECT COUNT(*) AS c, SUM(n) AS s FROM t WHERE n >= 0";
const SORTED: &str = "SELECT * FROM t WHERE n >= 0 ORDER BY event_message";
/// Its rows come as they are read.
const PLAIN: &str = "SELECT * FROM t WHERE n >= 0";

/// How the workers fail.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    None,
    /// They take no task.
    Gone,
    /// One, the first that is asked, takes no task, because it has no room.
    OneBusy,
    /// No row ever comes, and no end.
    Hangs,
    /// They fail before the first batch of each partition.
    Breaks,
    /// They fail after it.
    BreaksOff,
    /// Before it, because a segment is damaged, of which all have a copy.
    Damaged,
}

#[derive(Debug)]
struct Tested {
    fault: Mutex<Fault>,
    tasks: AtomicUsize,
    /// A segment that some task reads.
    segment: Mutex<String>,
    busy: OnceLock<String>,
}

impl Tested {
    fn fault(&self) -> Fault {
        self.fault.lock().unwrap().clone()
    }
}

fn gone() -> WorkerFailure {
    WorkerFailure::Gone("by the test".to_owned())
}

impl Faults for Tested {
    fn refuses(&self, worker: &str, segments: &[String]) -> Option<WorkerFailure> {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        self.segment.lock().unwrap().clone_from(&segments[0]);
        match self.fault() {
            Fault::Gone => Some(gone()),
            Fault::OneBusy if self.busy.get_or_init(|| worker.to_owned()) == worker => {
                Some(WorkerFailure::Busy("by the test".to_owned()))
            }
            _ => None,
        }
    }

    fn rows(&self, _: &str, rows: faulty::Rows, blame: Blame) -> faulty::Rows {
        match self.fault() {
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
            Fault::Breaks => futures::stream::once(async move { Err(blame(gone())) }).boxed(),
            Fault::BreaksOff => rows.take(1).chain(futures::stream::once(async move { Err(blame(gone())) })).boxed(),
            Fault::Damaged => {
                let segment = self.segment.lock().unwrap().clone();
                let failure = Failure::new(Code::DataDamaged, "a copy is damaged").about(&*segment);
                let copy = WorkerFailure::Damaged(Box::new(DamagedCopy { failure, is_shared: true }));
                futures::stream::once(async move { Err(blame(copy)) }).boxed()
            }
            Fault::None | Fault::Gone | Fault::OneBusy => rows,
        }
    }
}

struct Test {
    rows: cluster::Rows,
    inner: Arc<LocalStageWorkers>,
    faults: Arc<Tested>,
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
        let inner = Arc::new(LocalStageWorkers::new(3, &options).unwrap());
        let faults = Arc::new(Tested {
            fault: Mutex::new(Fault::None),
            tasks: AtomicUsize::new(0),
            segment: Mutex::default(),
            busy: OnceLock::new(),
        });
        let workers = Faulty { inner: Arc::clone(&inner), faults: Arc::clone(&faults) };
        let carrier = StageCarrier::new(Arc::new(workers), StageOptions::GATHERED);
        let engine = Engine::new(&options).unwrap().with_carrier(Arc::new(carrier));
        Self { rows: cluster::Rows::new().await, inner, faults, engine }
    }

    fn with(&self, fault: Fault) {
        *self.faults.fault.lock().unwrap() = fault;
    }

    /// How many tasks were sent since this was asked last.
    fn tasks(&self) -> usize {
        self.faults.tasks.swap(0, Ordering::Relaxed)
    }

    async fn count(&self, sql: &str, memory: usize) -> Result<usize, Failure> {
        let rows = self.engine.run_within(self.rows.plan(&self.engine, sql)?, None, memory).await?;
        let batches: Vec<_> = rows.try_collect().await?;
        Ok(batches.iter().map(|batch| batch.num_rows()).sum())
    }

    /// What a statement has cost, and what is told of it.
    async fn told(&self, sql: &str) -> (Json, Arc<CostCounter>) {
        let counter = Arc::<CostCounter>::default();
        let rows = self.engine.run(self.rows.plan(&self.engine, sql).unwrap(), None).await.unwrap();
        let _: Vec<_> = rows.counted_in(Arc::clone(&counter)).try_collect().await.unwrap();
        (serde_json::from_str(&counter.reports()[0]).unwrap(), counter)
    }

    async fn idle(&self) {
        cluster::wait(|| self.inner.tasks() + self.inner.memory_held() + self.engine.memory_held() == 0).await;
    }
}

#[tokio::test]
async fn without_workers_statements_run_here() {
    let test = Test::new().await;
    for (sql, rows) in [(COUNT, 1), (SORTED, ROWS), (PLAIN, ROWS)] {
        for fault in [Fault::None, Fault::Gone, Fault::OneBusy, Fault::Breaks] {
            test.with(fault.clone());
            // What this machine has in memory is handed on before a worker has a row.
            if fault == Fault::Breaks && sql == PLAIN {
                continue;
            }
            assert_eq!(test.count(sql, 1 << 29).await.unwrap(), rows, "{fault:?}: {sql}");
            test.idle().await;
        }
    }
}

#[tokio::test]
async fn a_worker_without_room_is_left_out() {
    let test = Test::new().await;
    test.with(Fault::OneBusy);
    let (report, counter) = test.told(COUNT).await;
    let busy = test.faults.busy.get().unwrap();
    assert_eq!((report["attempts"][0]["worker"].as_str(), report.get("fell_back")), (Some(&**busy), None), "{report}");
    let tasks = report["remote"][0]["tasks"].as_array().unwrap();
    assert!(!tasks.is_empty() && tasks.iter().all(|task| task["worker"] != **busy), "{report}");
    assert_eq!(counter.cost().moves, 1);
    assert!(counter.cost().rows_read >= ROWS as u64, "{:?}", counter.cost());
    test.idle().await;
}

#[tokio::test]
async fn the_report_says_that_a_statement_ran_here_at_last() {
    let test = Test::new().await;
    test.with(Fault::Breaks);
    let (report, counter) = test.told(COUNT).await;
    let attempts = report["attempts"].as_array().unwrap();
    // More than one may have failed at once.
    assert!((1..=2).contains(&attempts.len()) && report["fell_back"] == true, "{report}");
    for attempt in attempts {
        assert!(attempt["failure"].as_str().unwrap().contains("by the test"), "{report}");
        assert!(attempt["worker"].as_str().unwrap().starts_with("worker-"), "{report}");
    }
    assert_eq!(counter.cost().moves, attempts.len() as u64);
    assert!(counter.cost().rows_read >= ROWS as u64, "{:?}", counter.cost());
    test.idle().await;
}

/// What runs here counts in the memory of its statement.
#[tokio::test]
async fn what_does_not_fit_here_is_told() {
    let test = Test::new().await;
    test.with(Fault::Gone);
    let mut told = 0;
    for memory in [200, 400, 600, 800, 1000, 1200] {
        match test.count(SORTED, memory << 10).await {
            Ok(rows) => assert_eq!(rows, ROWS),
            Err(failure) if failure.code == Code::Overloaded => {
                assert_eq!(failure.retry_after, Some(1), "{failure}");
                assert!(failure.message.contains("workers") && failure.message.contains("no memory left"), "{failure}");
                told += 1;
            }
            // What stays here in any case is too much.
            Err(failure) => assert_eq!(failure.code, Code::LimitExceeded, "{failure}"),
        }
        test.idle().await;
    }
    assert!(told > 0);
    assert_eq!(test.count(COUNT, 8 << 20).await.unwrap(), 1);
    test.idle().await;
}

#[tokio::test]
async fn after_its_first_rows_a_worker_that_breaks_off_ends_the_statement() {
    let test = Test::new().await;
    test.with(Fault::BreaksOff);
    let failure = test.count(PLAIN, 1 << 29).await.unwrap_err();
    assert_eq!((failure.code, failure.code.status()), (Code::DataUnavailable, 503), "{failure}");
    test.idle().await;
    // Of a sort, nobody has learnt anything yet.
    assert_eq!(test.count(SORTED, 1 << 29).await.unwrap(), ROWS);
    test.idle().await;
}

/// The copy is not to blame on the worker, and the next statement does not ask any for it.
#[tokio::test]
async fn a_damaged_copy_is_asked_for_once() {
    let test = Test::new().await;
    test.with(Fault::Damaged);
    assert_eq!(test.count(SORTED, 1 << 29).await.unwrap(), ROWS);
    assert!(test.tasks() > 0);
    test.with(Fault::None);
    let (report, counter) = test.told(SORTED).await;
    assert_eq!((test.tasks(), counter.cost().moves), (0, 0), "{report}");
    assert_eq!(report["local"][0]["reason"], "damaged", "{report}");
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
