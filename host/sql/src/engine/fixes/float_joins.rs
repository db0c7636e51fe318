//! Joins by FLOAT64 do not tell the scan of their other side which keys there are.
//!
//! A hash join takes 0.0 and -0.0 for one key, as the dialect does. The filter that it makes while it runs looks for a key
//! in a list of those of the side that it has read, and that list compares by bits: with 0.0 in it, -0.0 is not found. A scan
//! that applies the filter leaves out rows that the join would have found. So a join by such a key is given a filter of its
//! own that no scan has, and makes no other. Joins by other keys keep theirs.
//!
//! Seen with DataFusion 55.2.0: lists compare by bits, which pull request 25186 upstream, still open, would mend; joins take
//! both zeros for one since 22835. It can go when a list with 0.0 has -0.0 in it, which the test below tells.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use super::OperatorRule;

/// Stands before the rule in which operators push down the filters that they make.
pub(crate) const RULE: OperatorRule = OperatorRule {
    name: "FloatJoins",
    rewrite: |node| {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
        let schema = join.right().schema();
        let keys: Vec<Arc<dyn PhysicalExpr>> = join.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        let types = keys.iter().map(|key| key.data_type(&schema)).collect::<Result<Vec<_>>>()?;
        if !types.contains(&DataType::Float64) {
            return Ok(Transformed::no(node));
        }
        let unused = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
        let join = join.builder().build()?.with_dynamic_filter_expr(unused)?;
        Ok(Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>))
    },
};

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch};
    use datafusion::physical_expr::expressions::{col, in_list};

    use super::*;

    /// When this fails, the list of keys compares as joins do, and this file can go.
    #[test]
    fn the_engine_alone_does_not_find_the_other_zero_in_a_list() {
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        let batch = RecordBatch::try_from_iter([("k", keys)]).unwrap();
        let list = vec![lit(0.0), lit(1.0), lit(2.0), lit(3.0), lit(4.0), lit(5.0)];
        let found = in_list(col("k", &batch.schema()).unwrap(), list, &false, &batch.schema()).unwrap();
        let found = found.evaluate(&batch).unwrap().into_array(2).unwrap();
        assert_eq!((found.as_boolean().value(0), found.as_boolean().value(1)), (true, false));
    }
}
