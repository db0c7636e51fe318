//! Joins by FLOAT64 do not tell the scan of their other side which keys there are.
//!
//! A hash join takes 0.0 and -0.0 for one key, as the dialect does. The filter that it makes while it runs looks for a key
//! in a list of those of the side that it has read, and that list compares by bits: with 0.0 in it, -0.0 is not found. A scan
//! that applies the filter leaves out rows that the join would have found. So a join by such a key is given a filter of its
//! own that no scan has, and makes no other. Joins by other keys keep theirs.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

/// Stands before the rule in which operators push down the filters that they make.
#[derive(Debug)]
pub(super) struct FloatJoins;

impl PhysicalOptimizerRule for FloatJoins {
    fn name(&self) -> &'static str {
        "FloatJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
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
        })
        .data()
    }
}
