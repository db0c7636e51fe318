//! An operator that hands on the rows of another one unchanged, and does something beside: sets the execution context,
//! yields, counts memory, asks for an order, hides one, holds back what the optimizer would move through it.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, Statistics,
};
use futures::StreamExt;

/// What is done around the rows of an operator. It neither adds nor changes any.
pub trait Wrapper: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name of the operator in the text of a plan.
    const NAME: &'static str;
    /// Whether it says that its rows have the order of its input. Sorts and limits move through one that does.
    const KEEPS_ORDER: bool = true;
    /// Whether conditions on its rows become conditions on those of its input.
    const PASSES_CONDITIONS: bool = false;

    /// What the optimizer knows of its rows.
    fn properties(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(input.properties())
    }

    /// The order that its input must have, in one partition; and the most rows that it stands for.
    fn required(&self) -> Option<(&LexOrdering, usize)> {
        None
    }

    /// The context in which the operator runs.
    fn inner_context(&self, context: Arc<TaskContext>) -> Arc<TaskContext> {
        context
    }

    /// The rows of one partition, with something done whenever they are polled.
    fn wrap(&self, rows: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
        rows
    }
}

/// The operator `input` with a wrapper around its rows.
pub fn wrapped(input: Arc<dyn ExecutionPlan>, wrapper: impl Wrapper) -> Arc<dyn ExecutionPlan> {
    let properties = wrapper.properties(&input);
    Arc::new(WrapperExec { input, wrapper, properties })
}

/// What an operator wraps with this wrapper, and the wrapper, if it does.
pub fn inside<W: Wrapper>(plan: &dyn ExecutionPlan) -> Option<(&Arc<dyn ExecutionPlan>, &W)> {
    plan.downcast_ref::<WrapperExec<W>>().map(|WrapperExec { input, wrapper, .. }| (input, wrapper))
}

/// The rows, each batch of which is looked at or changed.
pub fn each_batch(
    rows: SendableRecordBatchStream,
    mut change: impl FnMut(RecordBatch) -> Result<RecordBatch> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(rows.schema(), rows.map(move |batch| change(batch?))))
}

#[derive(Debug)]
struct WrapperExec<W> {
    input: Arc<dyn ExecutionPlan>,
    wrapper: W,
    properties: Arc<PlanProperties>,
}

impl<W: Wrapper> DisplayAs for WrapperExec<W> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(W::NAME)
    }
}

impl<W: Wrapper> ExecutionPlan for WrapperExec<W> {
    fn name(&self) -> &str {
        W::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let distribution = match self.wrapper.required() {
            Some(_) => Distribution::SinglePartition,
            None => Distribution::UnspecifiedDistribution,
        };
        InputDistributionRequirements::new(vec![distribution])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.wrapper.required().map(|(order, _)| OrderingRequirements::from(order.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![W::KEEPS_ORDER]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for key in self.wrapper.required().into_iter().flat_map(|(order, _)| order) {
            if f(&key.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => wrapped(input, self.wrapper.clone()),
            None => self,
        })
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        match W::PASSES_CONDITIONS {
            true => FilterDescription::from_children(conditions, &self.children()),
            false => Ok(FilterDescription::all_unsupported(&conditions, &self.children())),
        }
    }

    /// The engine decides by the number of rows which side of a join is held in memory.
    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let input = inputs.first().map_or_else(|| Statistics::new_unknown(&self.schema()).into(), Arc::clone);
        Ok(match self.wrapper.required() {
            Some((_, rows)) => Arc::new(Arc::unwrap_or_clone(input).with_fetch(Some(rows), 0, 1)?),
            None => input,
        })
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition.filter(|_| self.wrapper.required().is_none()))]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        match self.wrapper.required() {
            Some(_) => CardinalityEffect::LowerEqual,
            None => CardinalityEffect::Equal,
        }
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, self.wrapper.inner_context(Arc::clone(&context)))?;
        Ok(self.wrapper.wrap(rows, &context))
    }
}
