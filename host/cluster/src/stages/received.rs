//! The rows of another stage, of the columns that the plan expects: a worker says what its rows are, and operators take it at its
//! word.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::NetworkBoundaryExt;
use tidegate_sql::{Wrapper, each_batch, wrapped};

use crate::worker_failure::WorkerFailure;

/// The plan, whose boundaries hand on nothing but rows of their columns.
pub(super) fn checked(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|node| {
        if !node.is_network_boundary() {
            return Ok(Transformed::no(node));
        }
        // What is below is another stage.
        Ok(Transformed::new(wrapped(node, ReceivedRows), true, TreeNodeRecursion::Jump))
    });
    plan.map(|plan| plan.data)
}

/// What a boundary hands on.
#[derive(Debug, Clone)]
struct ReceivedRows;

impl Wrapper for ReceivedRows {
    const NAME: &'static str = "ReceivedRows";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        let columns = rows.schema();
        each_batch(rows, move |batch| of_columns(batch, &columns))
    }
}

fn of_columns(batch: RecordBatch, columns: &Schema) -> Result<RecordBatch> {
    let (there, expected) = (batch.schema_ref().fields(), columns.fields());
    let is_same = there.len() == expected.len()
        && there.iter().zip(expected).all(|(there, expected)| there.data_type().equals_datatype(expected.data_type()));
    if is_same {
        return Ok(batch);
    }
    Err(WorkerFailure::Nonsense("the rows of a stage have other columns than its plan".to_owned()).into_error())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Int32Array, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn rows_of_other_columns_are_nonsense() {
        let columns = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
        // A name tells nothing.
        let right = RecordBatch::try_from_iter([("m", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
        assert_eq!(of_columns(right.clone(), &columns).unwrap(), right);
        let wrong = RecordBatch::try_from_iter([("n", Arc::new(Int32Array::from(vec![1])) as _)]).unwrap();
        for wrong in [wrong, RecordBatch::new_empty(Arc::new(Schema::empty()))] {
            assert!(of_columns(wrong, &columns).is_err());
        }
    }
}
