//! Counting the memory of window operators.
//!
//! The engine's window operators keep the rows of a partition, or of the whole input, and do not count them in the
//! statement's memory. So the input of an operator that may keep many rows is counted for it.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::TryStreamExt;
use tidegate_functions::copied_size;

use super::wrapper::{Wrapper, wrapped};

/// The plan with the inputs of window operators counted.
pub(super) fn counted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if !keeps_rows(&node) {
            return Ok(Transformed::no(node));
        }
        let children = node.children().into_iter().map(|child| wrapped(Arc::clone(child), WindowMemory)).collect();
        replace_children_if_necessary(node, children).map(Transformed::yes)
    })
    .map(|transformed| transformed.data)
}

/// Whether an operator may keep many rows. One whose frames all end at the current row drops the rows as they pass.
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
struct WindowMemory;

impl Wrapper for WindowMemory {
    const NAME: &'static str = "WindowMemory";

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("window").register(context.memory_pool());
        let schema = rows.schema();
        let mut before: Option<RecordBatch> = None;
        let counted = rows.and_then(move |batch| {
            let grown = reservation.try_grow(new_memory(&batch, before.as_ref()));
            before = Some(batch.clone());
            futures::future::ready(grown.map(|()| batch))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }
}

/// The bytes of a batch's buffers, without those that it shares with the batch before (a large array comes as many
/// batches of one buffer), but at least those of its own rows: they are copied into one batch at the end.
pub(super) fn new_memory(batch: &RecordBatch, before: Option<&RecordBatch>) -> usize {
    let mut seen = HashSet::new();
    before.map(|before| count(before, &mut seen));
    let own = batch.columns().iter().map(copied_size).fold(0, usize::saturating_add);
    count(batch, &mut seen).max(own)
}

/// The bytes of the buffers that were not seen yet.
fn count(batch: &RecordBatch, seen: &mut HashSet<usize>) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| count_data(&column.to_data(), seen)).fold(0, usize::saturating_add)
}

fn count_data(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let nulls = data.nulls().map(|nulls| nulls.inner().inner());
    let own = data.buffers().iter().chain(nulls).filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize));
    let own = own.map(Buffer::capacity).fold(0, usize::saturating_add);
    data.child_data().iter().map(|child| count_data(child, seen)).fold(own, usize::saturating_add)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn parts_of_one_batch_are_counted_once() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values((0..10_000).map(|n| "text ".repeat(5 + n % 2))));
        let whole = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let (one, other) = (whole.slice(0, 100), whole.slice(100, 100));
        let bytes = new_memory(&one, None);
        assert!(bytes >= 10_000 * (8 + 16 + 25), "{bytes}");
        assert_eq!(new_memory(&other, Some(&one)), 100 * (8 + 16));
        assert_eq!(new_memory(&other, None), bytes);
    }
}
