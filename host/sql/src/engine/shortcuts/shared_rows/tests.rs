//! Readers of shared parts: what they share, what each computes by itself, and what must never be computed again.

use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;
use crate::engine::wrapper::{Wrapper, wrapped};

/// Counts how often an operator runs.
#[derive(Debug, Clone)]
struct Runs(Arc<AtomicUsize>);

impl Wrapper for Runs {
    const NAME: &'static str = "Runs";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        self.0.fetch_add(1, Ordering::Relaxed);
        rows
    }
}

/// Never has a row, and holds its value while it runs.
#[derive(Debug, Clone)]
struct Endless(Arc<()>);

impl Wrapper for Endless {
    const NAME: &'static str = "Endless";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        let (schema, held) = (rows.schema(), Arc::clone(&self.0));
        let rows = futures::stream::pending().inspect(move |_| drop(Arc::clone(&held)));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// Two partitions, of 2,000 and of 1,000 rows.
async fn numbers() -> Arc<dyn ExecutionPlan> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let schema = batch.schema();
    let table = MemTable::try_new(schema, vec![vec![batch.clone(), batch.clone()], vec![batch]]).unwrap();
    table.scan(&SessionContext::new().state(), None, &[], None).await.unwrap()
}

fn context(pool: &Arc<dyn MemoryPool>) -> Arc<TaskContext> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(pool)).build().unwrap();
    let config = SessionConfig::new().with_extension(Arc::<SharedParts>::default());
    Arc::new(TaskContext::default().with_session_config(config).with_runtime(Arc::new(runtime)))
}

fn reader_of(reader: usize, once: bool) -> PartReader {
    PartReader { part: 0, reader, once }
}

async fn rows(stream: SendableRecordBatchStream) -> usize {
    let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn a_part_is_computed_once_or_by_each_reader() {
    for (memory, computed) in [(1 << 20, 1), (1 << 10, 3)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
        let runs = Arc::new(AtomicUsize::new(0));
        let input = wrapped(numbers().await, Runs(Arc::clone(&runs)));
        let context = context(&pool);
        let readers = [0, 1].map(|reader| SharedRows::of(reader_of(reader, false), Arc::clone(&input)));
        // All are started, and then read one after the other.
        let streams: Vec<_> = readers
            .iter()
            .flat_map(|reader| [0, 1].map(|partition| reader.execute(partition, Arc::clone(&context)).unwrap()))
            .collect();
        let mut counts = Vec::new();
        for stream in streams {
            counts.push(rows(stream).await);
        }
        assert_eq!(counts, [2000, 1000, 2000, 1000]);
        assert_eq!(runs.load(Ordering::Relaxed), 2 * computed, "two partitions");
        assert_eq!(pool.reserved(), 0, "what nobody reads any more is not held");
    }
}

/// Also where one reader ends before another one begins; and too many rows are an error.
#[tokio::test]
async fn rows_that_must_be_the_same_are_never_computed_again() {
    for (memory, fits) in [(1 << 20, true), (1 << 10, false)] {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
        let runs = Arc::new(AtomicUsize::new(0));
        let input = wrapped(numbers().await, Runs(Arc::clone(&runs)));
        let context = context(&pool);
        for reader in [0, 1] {
            let reader = SharedRows::of(reader_of(reader, true), Arc::clone(&input));
            let read: Result<Vec<RecordBatch>> = reader.execute(0, Arc::clone(&context)).unwrap().try_collect().await;
            match read {
                Ok(read) => assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), 2000),
                Err(error) => assert!(!fits && error.to_string().contains("shared rows"), "{error}"),
            }
        }
        assert!(!fits || runs.load(Ordering::Relaxed) == 2, "two partitions");
        drop(context);
        assert_eq!(pool.reserved(), 0, "the statement has ended");
    }
}

#[tokio::test]
async fn a_part_that_nobody_waits_for_is_stopped() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let held = Arc::new(());
    let input = wrapped(numbers().await, Endless(Arc::clone(&held)));
    let context = context(&pool);
    let reader = SharedRows::of(reader_of(0, false), input);
    let idle = Arc::strong_count(&held);
    let mut stream = reader.execute(0, Arc::clone(&context)).unwrap();
    assert!(futures::poll!(stream.next()).is_pending());
    tokio::task::yield_now().await;
    assert!(Arc::strong_count(&held) > idle, "it runs");
    drop(stream);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&held), idle);
}
