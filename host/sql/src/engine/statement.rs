//! The statement at hand: while an operator is polled, the functions that it calls reach their
//! statement's memory, its stop sign and the place for its failure, whichever thread polls.
//!
//! The engine's own ways do not reach that far: functions know nothing of the memory, tasks that
//! operators start know nothing of the task that started them, and a scan turns the failure of a
//! filter that it computes into mere text.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};
use tidegate_model::Failure;

use super::memory::StatementMemory;
use crate::stop::Stop;

thread_local! {
    static AT_HAND: RefCell<Option<Statement>> = const { RefCell::new(None) };
}

/// A statement that runs.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(super) memory: Arc<StatementMemory>,
    pub(crate) stop: Stop,
    /// The first failure of a function.
    pub(crate) failure: Arc<OnceLock<Failure>>,
}

impl Statement {
    /// Does `work` with this as the statement at hand.
    pub(super) fn cover<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Before(Option<Statement>);
        impl Drop for Before {
            fn drop(&mut self) {
                AT_HAND.set(self.0.take());
            }
        }
        let _before = Before(AT_HAND.replace(Some(self.clone())));
        work()
    }

    /// The plan whose operators compute for this statement. Each of them is wrapped, because
    /// operators start tasks that poll their inputs.
    pub(super) fn covering(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let covered = |input| Arc::new(Covered { input, statement: self.clone() }) as Arc<dyn ExecutionPlan>;
        plan.transform_up(|input| Ok(Transformed::yes(covered(input)))).map(|transformed| transformed.data)
    }
}

/// What the statement at hand says; `None` where there is none, as while a statement is planned.
pub(crate) fn at_hand<T>(ask: impl FnOnce(&Statement) -> T) -> Option<T> {
    AT_HAND.with_borrow(|statement| statement.as_ref().map(ask))
}

/// Passes on what an operator makes.
#[derive(Debug)]
struct Covered {
    input: Arc<dyn ExecutionPlan>,
    statement: Statement,
}

impl DisplayAs for Covered {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Covered")
    }
}

impl ExecutionPlan for Covered {
    fn name(&self) -> &'static str {
        "Covered"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => Arc::new(Self { input, statement: self.statement.clone() }),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.statement.cover(|| self.input.execute(partition, context))?;
        Ok(Box::pin(CoveredStream { input, statement: self.statement.clone() }))
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
