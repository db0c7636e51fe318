//! Columns that are constant below an outer join or grouping sets, and not above.
//!
//! The engine takes a column that a filter compares with a constant for that constant. It keeps that through an outer join
//! that adds NULLs to the filtered side, and through grouping sets, which leave keys out. Then it drops the column from
//! orders, and sorts, limits, windows and groups are wrong: `ORDER BY x.l` of
//! `y LEFT JOIN (SELECT * FROM s WHERE l = 'e') AS x`. So below such an operator stands one that declares nothing of its
//! rows. Seen with DataFusion 55.2.0, in `EquivalenceGroup::join` and `AggregateExec::compute_properties`; no issue of it
//! was found. `tests/dialect/nullable_constants.rs` has a test of the engine alone, which fails when this can go.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::unordered::Unordered;

/// Puts [`Unordered`] below operators that add NULLs to constant columns. It stands before all rules that look at orders.
#[derive(Debug)]
pub(super) struct NullableConstants;

impl PhysicalOptimizerRule for NullableConstants {
    fn name(&self) -> &'static str {
        "nullable_constants"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let nullable = nullable_inputs(node.as_ref());
            let is_wrong = |(input, nullable): (&&Arc<dyn ExecutionPlan>, &bool)| {
                *nullable && !input.equivalence_properties().constants().is_empty()
            };
            let inputs = node.children();
            if !inputs.iter().zip(&nullable).any(is_wrong) {
                return Ok(Transformed::no(node));
            }
            let inputs = inputs.iter().zip(&nullable).map(|(input, nullable)| match is_wrong((input, nullable)) {
                true => Unordered::of(Arc::clone(input)),
                false => Arc::clone(input),
            });
            let inputs = inputs.collect();
            Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
        })
        .data()
    }
}

/// Which inputs of an operator have columns that are NULL in some of its rows, though not in theirs.
fn nullable_inputs(node: &dyn ExecutionPlan) -> Vec<bool> {
    let join = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let join = join.or_else(|| node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()));
    let join = join.or_else(|| node.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type));
    match join {
        Some(JoinType::Left) => vec![false, true],
        Some(JoinType::Right) => vec![true, false],
        Some(JoinType::Full) => vec![true, true],
        Some(_) => Vec::new(),
        None => node
            .downcast_ref::<AggregateExec>()
            .filter(|aggregate| aggregate.group_expr().has_grouping_set())
            .map_or_else(Vec::new, |_| vec![true]),
    }
}
