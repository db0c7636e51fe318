//! Counting what window operators hold.
//!
//! The engine's window operators keep the rows of a partition, or of the whole input, without
//! telling the statement's memory. So what flows into one that may keep much is counted for it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::TryStreamExt;

use super::through::{Around, through};

/// The plan with the inputs of window operators counted.
pub(super) fn counted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if !keeps_rows(&node) {
            return Ok(Transformed::no(node));
        }
        let children = node.children().into_iter().map(|child| through(Arc::clone(child), Held)).collect();
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

/// Counts rows as held until the statement ends.
#[derive(Debug, Clone)]
struct Held;

impl Around for Held {
    const NAME: &'static str = "Held";

    fn around(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("window").register(context.memory_pool());
        let schema = rows.schema();
        let counted = rows.and_then(move |batch| {
            let grown = reservation.try_grow(datafusion::common::utils::memory::get_record_batch_memory_size(&batch));
            futures::future::ready(grown.map(|()| batch))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }
}
