//! The two rules that move the reading of struct fields towards the scan may fail; then the plan stays as it was.
//!
//! The rules make projections of leaves below others, and sometimes give a column twice, or two columns one name: as
//! for a condition that reads fields of both sides of a join whose sides come from one table. They change projections
//! only, and nothing depends on them.
//!
//! Seen with DataFusion 55.2.0: issues 25446 and 25447 upstream, with 25459 about all of the rules. It can go when
//! those are mended and no log tells "planned without" any more; statements that met it are among those of the
//! random tests (`tests/property`), and of the dialect's (`fields_and_subqueries`).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule that makes projections of the fields that conditions, keys and aggregates read.
pub(crate) const EXTRACTS_FIELDS: &str = "extract_leaf_expressions";
/// The rule that moves them towards the scan.
pub(crate) const MOVES_FIELDS_DOWN: &str = "push_down_leaf_projections";

/// One of the rules, which leaves a plan as it is where it fails.
#[derive(Debug)]
pub(crate) struct LeafProjections(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for LeafProjections {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // One of them is called for each node.
        if self.apply_order().is_some() && !matches!(plan, LogicalPlan::Projection(_)) {
            return self.0.rewrite(plan, config);
        }
        let before = plan.clone();
        self.0.rewrite(plan, config).or_else(|error| {
            tracing::debug!(%error, "planned without {}", self.name());
            Ok(Transformed::no(before))
        })
    }
}
