//! The rows that a sender of a task has in memory, as bytes.
//!
//! Rows that no segment has yet lie where they were taken in. They are read there, with the conditions and columns of
//! their scan, and travel with the task that has them as its leaf.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use prost::Message;
use tidegate_functions::context::ExecutionContext;

use crate::batch_bytes::BatchBytes;
use crate::bounds::{MAX_LEAF_BYTES, MAX_PARTITIONS};
use crate::error::{refused, unsendable};
use crate::literal_check;
use crate::local_leaves::LocalLeaves;

#[derive(Clone, PartialEq, Message)]
struct LeavesMessage {
    #[prost(message, repeated, tag = "1")]
    leaves: Vec<LeafMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LeafMessage {
    #[prost(message, optional, tag = "1")]
    schema: Option<datafusion_proto::protobuf::Schema>,
    #[prost(message, repeated, tag = "2")]
    partitions: Vec<PartitionRowsMessage>,
    /// The orders in which the rows of each partition come.
    #[prost(message, repeated, tag = "3")]
    orders: Vec<RowOrderMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct RowOrderMessage {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<RowKeyMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct RowKeyMessage {
    #[prost(uint32, tag = "1")]
    column: u32,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
struct PartitionRowsMessage {
    #[prost(message, repeated, tag = "1")]
    batches: Vec<BatchMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct BatchMessage {
    #[prost(bytes = "vec", tag = "1")]
    message: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    body: Vec<u8>,
    #[prost(uint64, tag = "3")]
    rows: u64,
}

/// The rows of leaves, read with this context and counted in its memory while that is done.
///
/// # Errors
/// If they cannot be read, are too many, or there is no memory.
pub async fn rows_of_leaves(leaves: &LocalLeaves, context: &Arc<TaskContext>) -> Result<Vec<u8>> {
    let execution = context.session_config().get_extension::<ExecutionContext>();
    let held = MemoryConsumer::new("rows for workers").register(context.memory_pool());
    let mut messages = Vec::new();
    for leaf in &leaves.plans {
        let mut partitions = Vec::new();
        for partition in 0..leaf.output_partitioning().partition_count() {
            let mut rows = leaf.execute(partition, Arc::clone(context))?;
            if let Some(execution) = &execution {
                rows = Arc::clone(execution).scope_stream(rows);
            }
            let mut batches = Vec::new();
            while let Some(batch) = rows.next().await {
                for piece in BatchBytes::pieces(&batch?) {
                    let BatchBytes { message, body, rows } = BatchBytes::of(&piece)?;
                    held.try_grow(message.len() + body.len())?;
                    if held.size() > MAX_LEAF_BYTES {
                        return unsendable("there are too many rows in memory");
                    }
                    batches.push(BatchMessage { message, body: body.to_vec(), rows: rows as u64 });
                }
            }
            partitions.push(PartitionRowsMessage { batches });
        }
        let orders = orders_of(leaf);
        messages.push(LeafMessage { schema: Some(leaf.schema().as_ref().try_into()?), partitions, orders });
    }
    Ok(LeavesMessage { leaves: messages }.encode_to_vec())
}

/// The leaves of these rows.
///
/// # Errors
/// If the bytes are no such rows.
pub(super) fn decoded(bytes: &[u8]) -> Result<LocalLeaves> {
    if bytes.len() > 2 * MAX_LEAF_BYTES {
        return refused("it has too many rows");
    }
    let Ok(LeavesMessage { leaves }) = LeavesMessage::decode(bytes) else { return refused("its rows cannot be read") };
    let leaf = |LeafMessage { schema, partitions, orders }: LeafMessage| {
        let (Some(schema), 1..=MAX_PARTITIONS) = (schema, partitions.len()) else {
            return refused("its rows have no columns");
        };
        let schema: SchemaRef = Arc::new(Schema::try_from(&schema)?);
        literal_check::schema(&schema)?;
        let batch = |BatchMessage { message, body, rows }| {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            Ok(BatchBytes { message, body: body.into(), rows }.batch(&schema)?)
        };
        let partitions = partitions.into_iter().map(|of| of.batches.into_iter().map(batch).collect::<Result<Vec<_>>>());
        memory(&partitions.collect::<Result<Vec<_>>>()?, schema, &orders)
    };
    Ok(LocalLeaves { plans: leaves.into_iter().map(leaf).collect::<Result<_>>()? })
}

/// The leaves as the receiver will have them, without rows.
pub(super) fn without_rows(leaves: &LocalLeaves) -> Result<LocalLeaves> {
    Ok(LocalLeaves { plans: leaves.plans.iter().map(leaf_without_rows).collect::<Result<_>>()? })
}

/// A leaf of rows in memory that has none.
pub(super) fn leaf_without_rows(leaf: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    memory(&vec![Vec::new(); leaf.output_partitioning().partition_count()], leaf.schema(), &orders_of(leaf))
}

/// The orders of a leaf by its columns.
fn orders_of(leaf: &Arc<dyn ExecutionPlan>) -> Vec<RowOrderMessage> {
    let key = |key: &PhysicalSortExpr| {
        let column = u32::try_from(key.expr.downcast_ref::<Column>()?.index()).ok()?;
        let SortOptions { descending, nulls_first } = key.options;
        Some(RowKeyMessage { column, descending, nulls_first })
    };
    let orders = leaf.equivalence_properties().oeq_class().iter();
    orders.filter_map(|order| Some(RowOrderMessage { keys: order.iter().map(key).collect::<Option<_>>()? })).collect()
}

fn memory(
    partitions: &[Vec<RecordBatch>],
    schema: SchemaRef,
    orders: &[RowOrderMessage],
) -> Result<Arc<dyn ExecutionPlan>> {
    let key = |RowKeyMessage { column, descending, nulls_first }: &RowKeyMessage| {
        let place = usize::try_from(*column).ok().filter(|place| *place < schema.fields().len());
        let Some(place) = place else { return refused("its rows have an order by a column that is not there") };
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(place).name(), place));
        let options = SortOptions { descending: *descending, nulls_first: *nulls_first };
        Ok(PhysicalSortExpr { expr, options })
    };
    let order = |order: &RowOrderMessage| Ok(LexOrdering::new(order.keys.iter().map(key).collect::<Result<Vec<_>>>()?));
    let orders = orders.iter().filter_map(|of| order(of).transpose()).collect::<Result<Vec<_>>>()?;
    let rows = MemorySourceConfig::try_new(partitions, Arc::clone(&schema), None)?;
    Ok(DataSourceExec::from_data_source(rows.try_with_sort_information(orders)?))
}
