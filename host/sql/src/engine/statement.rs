//! The statement at hand: while it is planned, and while one of its operators is polled, the functions
//! that are called reach their statement's memory, its stop sign, its regular expressions and the place for
//! its failure, whichever thread polls.
//!
//! The engine's own ways do not reach that far: functions know nothing of the memory, tasks that
//! operators start know nothing of the task that started them, and a scan turns the failure of a
//! filter that it computes into mere text.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use tidegate_model::Failure;

use super::memory::StatementMemory;
use super::planning::Budget;
use super::through::{Around, through};
use crate::functions::Patterns;
use crate::stop::Stop;

thread_local! {
    static AT_HAND: RefCell<Option<Statement>> = const { RefCell::new(None) };
}

/// A statement that runs, or is planned.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(super) memory: Arc<StatementMemory>,
    pub(crate) stop: Stop,
    /// The first failure of a function that runs; while planning, that the plan is too large.
    pub(crate) failure: Arc<OnceLock<Failure>>,
    pub(crate) patterns: Arc<Patterns>,
    /// While the statement is planned, what its plan may hold.
    pub(super) planned: Option<Arc<Budget>>,
}

impl Statement {
    /// Does `work` with this as the statement at hand.
    pub(crate) fn cover<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Before(Option<Statement>);
        impl Drop for Before {
            fn drop(&mut self) {
                drop(AT_HAND.replace(self.0.take()));
            }
        }
        let _before = Before(AT_HAND.replace(Some(self.clone())));
        work()
    }

    /// Whether it runs, and is not planned any more.
    pub(crate) fn is_running(&self) -> bool {
        self.planned.is_none()
    }

    /// The plan whose operators compute for this statement. Each of them is wrapped, because
    /// operators start tasks that poll their inputs.
    pub(super) fn covering(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|operator| Ok(Transformed::yes(through(operator, self.clone())))).map(|plan| plan.data)
    }
}

/// What the statement at hand says; `None` where there is none.
pub(crate) fn at_hand<T>(ask: impl FnOnce(&Statement) -> T) -> Option<T> {
    AT_HAND.with_borrow(|statement| statement.as_ref().map(ask))
}

impl Around for Statement {
    const NAME: &'static str = "Covered";

    fn around(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        Box::pin(CoveredStream { input: rows, statement: self.clone() })
    }
}

struct CoveredStream {
    input: SendableRecordBatchStream,
    statement: Statement,
}

impl Stream for CoveredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { input, statement } = &mut *self;
        statement.cover(|| input.poll_next_unpin(cx))
    }
}

impl RecordBatchStream for CoveredStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
