//! An operator that hands on what another one makes, with something of ours done around it.

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
pub(crate) trait Around: fmt::Debug + Clone + Send + Sync + 'static {
    /// How the operator is called in a plan's text.
    const NAME: &'static str;

    /// The rows of one partition, with something done whenever they are polled.
    fn around(&self, rows: SendableRecordBatchStream, context: &TaskContext) -> SendableRecordBatchStream;
}

/// The operator, with `around` done.
pub(crate) fn through(input: Arc<dyn ExecutionPlan>, around: impl Around) -> Arc<dyn ExecutionPlan> {
    Arc::new(Through { input, around })
}

#[derive(Debug)]
struct Through<A> {
    input: Arc<dyn ExecutionPlan>,
    around: A,
}

impl<A: Around> DisplayAs for Through<A> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(A::NAME)
    }
}

impl<A: Around> ExecutionPlan for Through<A> {
    fn name(&self) -> &str {
        A::NAME
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
            Some(input) => through(input, self.around.clone()),
            None => self,
        })
    }

    /// How many rows there are decides which side of a join is held.
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
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        Ok(self.around.around(rows, &context))
    }
}
