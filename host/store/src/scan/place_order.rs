//! The rows of some calls in the order of their commits.
//!
//! A filter leaves the rows of these calls, and [`PlaceOrder`] stands above it. It hands on its rows unchanged, and requires
//! them in one stream and in the order of their places, so that the optimizer puts a sort below it and leaves it there: the
//! operators of a followed statement rely on that order, which no operator of theirs asks for.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{compute::SortOptions, datatypes::SchemaRef},
    common::{Statistics, config::ConfigOptions, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::Operator,
    physical_expr::{
        Distribution, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
        expressions::{BinaryExpr, Column, lit},
        projection::ProjectionExpr,
    },
    physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
        StatisticsArgs,
        execution_plan::CardinalityEffect,
        filter::FilterExec,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        projection::ProjectionExec,
    },
};

use crate::field_names::{CALL, PLACE};

/// Calls of a source by their numbers: those after the first and up to the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallRange {
    pub(crate) after: i64,
    pub(crate) last: i64,
}

impl CallRange {
    /// The rows of a scan that came with these calls, in the order of their places, in its first `columns` columns.
    /// The scan has the columns of places.
    pub(crate) fn ordered(self, scan: Arc<dyn ExecutionPlan>, columns: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = scan.schema();
        let is = |operator, number: i64| -> Result<Arc<dyn PhysicalExpr>> {
            Ok(Arc::new(BinaryExpr::new(Arc::new(Column::new_with_schema(CALL, &schema)?), operator, lit(number))))
        };
        let (after, up_to) = (is(Operator::Gt, self.after)?, is(Operator::LtEq, self.last)?);
        let within = FilterExec::try_new(Arc::new(BinaryExpr::new(after, Operator::And, up_to)), scan)?;
        let order = place_order(&schema)?;
        let ordered: Arc<dyn ExecutionPlan> = Arc::new(PlaceOrder { input: Arc::new(within), order });
        if columns == schema.fields().len() {
            return Ok(ordered);
        }
        let first = schema.fields().iter().enumerate().take(columns);
        let first = first.map(|(at, field)| ProjectionExpr::new(Arc::new(Column::new(field.name(), at)), field.name()));
        Ok(Arc::new(ProjectionExec::try_new(first, ordered)?))
    }
}

fn place_order(schema: &SchemaRef) -> Result<LexOrdering> {
    let ascending = SortOptions { descending: false, nulls_first: false };
    let key = |name| Ok(PhysicalSortExpr::new(Arc::new(Column::new_with_schema(name, schema)?), ascending));
    let keys = PLACE.into_iter().map(key).collect::<Result<Vec<_>>>()?;
    LexOrdering::new(keys).ok_or_else(|| DataFusionError::Internal("an ordering of two columns is empty".to_owned()))
}

/// Hands on the rows of its input, which come in the order of their places.
#[derive(Debug)]
struct PlaceOrder {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
}

impl DisplayAs for PlaceOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PlaceOrder {
    fn name(&self) -> &'static str {
        "PlaceOrder"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(self.order.clone().into())]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        let mut recursion = TreeNodeRecursion::Continue;
        for key in &self.order {
            recursion = f(&key.expr)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.into_iter().next() else { return Ok(self) };
        let order = place_order(&input.schema())?;
        Ok(Arc::new(PlaceOrder { input, order }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Statistics::new_unknown(&self.schema()).into(), Arc::clone))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    /// Conditions of the statement pass: the sort holds only rows for which they are true.
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
