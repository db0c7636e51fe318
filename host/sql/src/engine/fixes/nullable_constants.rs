//! Columns that are constant below an outer join or grouping sets, and not above.
//!
//! The engine takes a column that a filter compares with a constant for that constant. It keeps that through an outer join
//! that adds NULLs to the filtered side, and through grouping sets, which leave keys out. Then it drops the column from
//! orders, and sorts, limits, windows and groups are wrong: `ORDER BY x.l` of
//! `y LEFT JOIN (SELECT * FROM s WHERE l = 'e') AS x`. So below such an operator stands one that declares nothing of its
//! rows.
//!
//! Seen with DataFusion 55.2.0, in `EquivalenceGroup::join` and `AggregateExec::compute_properties`; not reported upstream as far
//! as found. It can go when the engine alone answers the statements in `tests`.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::OperatorRule;
use super::unordered_unions::Unordered;
use crate::engine::wrapper::wrapped;

/// Puts [`Unordered`] below operators that add NULLs to constant columns. It stands before all rules that look at orders.
pub(crate) const RULE: OperatorRule = OperatorRule {
    name: "nullable_constants",
    rewrite: |node| {
        let inputs = node.children();
        let is_wrong = |input: &Arc<dyn ExecutionPlan>| !input.equivalence_properties().constants().is_empty();
        let wrong: Vec<bool> = inputs
            .iter()
            .zip(nullable_inputs(node.as_ref()))
            .map(|(input, nullable)| nullable && is_wrong(input))
            .collect();
        if !wrong.contains(&true) {
            return Ok(Transformed::no(node));
        }
        let inputs = inputs.into_iter().zip(wrong).map(|(input, wrong)| match wrong {
            true => wrapped(Arc::clone(input), Unordered),
            false => Arc::clone(input),
        });
        let inputs = inputs.collect();
        Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
    },
};

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
