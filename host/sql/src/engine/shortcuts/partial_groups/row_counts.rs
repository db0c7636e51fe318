//! Counting rows without keys, over a scan that counts them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{TryStreamExt, stream};

/// The place of the column of counts.
const COUNTS: usize = 1;

/// One row: how many rows a partition has, for each of the aggregates, which all count rows. `counted` are its rows, as a
/// value and a count.
pub(super) fn summed(aggregate: &AggregateExec, counted: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let (schema, aggregates) = (aggregate.schema(), aggregate.aggr_expr().len());
    let output = Arc::clone(&schema);
    let sum = async move {
        let add = async |sum: i64, batch: RecordBatch| Ok(sum.saturating_add(rows_of(&batch)?));
        let sum = counted.try_fold(0, add).await?;
        let columns = (0..aggregates).map(|_| -> ArrayRef { Arc::new(Int64Array::from_value(sum, 1)) });
        Ok(RecordBatch::try_new(output, columns.collect())?)
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(sum)))
}

/// How many rows a batch stands for.
fn rows_of(batch: &RecordBatch) -> Result<i64> {
    let counts = batch.columns().get(COUNTS).and_then(|counts| counts.as_primitive_opt::<Int64Type>());
    let counts = counts.ok_or_else(|| internal_datafusion_err!("rows without their counts"))?;
    Ok(counts.values().iter().sum())
}
