//! Counting what window operators hold.
//!
//! The engine's window operators keep the rows of a partition, or of the whole input, without
//! telling the statement's memory. So what flows into one that may keep much is counted for it.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;

/// The plan with the inputs of window operators counted.
pub(super) fn counted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if !keeps_rows(&node) {
            return Ok(Transformed::no(node));
        }
        let children = node.children().into_iter().map(|child| Held::over(Arc::clone(child))).collect();
        replace_children_if_necessary(node, children).map(Transformed::yes)
    })
    .map(|transformed| transformed.data)
}

/// Whether an operator may keep many rows. One whose frames all end at the row at hand lets go of
/// the rows as they pass.
fn keeps_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    if node.is::<WindowAggExec>() {
        return true;
    }
    node.downcast_ref::<BoundedWindowAggExec>().is_some_and(|window| {
        window.window_expr().iter().any(|call| !call.get_window_frame().is_causal() || call.name().starts_with("lead"))
    })
}

/// Passes rows on and counts them as held until the statement ends.
#[derive(Debug)]
struct Held {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Held {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = Arc::clone(input.properties());
        Arc::new(Self { input, properties })
    }
}

impl DisplayAs for Held {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl ExecutionPlan for Held {
    fn name(&self) -> &'static str {
        "Held"
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        Ok(children.into_iter().next().map_or(self, Self::over))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new("window").register(context.memory_pool());
        let rows = self.input.execute(partition, context)?;
        let counted = rows.and_then(move |batch| {
            let grown = reservation.try_grow(datafusion::common::utils::memory::get_record_batch_memory_size(&batch));
            futures::future::ready(grown.map(|()| batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}
