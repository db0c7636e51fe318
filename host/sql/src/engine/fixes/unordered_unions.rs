//! Unions whose rows have no order, for plans that are made again because an order was lost.
//!
//! Where inputs of a UNION ALL have a column twice, or columns to sort by that are constant in some of them, the engine moves
//! a sort below the union, but does not find the order again above it. Its last check then refuses the plan. An
//! operator above each union that keeps no order holds the sort above it.
//!
//! Seen with DataFusion 55.2.0: issue 16171 upstream, open, for a column that stands twice; 17372, closed, for constants. It can
//! go when the engine alone plans the statement in `tests`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use super::OperatorRule;
use crate::engine::wrapper::{Wrapper, wrapped};

/// Puts [`Unordered`] above each union.
pub(crate) const RULE: OperatorRule = OperatorRule {
    name: "unordered_unions",
    // By name: the scan of a source takes itself for a union, and has another one.
    rewrite: |node| {
        Ok(if node.name() == "UnionExec" { Transformed::yes(wrapped(node, Unordered)) } else { Transformed::no(node) })
    },
};

/// Hands on the rows of its input, and declares neither an order of them nor constant columns.
#[derive(Debug, Clone)]
pub(crate) struct Unordered;

impl Wrapper for Unordered {
    const NAME: &'static str = "Unordered";
    const KEEPS_ORDER: bool = false;
    const PASSES_CONDITIONS: bool = true;

    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let unordered = EquivalenceProperties::new(input.schema());
        let partitions = input.output_partitioning().clone();
        let properties = PlanProperties::new(unordered, partitions, input.pipeline_behavior(), input.boundedness());
        Arc::new(properties.with_scheduling_type(input.properties().scheduling_type))
    }
}
