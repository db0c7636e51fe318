//! Corrections to two optimizer rules that move limits or filters past each other.
//!
//! A limit below an operator counts other rows than one above it. The engine's optimizer ignores that in two cases in
//! which a limit is not an operator of its own but a number in another one:
//!
//! - While it places sorts where orders are required, it moves them down, and the limit of a sort moves along: below the
//!   second half of an aggregation, whose input has each group several times (`SELECT DISTINCT x ... ORDER BY x LIMIT 4`
//!   gave three rows), or below a window that looks ahead. So limits are taken out of sorts before that rule, into an
//!   operator through which nothing moves, and are put back afterwards.
//! - Filters that operators make while they run (the worst of the best rows so far, the keys of a join's other side) are
//!   pushed down through operators that have a limit, and then the limit counts rows that it would not have reached. So
//!   a limit operator is put above these: filters are not pushed through one.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties, Statistics,
};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The engine's rules for physical plans, with the corrections.
pub(crate) fn physical_rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in PhysicalOptimizer::default().rules {
        match rule.name() {
            "EnsureRequirements" => rules.push(Arc::new(SortsWithoutLimits(rule))),
            // It looks for sorts with a limit.
            "LimitAggregation" => rules.extend([Arc::new(LimitPushdown::new()) as Rule, rule]),
            "FilterPushdown(Post)" => rules.extend([Arc::new(LimitsStopFilters) as Rule, rule]),
            _ => rules.push(rule),
        }
    }
    rules
}

/// The rule that places sorts, applied to sorts whose limits were taken out.
#[derive(Debug)]
struct SortsWithoutLimits(Rule);

impl PhysicalOptimizerRule for SortsWithoutLimits {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let apart = plan.transform_up(|node| {
            Ok(match node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?))) {
                Some((sort, rows)) if !sort.preserve_partitioning() => {
                    Transformed::yes(OrderedLimit::of(Arc::new(sort.with_fetch(None)), rows, sort.expr().clone()))
                }
                _ => Transformed::no(node),
            })
        });
        let placed = self.0.optimize(apart.data()?, config)?;
        let again = placed.transform_up(|node| {
            Ok(match node.downcast_ref::<OrderedLimit>() {
                Some(OrderedLimit { input, rows, order, .. }) => {
                    let mut limit = GlobalLimitExec::new(Arc::clone(input), 0, Some(*rows));
                    limit.set_required_ordering(Some(order.clone()));
                    Transformed::yes(Arc::new(limit) as Arc<dyn ExecutionPlan>)
                }
                None => Transformed::no(node),
            })
        });
        again.data()
    }
}

/// The first rows of an order. It exists only while sorts are placed: it requires its order and provides it, but says
/// that it maintains none, so that neither orders nor limits move through it.
#[derive(Debug)]
struct OrderedLimit {
    input: Arc<dyn ExecutionPlan>,
    rows: usize,
    order: LexOrdering,
    properties: Arc<PlanProperties>,
}

impl OrderedLimit {
    fn of(input: Arc<dyn ExecutionPlan>, rows: usize, order: LexOrdering) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            datafusion::physical_plan::Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Arc::new(Self { input, rows, order, properties: Arc::new(properties) })
    }
}

impl DisplayAs for OrderedLimit {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderedLimit: rows={}, order=[{}]", self.rows, self.order)
    }
}

impl ExecutionPlan for OrderedLimit {
    fn name(&self) -> &'static str {
        "OrderedLimit"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in &self.order {
            if f(&key.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => Self::of(input, self.rows, self.order.clone()),
            None => self,
        })
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let input =
            inputs.first().map_or_else(|| Statistics::new_unknown(&self.schema()), |input| input.as_ref().clone());
        Ok(Arc::new(input.with_fetch(Some(self.rows), 0, 1)?))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("an ordered limit exists only while sorts are placed".to_owned()))
    }
}

/// Puts a limit operator above operators that have a limit and let filters pass.
#[derive(Debug)]
struct LimitsStopFilters;

impl PhysicalOptimizerRule for LimitsStopFilters {
    fn name(&self) -> &'static str {
        "LimitsStopFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let stopped = plan.transform_up(|node| {
            let passes = node.is::<FilterExec>() || node.is::<HashJoinExec>() || node.is::<CoalescePartitionsExec>();
            Ok(match node.fetch() {
                Some(rows) if passes => {
                    Transformed::yes(Arc::new(LocalLimitExec::new(node, rows)) as Arc<dyn ExecutionPlan>)
                }
                _ => Transformed::no(node),
            })
        });
        stopped.data()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{col, is_not_null};
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::filter_pushdown::{FilterPushdownPhase, PushedDown};

    use super::*;

    /// A filter from above reaches the input of a filter, but not that of one with a limit.
    #[test]
    fn filters_do_not_pass_a_limit() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let condition = is_not_null(col("n", &schema).unwrap()).unwrap();
        let config = ConfigOptions::new();
        let input = Arc::new(EmptyExec::new(schema));
        let filter = FilterExec::try_new(Arc::clone(&condition), input).unwrap();
        for (rows, passes) in [(None, true), (Some(5), false)] {
            let plan = filter.with_fetch(rows).unwrap();
            let plan = LimitsStopFilters.optimize(plan, &config).unwrap();
            let asked = vec![Arc::clone(&condition)];
            let told = plan.gather_filters_for_pushdown(FilterPushdownPhase::Post, asked, &config).unwrap();
            let passed =
                told.parent_filters().iter().flatten().all(|told| matches!(told.discriminant, PushedDown::Yes));
            assert_eq!(passed, passes, "{rows:?}");
            assert_eq!(plan.fetch(), rows);
        }
    }

    /// The rules are known by their names.
    #[test]
    fn the_rules_stand_where_they_work() {
        let rules = physical_rules();
        let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let follows = |one: &str, other: &str| names.windows(2).any(|pair| pair == [one, other]);
        assert!(follows("LimitPushdown", "LimitAggregation"), "{names:?}");
        assert!(follows("LimitsStopFilters", "FilterPushdown(Post)"), "{names:?}");
        assert!(rules.iter().any(|rule| format!("{rule:?}").starts_with("SortsWithoutLimits")), "{names:?}");
    }
}
