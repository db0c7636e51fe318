//! The optimizer's rules: those of the engine that can change a plan of ours, each of which checks the stop sign first, with
//! ours among them.

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use super::fixes::group_filters::GroupFilters;
use super::fixes::leaf_projections::{EXTRACTS_FIELDS, LeafProjections, MOVES_FIELDS_DOWN};
use super::fixes::sort_limits::SortsWithoutLimits;
use super::fixes::{filters_past_limits, float_joins, nullable_constants};
use super::guards::barrier::ConditionsPassBarrier;
use super::guards::stoppable_rules::Stoppable;

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rule that moves filters down.
const MOVES_FILTERS_DOWN: &str = "push_down_filter";

/// Rules that never change a plan of ours. The first looks at every expression for a comparison with ANY or ALL of a set,
/// which the resolver does not make, and took a tenth of the optimizer's time; nor does the resolver make lateral joins; the
/// settings of the others are off.
const NEVER_APPLY: [&str; 4] =
    ["rewrite_set_comparison", "decorrelate_lateral_join", "unions_to_filter", "filter_null_join_keys"];

/// Rules that find more to do in a second pass. Conditions that passed a barrier or a subquery that became a join go on to
/// joins and the scan, and so does the reading of fields of records; a union within a union becomes one.
const APPLY_AGAIN: [&str; 14] = [
    "optimize_unions",
    "simplify_expressions",
    "extract_equijoin_predicate",
    "eliminate_filter",
    "eliminate_join",
    "eliminate_cross_join",
    "propagate_empty_relation",
    "eliminate_outer_join",
    "push_down_limit",
    MOVES_FILTERS_DOWN,
    "common_sub_expression_eliminate",
    EXTRACTS_FIELDS,
    MOVES_FIELDS_DOWN,
    "optimize_projections",
];

/// The rules for logical plans, for one pass of the optimizer: those of the engine that can change a plan of ours, with the
/// one of ours that goes on where a filter meets a security barrier, and once more those that a second pass is for.
pub(super) fn logical_rules() -> Vec<LogicalRule> {
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
pub(super) fn all_logical_rules() -> Vec<LogicalRule> {
    let mut rules: Vec<LogicalRule> = Vec::new();
    for rule in Optimizer::default().rules {
        let name = rule.name().to_owned();
        let rule: LogicalRule = match name.as_str() {
            EXTRACTS_FIELDS | MOVES_FIELDS_DOWN => Arc::new(LeafProjections(rule)),
            MOVES_FILTERS_DOWN => Arc::new(GroupFilters(rule)),
            _ => rule,
        };
        rules.push(Arc::new(Stoppable(rule)));
        if name == MOVES_FILTERS_DOWN {
            rules.push(Arc::new(ConditionsPassBarrier));
        }
    }
    rules
}

/// The engine's rules for physical plans, with those that work around its faults.
pub(super) fn physical_rules() -> Vec<PhysicalRule> {
    let mut rules: Vec<PhysicalRule> = vec![Arc::new(nullable_constants::RULE)];
    for rule in PhysicalOptimizer::default().rules {
        match rule.name() {
            "EnsureRequirements" => rules.push(Arc::new(SortsWithoutLimits(rule))),
            // It looks for sorts with a limit.
            "LimitAggregation" => rules.extend([Arc::new(LimitPushdown::new()) as PhysicalRule, rule]),
            // Here operators push down the filters that they make while they run.
            "FilterPushdown(Post)" => {
                rules.extend([Arc::new(filters_past_limits::RULE) as PhysicalRule, Arc::new(float_joins::RULE), rule])
            }
            _ => rules.push(rule),
        }
    }
    rules.into_iter().map(|rule| Arc::new(Stoppable(rule)) as PhysicalRule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's rules are known by their names.
    #[test]
    fn the_rules_stand_where_they_work() {
        let rules = physical_rules();
        let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let follows = |one: &str, other: &str| names.windows(2).any(|pair| pair == [one, other]);
        assert!(follows("LimitPushdown", "LimitAggregation"), "{names:?}");
        assert!(follows("FloatJoins", "FilterPushdown(Post)"), "{names:?}");
        assert!(rules.iter().any(|rule| format!("{rule:?}").contains("SortsWithoutLimits")), "{names:?}");
        let rules = all_logical_rules();
        assert!(rules.iter().any(|rule| format!("{rule:?}").contains("LeafProjections")), "{rules:?}");
    }
}
