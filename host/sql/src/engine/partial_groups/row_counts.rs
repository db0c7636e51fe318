//! The first half of counting rows without keys, over a scan that counts them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{internal_datafusion_err, tree_node::TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{TryStreamExt, stream};

/// Hands on one row for each partition: how many rows it has, for each of the aggregates, which all count rows.
#[derive(Debug)]
pub(super) struct RowCounts {
    pub(super) aggregate: AggregateExec,
    /// The rows of its input, as a value and a count.
    pub(super) counted: Arc<dyn ExecutionPlan>,
}

/// The place of the column of counts.
const COUNTS: usize = 1;

impl DisplayAs for RowCounts {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowCounts: ")?;
        self.aggregate.fmt_as(format, f)
    }
}

impl ExecutionPlan for RowCounts {
    fn name(&self) -> &'static str {
        "RowCounts"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.counted]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let counted = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.counted));
        Ok(Arc::new(Self { aggregate: self.aggregate.clone(), counted }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.counted.execute(partition, context)?;
        let (schema, aggregates) = (self.aggregate.schema(), self.aggregate.aggr_expr().len());
        let output = Arc::clone(&schema);
        let counted = async move {
            let add = async |sum: i64, batch: RecordBatch| Ok(sum.saturating_add(rows_of(&batch)?));
            let sum = input.try_fold(0, add).await?;
            let columns = (0..aggregates).map(|_| -> ArrayRef { Arc::new(Int64Array::from_value(sum, 1)) });
            Ok(RecordBatch::try_new(output, columns.collect())?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(counted))))
    }
}

/// How many rows a batch stands for.
fn rows_of(batch: &RecordBatch) -> Result<i64> {
    let counts = batch.columns().get(COUNTS).and_then(|counts| counts.as_primitive_opt::<Int64Type>());
    let counts = counts.ok_or_else(|| internal_datafusion_err!("rows without their counts"))?;
    Ok(counts.values().iter().sum())
}
