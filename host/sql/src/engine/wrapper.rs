//! An operator that hands on the rows of another one unchanged, with a stream of ours around them: to set the execution
//! context, to yield, to count memory.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics};

/// What is done around the rows of an operator. It neither adds, drops nor changes any.
pub(crate) trait Wrapper: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name of the operator in the text of a plan.
    const NAME: &'static str;

    /// The context in which the operator runs.
    fn inner_context(&self, context: Arc<TaskContext>) -> Arc<TaskContext> {
        context
    }

    /// The rows of one partition, with something done whenever they are polled.
    fn wrap(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream;
}

/// The operator `input` with a wrapper around its rows.
pub(crate) fn wrapped(input: Arc<dyn ExecutionPlan>, wrapper: impl Wrapper) -> Arc<dyn ExecutionPlan> {
    Arc::new(WrapperExec { input, wrapper })
}

/// What an operator wraps with this wrapper, if it does.
pub(crate) fn inside<W: Wrapper>(plan: &dyn ExecutionPlan) -> Option<&Arc<dyn ExecutionPlan>> {
    plan.downcast_ref::<WrapperExec<W>>().map(|wrapper| &wrapper.input)
}

#[derive(Debug)]
struct WrapperExec<W> {
    input: Arc<dyn ExecutionPlan>,
    wrapper: W,
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
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match children.into_iter().next() {
            Some(input) => wrapped(input, self.wrapper.clone()),
            None => self,
        })
    }

    /// The engine decides by the number of rows which side of a join is held in memory.
    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Statistics::new_unknown(&self.schema()).into(), Arc::clone))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, self.wrapper.inner_context(Arc::clone(&context)))?;
        Ok(self.wrapper.wrap(rows, &context))
    }
}
