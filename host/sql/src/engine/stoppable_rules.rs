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

use super::float_joins::FloatJoins;
use super::limits;
use super::nullable_constants::NullableConstants;
use super::security_barrier::ConditionsPassBarrier;

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;

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

/// Rules that never change a plan of ours. The first looks at every expression for a comparison with ANY or ALL of a set,
/// which the resolver does not make, and took a tenth of the optimizer's time; nor does the resolver make lateral joins; the
/// settings of the others are off.
const NEVER_APPLY: [&str; 4] =
    ["rewrite_set_comparison", "decorrelate_lateral_join", "unions_to_filter", "filter_null_join_keys"];

/// Rules that find more to do in a second pass. Conditions that passed a barrier or a subquery that became a join go on to
/// joins and the scan, and so does the reading of fields of records; a union within a union becomes one.
const APPLY_AGAIN: [&str; 13] = [
    "optimize_unions",
    "simplify_expressions",
    "extract_equijoin_predicate",
    "eliminate_filter",
    "eliminate_cross_join",
    "propagate_empty_relation",
    "eliminate_outer_join",
    "push_down_limit",
    MOVES_FILTERS_DOWN,
    "common_sub_expression_eliminate",
    "extract_leaf_expressions",
    MOVES_FIELDS_DOWN,
    "optimize_projections",
];

/// The rules for logical plans, for one pass of the optimizer: those of the engine that can change a plan of ours, with the
/// one of ours that goes on where a filter meets a security barrier, and once more those that a second pass is for.
pub(crate) fn logical_rules() -> Vec<LogicalRule> {
    let mut rules = all_logical_rules();
    rules.retain(|rule| !NEVER_APPLY.contains(&rule.name()));
    let again: Vec<_> = rules.iter().filter(|rule| is_again(rule.name())).map(Arc::clone).collect();
    rules.extend(again);
    rules
}

fn is_again(name: &str) -> bool {
    APPLY_AGAIN.contains(&name) || name == ConditionsPassBarrier.name()
}

/// All of the engine's rules for logical plans, and ours: for as many passes as the optimizer makes. The plans are the
/// same as those of [`logical_rules`], which tests compare.
pub(crate) fn all_logical_rules() -> Vec<LogicalRule> {
    let mut rules: Vec<LogicalRule> = Vec::new();
    for rule in Optimizer::default().rules {
        let moves_filters = rule.name() == MOVES_FILTERS_DOWN;
        rules.push(Arc::new(Stoppable(rule)));
        if moves_filters {
            rules.push(Arc::new(ConditionsPassBarrier));
        }
    }
    rules
}

/// The rule in which operators push down the filters that they make while they run.
const MOVES_MADE_FILTERS_DOWN: &str = "FilterPushdown(Post)";

/// The engine's rules for physical plans, with corrections.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = limits::physical_rules();
    if let Some(place) = rules.iter().position(|rule| rule.name() == MOVES_MADE_FILTERS_DOWN) {
        rules.insert(place, Arc::new(FloatJoins));
    }
    rules.insert(0, Arc::new(NullableConstants));
    let rules = rules.into_iter();
    rules.map(|rule| Arc::new(Stoppable(rule)) as Arc<dyn PhysicalOptimizerRule + Send + Sync>).collect()
}
