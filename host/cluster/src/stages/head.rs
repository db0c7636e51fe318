//! The stage that runs where the statement is.
//!
//! What belongs to one run is put among the operators of each stage on the machine that runs it. So the boundaries of the
//! head stage are leaves while that is done, and are put in again at last.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream};
use datafusion_distributed::{DistributedExec, DistributedExt, NetworkBoundaryExt};
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tidegate_model::Code;
use tidegate_sql::own_failure;

use super::planner;
use super::running::RunningStages;
use super::workers::StageList;

/// The head stage of a plan with boundaries, each of which is a leaf.
pub(super) fn without_inputs(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let head = Arc::clone(plan).transform_down(|node| {
        if !node.is_network_boundary() {
            return Ok(Transformed::no(node));
        }
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(StageInput(node));
        Ok(Transformed::new(leaf, true, TreeNodeRecursion::Jump))
    });
    head.map(|head| head.data)
}

/// The head stage with its boundaries again, as it runs; `other` runs instead if it fails because of a worker before its
/// first row.
pub(super) fn with_inputs(
    head: Arc<dyn ExecutionPlan>,
    other: Arc<dyn ExecutionPlan>,
    workers: StageList,
    run: &Arc<RunningStages>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = head.transform_down(|node| match node.downcast_ref::<StageInput>() {
        Some(StageInput(boundary)) => Ok(Transformed::new(Arc::clone(boundary), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(node)),
    });
    let stages: Arc<dyn ExecutionPlan> = Arc::new(DistributedExec::new(plan?.data));
    Ok(Arc::new(StageRun { stages, other, workers, run: Arc::clone(run) }))
}

/// The rows of a stage below, in the place of its boundary.
#[derive(Debug)]
struct StageInput(Arc<dyn ExecutionPlan>);

impl DisplayAs for StageInput {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageInput")
    }
}

impl ExecutionPlan for StageInput {
    fn name(&self) -> &'static str {
        "StageInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("the head stage was not finished")
    }
}

/// The run of all stages.
#[derive(Debug)]
struct StageRun {
    stages: Arc<dyn ExecutionPlan>,
    /// The same rows without these workers. It is no child: what has not run has cost nothing.
    other: Arc<dyn ExecutionPlan>,
    workers: StageList,
    run: Arc<RunningStages>,
}

impl DisplayAs for StageRun {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageRun: workers={}", self.workers.names.len())
    }
}

impl ExecutionPlan for StageRun {
    fn name(&self) -> &'static str {
        "StageRun"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.stages]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(stages) = children.into_iter().next() else { return Ok(self) };
        let Self { other, workers, run, .. } = self.as_ref();
        Ok(Arc::new(Self { stages, other: Arc::clone(other), workers: workers.clone(), run: Arc::clone(run) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let config = planner::settings(context.session_config().clone(), self.workers.names.len())?
            .with_distributed_channel_resolver(Arc::clone(&self.workers.channels));
        let staged = TaskContext::new(
            context.task_id(),
            context.session_id(),
            config,
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            context.runtime_env(),
        );
        let rows = self.stages.execute(partition, Arc::new(staged))?;
        let unstarted = self.workers.unstarted.clone().wait().map(|failure| Some(Err(failure.into_error())));
        let mut rows = Box::pin(ended_by(rows, unstarted.boxed()).fuse());
        let (other, run) = (Arc::clone(&self.other), Arc::clone(&self.run));
        let begun = async move {
            match rows.next().await {
                // Nobody has learnt anything of it.
                Some(Err(error)) if is_of_worker(&error) => {
                    tracing::info!(%error, "a statement runs again without exchanges between workers");
                    drop(rows);
                    run.falls_back();
                    execute_stream(reset_plan_states(other)?, context)
                }
                first => {
                    let all = futures::stream::iter(first).chain(rows);
                    Ok(Box::pin(RecordBatchStreamAdapter::new(other.schema(), all)) as SendableRecordBatchStream)
                }
            }
        };
        let rows = futures::stream::once(begun).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Rows that end with what comes of `ends`, if that comes first.
fn ended_by(
    rows: SendableRecordBatchStream,
    ends: BoxFuture<'static, Option<Result<RecordBatch>>>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    futures::stream::unfold(Some((rows, ends)), |going| async move {
        let (mut rows, ends) = going?;
        match select(rows.next(), ends).await {
            Either::Left((batch, ends)) => Some((batch?, Some((rows, ends)))),
            Either::Right((failure, _)) => Some((failure?, None)),
        }
    })
}

/// Whether it may go well without the worker.
fn is_of_worker(error: &DataFusionError) -> bool {
    let failure = own_failure(error);
    failure.is_some_and(|failure| matches!(failure.code, Code::DataUnavailable | Code::DataDamaged | Code::Overloaded))
}
