//! Operators that yield to the runtime after some milliseconds.
//!
//! A running statement is stopped by dropping its stream, but only between two polls, and the engine's joins go on as
//! long as they have rows: a filter over a cross join that lets nothing pass stays in one poll for hours. So operators
//! that make many rows of few are wrapped.
//!
//! The engine has `CooperativeExec`, which does not replace this. It counts batches and no time, and yields after about a
//! hundred: a statement that computes a text for each pair of a cross join was polled for up to 47 ms at a time with this
//! operator, and for 970 ms with the engine's in its place (unoptimized build). The engine puts its own on scans only; issue
//! 19358 upstream, that joins do not yield, is open, and pull request 19360 for it was closed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use futures::{Stream, StreamExt};

use super::stoppable_join::stoppable;
use crate::engine::wrapper::{Wrapper, wrapped};

/// How long an operator may go on before it lets other tasks run.
const SLICE: Duration = Duration::from_millis(10);

/// The plan with operators that yield, and joins that check the stop sign.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let plan = stoppable(plan)?;
        Ok(match plan.cardinality_effect() {
            // Joins do not know what they do to the number of rows.
            CardinalityEffect::Unknown | CardinalityEffect::GreaterEqual if !plan.children().is_empty() => {
                Transformed::yes(wrapped(plan, Yielding))
            }
            _ => Transformed::no(plan),
        })
    })
    .data()
}

/// Yields between the rows of an operator.
#[derive(Debug, Clone)]
struct Yielding;

impl Wrapper for Yielding {
    const NAME: &'static str = "Yielding";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        Box::pin(YieldingStream { input: rows, since: None })
    }
}

struct YieldingStream {
    input: SendableRecordBatchStream,
    /// Since when it has been polled without a pause.
    since: Option<Instant>,
}

impl Stream for YieldingStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= SLICE {
            self.since = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.input.poll_next_unpin(cx);
        if next.is_pending() {
            self.since = None;
        }
        next
    }
}

impl RecordBatchStream for YieldingStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
