//! SELECT DISTINCT with a LIMIT.
//!
//! The optimizer gives such an aggregation a hint to stop after so many groups, if its input has no order. If the input
//! has one after all (that of a window below), the engine takes the hint for one with a direction, and fails. So the
//! hint is removed there.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The plan without hints that the engine cannot follow.
pub(super) fn without_hints(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        let undirected = aggregate.limit_options().is_some_and(|limit| limit.descending.is_none());
        let follows = aggregate.is_unordered_unfiltered_group_by_distinct() || aggregate.get_minmax_desc().is_some();
        if !undirected || follows {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>))
    })
    .data()
}
