//! Filters that operators make while they run do not pass an operator that has a limit.
//!
//! The worst of the best rows so far, or the keys of a join's other side, are pushed down as filters. The engine pushes them
//! through filters, joins and merges of partitions whose limit is a number in them, and then the limit counts rows
//! that it would not have reached. A limit operator above these holds such filters back.
//!
//! Seen with DataFusion 55.2.0. Upstream, issue 21063 is the same fault of the logical rule and of sorts, which is mended; of
//! these operators no issue was found. It can go when `gather_filters_for_pushdown` of the three looks at `fetch`, which
//! the test below tells.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;

use super::OperatorRule;

/// Puts a limit operator above operators that have a limit and let filters pass.
pub(crate) const RULE: OperatorRule = OperatorRule {
    name: "LimitsStopFilters",
    rewrite: |node| {
        let passes = node.is::<FilterExec>() || node.is::<HashJoinExec>() || node.is::<CoalescePartitionsExec>();
        Ok(match node.fetch() {
            Some(rows) if passes => {
                Transformed::yes(Arc::new(LocalLimitExec::new(node, rows)) as Arc<dyn ExecutionPlan>)
            }
            _ => Transformed::no(node),
        })
    },
};

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::config::ConfigOptions;
    use datafusion::physical_expr::expressions::{col, is_not_null};
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};

    use super::*;

    /// A filter from above reaches the input of a filter, but not that of one with a limit; in the engine alone it does.
    #[test]
    fn filters_do_not_pass_a_limit() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let condition = is_not_null(col("n", &schema).unwrap()).unwrap();
        let config = ConfigOptions::new();
        let filter = FilterExec::try_new(Arc::clone(&condition), Arc::new(EmptyExec::new(schema))).unwrap();
        let passes = |plan: &Arc<dyn ExecutionPlan>| {
            let asked = vec![Arc::clone(&condition)];
            let told = plan.gather_filters_for_pushdown(FilterPushdownPhase::Post, asked, &config).unwrap();
            told.parent_filters().iter().flatten().all(|told| matches!(told.discriminant, PushedDown::Yes))
        };
        for rows in [None, Some(5)] {
            let alone = filter.with_fetch(rows).unwrap();
            let plan = RULE.optimize(Arc::clone(&alone), &config).unwrap();
            assert_eq!((passes(&alone), passes(&plan)), (true, rows.is_none()), "{rows:?}");
            assert_eq!(plan.fetch(), rows);
        }
    }
}
