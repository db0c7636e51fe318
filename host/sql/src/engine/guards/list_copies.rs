//! Joins and UNNEST over rows with lists, within bounds.
//!
//! Both copy the values of a row into each row that they make of it. A list of 20,000 numbers that is joined with 8,000 rows
//! would be copied 8,000 times into one batch, which nobody counts. So operators whose rows have lists make small batches,
//! and what a batch may hold at most is reserved in the memory of the statement before it is made: the largest row of each
//! side, times the rows of a batch. Batches that became large count as long as they live.
//!
//! Needed as long as the engine does not count what joins and UNNEST make: issues 13003 and 20788 upstream are open
//! (DataFusion 55.2.0; since 55.1 UNNEST keeps to the rows of a batch, pull request 24529). `tests/growth.rs` has
//! statements that hold more without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use futures::StreamExt;
use tidegate_functions::context::count_copied;
use tidegate_functions::{copied_size, copied_sizes, has_lists};

use crate::engine::wrapper::{Wrapper, each_batch, wrapped};

/// Rows of a batch of an operator whose rows have lists.
const ROWS: usize = 256;

/// How often a join holds what a batch has: for its condition and for its rows, or as rows and joined with others.
const COPIES: usize = 2;

/// Lists of fewer bytes are not counted once they are made: the engine holds few batches, and their memory may be that of
/// the table.
const LARGE: usize = 1 << 20;

/// About how much UNNEST makes at once, unless of one row.
const UNNESTED: usize = 16 << 20;

/// More than this is refused, whatever the memory: the offsets of lists have 32 bits.
const MOST: usize = i32::MAX as usize;

/// The plan with joins and UNNEST whose lists count.
pub(crate) fn bounded(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let children = node.children().into_iter().map(Arc::clone);
        let children: Vec<_> = if is_join_of_lists(&node) {
            let largest = Arc::new(Built::default());
            let sides = [JoinInput::Build(Arc::clone(&largest)), JoinInput::Probe(largest)];
            children.zip(sides).map(|(child, side)| wrapped(child, side)).collect()
        } else if let Some(unnested) = unnested_beside_lists(&node) {
            children.map(|child| wrapped(child, UnnestInput { unnested: unnested.clone() })).collect()
        } else {
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(wrapped(replace_children_if_necessary(node, children)?, SmallBatches)))
    })
    .data()
}

fn any_lists(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| has_lists(field.data_type()))
}

/// Whether it is a join whose rows or condition have lists. The first input of each is the one that is held.
fn is_join_of_lists(node: &Arc<dyn ExecutionPlan>) -> bool {
    let filter = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        join.filter()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        join.filter()
    } else if node.is::<CrossJoinExec>() {
        None
    } else {
        return false;
    };
    any_lists(&node.schema()) || filter.is_some_and(|filter| any_lists(filter.schema()))
}

/// The columns that an UNNEST unnests, if others have lists.
fn unnested_beside_lists(node: &Arc<dyn ExecutionPlan>) -> Option<Vec<usize>> {
    let unnest = node.downcast_ref::<UnnestExec>()?;
    let unnested: Vec<usize> = unnest.list_column_indices().iter().map(|list| list.index_in_input_schema).collect();
    let schema = unnest.input().schema();
    let mut others = schema.fields().iter().enumerate().filter(|(i, _)| !unnested.contains(i));
    others.any(|(_, field)| has_lists(field.data_type())).then(|| unnested.clone())
}

/// The rows of a batch in the rest of the statement.
#[derive(Debug)]
struct UsualRows(usize);

fn with_rows(context: &TaskContext, rows: usize, usual: Option<UsualRows>) -> Arc<TaskContext> {
    let mut config = context.session_config().clone().with_batch_size(rows);
    if let Some(usual) = usual {
        config = config.with_extension(Arc::new(usual));
    }
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// The context for an input of an operator that makes small batches.
fn usual(context: Arc<TaskContext>) -> Arc<TaskContext> {
    let rows = context.session_config().get_extension::<UsualRows>();
    rows.map_or_else(|| Arc::clone(&context), |rows| with_rows(&context, rows.0, None))
}

/// Around an operator: it makes small batches, and large lists in them count.
#[derive(Debug, Clone)]
struct SmallBatches;

impl Wrapper for SmallBatches {
    const NAME: &'static str = "SmallBatches";

    fn inner_context(&self, context: Arc<TaskContext>) -> Arc<TaskContext> {
        let usual = context.session_config().batch_size();
        with_rows(&context, usual.min(ROWS), Some(UsualRows(usual)))
    }

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        each_batch(rows, |batch| {
            batch.columns().iter().try_for_each(count_large)?;
            Ok(batch)
        })
    }
}

/// Counts a column with lists that are large, as long as it lives.
pub(crate) fn count_large(column: &ArrayRef) -> Result<()> {
    match has_lists(column.data_type()) && copied_size(column) >= LARGE {
        true => count_copied(column),
        false => Ok(()),
    }
}

/// What the side of a join that is held has had so far.
#[derive(Debug, Default)]
struct Built {
    rows: AtomicUsize,
    /// The bytes of the lists of its largest row.
    largest: AtomicUsize,
}

