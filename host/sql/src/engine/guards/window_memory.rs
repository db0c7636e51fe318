//! Counting the memory of window operators.
//!
//! The engine's window operators keep the rows of a partition, or of the whole input, and do not count them in the
//! statement's memory. So the input of an operator that may keep many rows is counted for it. Results that are lists or
//! texts count too: those of aggregates as they are given (see `watched` in the functions), lists that `FIRST_VALUE` and the
//! like copy into each row before the operator has the rows, and all of them, once made, as long as they live.
//!
//! Needed as long as the engine does not count them itself: issue 22946 upstream is open, pull request 23207 was closed
//! (DataFusion 55.2.0). `tests/growth.rs` and `tests/dialect/limits.rs` have statements that hold more without it.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::StandardWindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::WindowExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::StreamExt;
use tidegate_functions::aggregate::WindowResults;
use tidegate_functions::context::count_made;
use tidegate_functions::{copied_size, copied_sizes, has_lists};

use super::list_copies;
use crate::engine::wrapper::{Wrapper, each_batch, wrapped};

/// The plan with the inputs and the results of window operators counted.
pub(crate) fn counted(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(calls) = calls(&node) else { return Ok(Transformed::no(node)) };
        let keeps_rows = keeps_rows(&node);
        let copied = copied(calls)?;
        let results = Results { count: calls.len() };
        let children = node.children().into_iter().map(|child| {
            let child = Arc::clone(child);
            let child = if keeps_rows { wrapped(child, WindowMemory) } else { child };
            if copied.is_empty() { child } else { wrapped(child, WindowCopies { copied: copied.clone(), keeps_rows }) }
        });
        let children = children.collect();
        Ok(Transformed::yes(wrapped(replace_children_if_necessary(node, children)?, results)))
    })
    .map(|transformed| transformed.data)
}

/// The calls of a window operator.
fn calls(node: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let all = node.downcast_ref::<WindowAggExec>().map(|window| window.window_expr());
    all.or_else(|| node.downcast_ref::<BoundedWindowAggExec>().map(|window| window.window_expr()))
}

/// The types of lists that the calls copy from rows. `LAG` and `LEAD` copy each once.
fn copied(calls: &[Arc<dyn WindowExpr>]) -> Result<Vec<DataType>> {
    let once = |call: &dyn WindowExpr| ["lag", "lead"].iter().any(|name| call.name().starts_with(name));
    let calls = calls.iter().filter(|call| call.as_any().is::<StandardWindowExpr>() && !once(call.as_ref()));
    let types = calls.map(|call| Ok(call.field()?.data_type().clone())).collect::<Result<Vec<_>>>()?;
    Ok(types.into_iter().filter(has_lists).collect())
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
        let mut before: Option<RecordBatch> = None;
        each_batch(rows, move |batch| {
            reservation.try_grow(new_memory(&batch, before.as_ref()))?;
            before = Some(batch.clone());
            Ok(batch)
        })
    }
}

/// Counts the lists that an operator copies into its rows: for each row the largest of its type so far.
#[derive(Debug, Clone)]
struct WindowCopies {
    /// The types of the results.
    copied: Vec<DataType>,
    /// Whether the operator holds the results of all rows.
    keeps_rows: bool,
}

impl Wrapper for WindowCopies {
    const NAME: &'static str = "WindowCopies";

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("window copies").register(context.memory_pool());
        let Self { copied, keeps_rows } = self.clone();
        let mut largest = vec![0; copied.len()];
        let mut held_rows = 0_usize;
        each_batch(rows, move |batch| {
            for (largest, ty) in largest.iter_mut().zip(&copied) {
                let columns = batch.columns().iter().filter(|column| column.data_type() == ty);
                *largest = columns.flat_map(copied_sizes).fold(*largest, usize::max);
            }
            held_rows = if keeps_rows { held_rows.saturating_add(batch.num_rows()) } else { batch.num_rows() };
            let row = largest.iter().fold(0, |sum: usize, size| sum.saturating_add(*size));
            // As values and as an array, or as arrays of partitions and as one.
            list_copies::reserve(&reservation, row.saturating_mul(held_rows), 2)?;
            Ok(batch)
        })
    }
}

/// Counts the results of a window operator, which are its last columns.
#[derive(Debug, Clone)]
struct Results {
    count: usize,
}

impl Wrapper for Results {
    const NAME: &'static str = "WindowResults";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let (mut rows, count) = (rows, self.count);
        let mut given = WindowResults::default();
        let counted = futures::stream::poll_fn(move |cx| {
            let next = std::task::ready!(given.enter(|| rows.poll_next_unpin(cx)));
            given.clear();
            Poll::Ready(next.map(|batch| {
                let batch = batch?;
                let results = batch.columns().iter().rev().take(count);
                results.filter(|column| !column.data_type().is_primitive()).try_for_each(count_made)?;
                Ok(batch)
            }))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }
}

/// The bytes of a batch's buffers, without those that it shares with the batch before (a large array comes as many
/// batches of one buffer), but at least those of its own rows: they are copied into one batch at the end.
pub(crate) fn new_memory(batch: &RecordBatch, before: Option<&RecordBatch>) -> usize {
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
