//! Faults of the engine that statements meet, each worked around in a file of its own.
//!
//! The head of a file names the upstream issue or pull request, if one was found, the version in which the fault was seen, and
//! when the file can go. `tests` runs a statement for each over the engine alone, or the file has a test of its own: it
//! fails when the fault is mended. Two more faults need no file, and stand in `sessions`: filters that MIN and MAX make while
//! they run, and projections that filters take in.

pub(crate) mod distinct;
pub(crate) mod filters_past_limits;
pub(crate) mod float_joins;
pub(crate) mod group_filters;
pub(crate) mod leaf_projections;
pub(crate) mod nullable_constants;
pub(crate) mod sort_limits;
#[cfg(test)]
mod tests;
pub(crate) mod unordered_unions;
pub(crate) mod view_buffers;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

type Operator = Arc<dyn ExecutionPlan>;

/// A rule for physical plans that looks at each operator by itself, after its inputs.
#[derive(Debug)]
pub(crate) struct OperatorRule {
    name: &'static str,
    rewrite: fn(Operator) -> Result<Transformed<Operator>>,
}

impl PhysicalOptimizerRule for OperatorRule {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Operator, _: &ConfigOptions) -> Result<Operator> {
        plan.transform_up(self.rewrite).data()
    }
}