/// An input of a join. The one that is held is read before the other.
#[derive(Debug, Clone)]
enum JoinInput {
    Build(Arc<Built>),
    Probe(Arc<Built>),
}

impl Wrapper for JoinInput {
    const NAME: &'static str = "JoinInput";

    fn inner_context(&self, context: Arc<TaskContext>) -> Arc<TaskContext> {
        usual(context)
    }

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        match self {
            Self::Build(built) => {
                let built = Arc::clone(built);
                each_batch(rows, move |batch| {
                    built.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
                    built.largest.fetch_max(largest(&batch), Ordering::Relaxed);
                    Ok(batch)
                })
            }
            Self::Probe(built) => {
                let built = Arc::clone(built);
                let reservation = MemoryConsumer::new("join of lists").register(context.memory_pool());
                each_batch(in_parts(rows, |_| ROWS), move |batch| {
                    let pairs = built.rows.load(Ordering::Relaxed).max(1).saturating_mul(batch.num_rows());
                    let row = built.largest.load(Ordering::Relaxed).saturating_add(largest(&batch));
                    reserve(&reservation, row.saturating_mul(pairs.min(ROWS)), COPIES)?;
                    Ok(batch)
                })
            }
        }
    }
}

/// The bytes of the lists of the largest row.
fn largest(batch: &RecordBatch) -> usize {
    row_sizes(batch, &[]).into_iter().max().unwrap_or_default()
}

/// The bytes of each row of a copy of the columns with lists, without some columns.
fn row_sizes(batch: &RecordBatch, without: &[usize]) -> Vec<usize> {
    let mut sums = vec![0_usize; batch.num_rows()];
    let columns = batch.columns().iter().enumerate().filter(|(i, _)| !without.contains(i)).map(|(_, column)| column);
    for column in columns.filter(|column| has_lists(column.data_type())) {
        sums.iter_mut().zip(copied_sizes(column)).for_each(|(sum, size)| *sum = sum.saturating_add(size));
    }
    sums
}

/// Reserves so many bytes, in place of those before.
pub(crate) fn reserve(reservation: &MemoryReservation, bytes: usize, copies: usize) -> Result<()> {
    if bytes > MOST {
        return Err(DataFusionError::ResourcesExhausted(format!("{bytes} bytes of lists in one batch")));
    }
    reservation.try_resize(bytes.saturating_mul(copies))
}

/// The rows in batches of at most as many rows as `most` says of a batch, at least one.
fn in_parts(
    rows: SendableRecordBatchStream,
    most: impl Fn(&RecordBatch) -> usize + Send + 'static,
) -> SendableRecordBatchStream {
    let (schema, mut rows) = (rows.schema(), rows);
    let mut rest: Option<RecordBatch> = None;
    let parts = futures::stream::poll_fn(move |cx| {
        let batch = match rest.take() {
            Some(batch) => batch,
            None => match std::task::ready!(rows.poll_next_unpin(cx)) {
                Some(Ok(batch)) => batch,
                end => return std::task::Poll::Ready(end),
            },
        };
        let count = most(&batch).max(1).min(batch.num_rows());
        if count < batch.num_rows() {
            rest = Some(batch.slice(count, batch.num_rows() - count));
        }
        std::task::Poll::Ready(Some(Ok(batch.slice(0, count))))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, parts))
}

/// The input of an UNNEST.
#[derive(Debug, Clone)]
struct UnnestInput {
    unnested: Vec<usize>,
}

impl Wrapper for UnnestInput {
    const NAME: &'static str = "UnnestInput";

    fn inner_context(&self, context: Arc<TaskContext>) -> Arc<TaskContext> {
        usual(context)
    }

    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream {
        let reservation = MemoryConsumer::new("unnest beside lists").register(context.memory_pool());
        let (unnested, columns) = (self.unnested.clone(), self.unnested.clone());
        let fitting = move |batch: &RecordBatch| {
            let mut sum = 0_usize;
            let fits = move |size: &usize| {
                sum = sum.saturating_add(*size);
                sum <= UNNESTED
            };
            made(batch, &columns).into_iter().take_while(fits).count()
        };
        each_batch(in_parts(rows, fitting), move |batch| {
            reserve(&reservation, made(&batch, &unnested).into_iter().fold(0, usize::saturating_add), 1)?;
            Ok(batch)
        })
    }
}

/// The bytes that UNNEST makes of each row: its other lists, as many times as the longest unnested list has elements.
fn made(batch: &RecordBatch, unnested: &[usize]) -> Vec<usize> {
    let mut most = vec![1_usize; batch.num_rows()];
    for column in unnested.iter().filter_map(|i| batch.columns().get(*i)) {
        for (most, length) in most.iter_mut().zip(lengths(column)) {
            *most = (*most).max(length);
        }
    }
    row_sizes(batch, unnested).into_iter().zip(most).map(|(size, times)| size.saturating_mul(times)).collect()
}

/// How many elements each list has; of lists of lists, at least as many as there are elements in them.
fn lengths(column: &ArrayRef) -> Vec<usize> {
    match column.data_type() {
        DataType::List(item) if !has_lists(item.data_type()) => {
            let offsets = column.as_list::<i32>().offsets();
            offsets.lengths().collect()
        }
        _ => copied_sizes(column),
    }
}
