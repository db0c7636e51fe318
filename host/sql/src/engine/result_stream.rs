//! The rows of a running statement.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use tidegate_functions::context::{ExecutionContext, PlanningBudget};
use tidegate_model::{Code, Failure};

use super::cost::{CostCounter, RunningCost};
use crate::fail::from_running;
use crate::types::Type;

/// The rows of a running statement. Dropping it stops the statement.
pub struct ResultStream {
    pub(super) columns: Arc<[(String, Type)]>,
    pub(super) stream: SendableRecordBatchStream,
    /// Keeps the first failure of a function of the statement.
    pub(super) context: Arc<ExecutionContext>,
    pub(super) cost: RunningCost,
    /// The memory of the plan counts until all rows have come.
    pub(super) _budget: Arc<PlanningBudget>,
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl ResultStream {
    /// The names and types of the columns, in the order of the batches' columns.
    pub fn columns(&self) -> Arc<[(String, Type)]> {
        Arc::clone(&self.columns)
    }

    /// Adds the cost of the statement to `counter` when it has ended.
    #[must_use]
    pub fn counted_in(mut self, counter: Arc<CostCounter>) -> Self {
        self.cost.count_in(counter);
        self
    }
}

impl Stream for ResultStream {
    type Item = std::result::Result<RecordBatch, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(cx).map(|next| {
            if next.is_none() {
                self.cost.ended();
            }
            next.map(|batch| {
                let batch = batch.map_err(|error| from_running(error, self.context.failure()))?;
                if batch.num_columns() == self.columns.len() {
                    return Ok(batch);
                }
                Err(Failure::new(Code::Internal, "the statement's columns changed while it ran"))
            })
        })
    }
}
