//! An engine whose statements run on three workers in this process that fail at random: before they take a task, before its
//! first row, after some rows.

#[path = "../faulty/mod.rs"]
mod faulty;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use faulty::{Blame, Faults, Faulty, Rows};
use futures::{Stream, StreamExt};
use tidegate_cluster::WorkerFailure;
use tidegate_cluster::stages::{LocalStageWorkers, StageCarrier, StageOptions};
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, EngineOptions};

const WORKERS: usize = 3;

/// What happened in the tests of the module that has this one.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) remote: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) failed_before_rows: AtomicUsize,
    pub(crate) failed_after_rows: AtomicUsize,
    pub(crate) excused: AtomicUsize,
    /// Partitions of tasks that are read now.
    pub(crate) open: AtomicUsize,
}

pub(crate) static COUNTS: Counts = Counts {
    remote: AtomicUsize::new(0),
    refused: AtomicUsize::new(0),
    failed_before_rows: AtomicUsize::new(0),
    failed_after_rows: AtomicUsize::new(0),
    excused: AtomicUsize::new(0),
    open: AtomicUsize::new(0),
};

/// The engines and workers of all worlds.
static ALL: Mutex<Vec<(Engine, Arc<LocalStageWorkers>)>> = Mutex::new(Vec::new());

fn count(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn counted(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::Relaxed)
}

/// The failures that the caller of a statement may get because workers fail.
pub(crate) fn is_excused(failure: &Failure) -> bool {
    let is = matches!(failure.code, Code::DataUnavailable | Code::Overloaded)
        && failure.message.contains("a worker that reads a part of the data");
    if is {
        count(&COUNTS.excused);
    }
    is
}

/// Waits until nothing runs and nothing is held.
pub(crate) fn wait_until_idle() {
    let began = Instant::now();
    let held = || {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(engine, workers)| engine.memory_held() + workers.memory_held() + workers.tasks())
            .sum::<usize>()
    };
    while held() > 0 || counted(&COUNTS.open) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "{} bytes, {:?}", held(), COUNTS);
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    let inner = Arc::new(LocalStageWorkers::new(WORKERS, options).unwrap());
    let engine = Engine::new(options).unwrap();
    let faults = Arc::new(AtRandom(Mutex::new(options.partitions as u64)));
    let workers = Faulty { inner: Arc::clone(&inner), faults };
    let carrier = StageCarrier::new(Arc::new(workers), StageOptions::GATHERED).telling(|report| {
        if report.is_remote() {
            count(&COUNTS.remote);
        }
    });
    let engine = engine.with_carrier(Arc::new(carrier));
    ALL.lock().unwrap_or_else(PoisonError::into_inner).push((engine.clone(), inner));
    engine
}

#[derive(Debug)]
struct AtRandom(Mutex<u64>);

impl AtRandom {
    fn below(&self, bound: u64) -> u64 {
        let mut seed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % bound
    }

    fn failure(&self) -> WorkerFailure {
        let why = "on purpose".to_owned();
        match self.below(3) {
            0 => WorkerFailure::Gone(why),
            1 => WorkerFailure::Busy(why),
            _ => WorkerFailure::Nonsense(why),
        }
    }
}

impl Faults for AtRandom {
    fn refuses(&self, _: &str, _: &[String]) -> Option<WorkerFailure> {
        (self.below(8) == 0).then(|| {
            count(&COUNTS.refused);
            self.failure()
        })
    }

    fn rows(&self, _: &str, rows: Rows, blame: Blame) -> Rows {
        let fails = (self.below(8) == 0).then(|| (self.below(3), self.failure(), blame));
        count(&COUNTS.open);
        FailingRows { rows: Some(rows), fails, given: false }.boxed()
    }
}

struct FailingRows {
    rows: Option<Rows>,
    /// After so many batches, with what.
    fails: Option<(u64, WorkerFailure, Blame)>,
    given: bool,
}

impl Stream for FailingRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(rows) = &mut self.rows else { return Poll::Ready(None) };
        let next = std::task::ready!(rows.poll_next_unpin(cx));
        match &mut self.fails {
            // The end is as good as a batch: it may be what does not come.
            Some((0, failure, blame)) => {
                let error = blame(failure.clone());
                count(if self.given { &COUNTS.failed_after_rows } else { &COUNTS.failed_before_rows });
                self.rows = None;
                return Poll::Ready(Some(Err(error)));
            }
            Some((left, ..)) => *left -= 1,
            None => {}
        }
        self.given = true;
        Poll::Ready(next)
    }
}

impl Drop for FailingRows {
    fn drop(&mut self) {
        COUNTS.open.fetch_sub(1, Ordering::Relaxed);
    }
}
