//! Tells functions whose memory they use: while an operator is polled, its statement's is at hand.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

use super::memory::StatementMemory;

/// The plan whose operators compute with `memory` at hand. Each of them, because operators start
/// tasks that poll their inputs on other threads.
pub(super) fn covered(plan: Arc<dyn ExecutionPlan>, memory: &Arc<StatementMemory>) -> Result<Arc<dyn ExecutionPlan>> {
    let covered = |input| Arc::new(Covered { input, memory: Arc::clone(memory) }) as Arc<dyn ExecutionPlan>;
    plan.transform_up(|input| Ok(Transformed::yes(covered(input)))).map(|transformed| transformed.data)
}

/// Passes on what an operator makes.
#[derive(Debug)]
struct Covered {
    input: Arc<dyn ExecutionPlan>,
    memory: Arc<StatementMemory>,
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
            Some(input) => Arc::new(Self { input, memory: Arc::clone(&self.memory) }),
            None => self,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.memory.cover(|| self.input.execute(partition, context))?;
        Ok(Box::pin(CoveredStream { input, memory: Arc::clone(&self.memory) }))
    }
}

struct CoveredStream {
    input: SendableRecordBatchStream,
    memory: Arc<StatementMemory>,
}

impl Stream for CoveredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let memory = Arc::clone(&self.memory);
        memory.cover(|| self.input.poll_next_unpin(cx))
    }
}

impl RecordBatchStream for CoveredStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
