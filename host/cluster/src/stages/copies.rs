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
