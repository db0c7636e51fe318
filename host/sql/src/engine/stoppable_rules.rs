//! The optimizer's rules, each of which checks the stop sign first: planning has no other points at which a statement
//! that nobody waits for can be stopped.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::context::{check_planning, failed};

use super::limits;
use super::security_barrier::ConditionsPassBarrier;

/// A rule of the optimizer that checks the stop sign first.
#[derive(Debug)]
struct Stoppable<R: ?Sized>(Arc<R>);

impl OptimizerRule for Stoppable<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_planning().map_err(failed)?;
        if !matches!(plan, LogicalPlan::Projection(_)) || self.name() != MOVES_FIELDS_DOWN {
            return self.0.rewrite(plan, config);
        }
        // It sometimes makes a column twice, and fails. Nothing depends on this rule: the plan stays as it was.
        let before = plan.clone();
        self.0.rewrite(plan, config).or_else(|error| {
            tracing::debug!(%error, "planned without {MOVES_FIELDS_DOWN}");
            Ok(Transformed::no(before))
        })
    }
}

/// The rule that moves the reading of struct fields towards the scan. It changes projections only.
const MOVES_FIELDS_DOWN: &str = "push_down_leaf_projections";

impl PhysicalOptimizerRule for Stoppable<dyn PhysicalOptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check_planning().map_err(failed)?;
        self.0.optimize(plan, config)
    }
    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn datafusion::physical_optimizer::PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_planning().map_err(failed)?;
        self.0.optimize_with_context(plan, context)
    }
}

/// The rule that moves filters down.
const MOVES_FILTERS_DOWN: &str = "push_down_filter";

/// The engine's rules for logical plans, and the one of ours that goes on where a filter meets a security barrier.
pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::default().rules {
        let moves_filters = rule.name() == MOVES_FILTERS_DOWN;
        rules.push(Arc::new(Stoppable(rule)));
        if moves_filters {
            rules.push(Arc::new(ConditionsPassBarrier));
        }
    }
    rules
}

/// The engine's rules for physical plans.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let rules = limits::physical_rules().into_iter();
    rules.map(|rule| Arc::new(Stoppable(rule)) as Arc<dyn PhysicalOptimizerRule + Send + Sync>).collect()
}
