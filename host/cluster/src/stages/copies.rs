//! Rows that are copied to all tasks of another stage, which are held until the end.
//!
//! The library counts what it holds of them without asking whether there is memory (`BroadcastExec`, seen with
//! datafusion-distributed 4.0.0), so it is asked before they come to it.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use tidegate_sql::{Wrapper, each_batch, wrapped};

/// The rows of a plan, each batch of which fits into the memory of the statement.
pub(super) fn counted(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    wrapped(plan, CopiedRows)
}

#[derive(Debug, Clone)]
struct CopiedRows;

impl Wrapper for CopiedRows {
    const NAME: &'static str = "CopiedRows";

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let room = MemoryConsumer::new("copied rows").register(context.memory_pool());
        each_batch(rows, move |batch| {
            room.try_grow(batch.get_array_memory_size())?;
            // It is counted by whoever holds it.
            room.free();
            Ok(batch)
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::error::DataFusionError;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_batch_that_does_not_fit_is_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let rows = MemorySourceConfig::try_new(&[vec![batch.clone(), batch.clone()]], batch.schema(), None).unwrap();
        let plan = counted(DataSourceExec::from_data_source(rows));
        for (memory, fits) in [(4 << 10, false), (64 << 10, true)] {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(memory));
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build().unwrap();
            let context = Arc::new(TaskContext::default().with_runtime(Arc::new(runtime)));
            let got: Result<Vec<_>, _> = plan.execute(0, context).unwrap().try_collect().await;
            match got {
                Ok(batches) => assert!(fits && batches.len() == 2),
                Err(error) => {
                    assert!(!fits && matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
                }
            }
            assert_eq!(pool.reserved(), 0, "whoever holds it counts it");
        }
    }
}
