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
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, execute_stream,
};
use datafusion_distributed::DistributedExt;
use futures::future::{BoxFuture, Either, select};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tidegate_model::Code;
use tidegate_sql::{OwnOperators, Wrapper, inside, own_failure, wrapped};

use super::boundaries::{with_inputs, without_inputs};
use super::planner;
use super::running::RunningStages;
use super::workers::StageList;

/// The head stage of a plan, until what belongs to one run is among its operators.
pub(super) fn of(
    plan: &Arc<dyn ExecutionPlan>,
    list: &StageList,
    running: Arc<RunningStages>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let head = without_inputs(plan)?;
    if head.output_partitioning().partition_count() != 1 {
        return internal_err!("a head stage has several partitions");
    }
    Ok(wrapped(head, StageHead { list: list.clone(), running }))
}

/// The statement whose head stages run. If one fails because of a worker before its first row, it runs again.
pub(super) fn finished(plan: Arc<dyn ExecutionPlan>, own: OwnOperators) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let Some((head, StageHead { list, running })) = inside(node.as_ref()) else { return Ok(Transformed::no(node)) };
        let stages = with_inputs(Arc::clone(head))?;
        let (list, run, own) = (list.clone(), Arc::clone(running), Arc::clone(&own));
        let run: Arc<dyn ExecutionPlan> = Arc::new(StageRun { stages, list, run, own });
        Ok(Transformed::yes(run))
    });
    plan.map(|plan| plan.data)
}

/// A head stage in the plan of a statement.
#[derive(Debug, Clone)]
struct StageHead {
    list: StageList,
    running: Arc<RunningStages>,
}

impl Wrapper for StageHead {
    const NAME: &'static str = "StageHead";
}

/// The run of all stages of a plan.
struct StageRun {
    stages: Arc<dyn ExecutionPlan>,
    list: StageList,
    run: Arc<RunningStages>,
    own: OwnOperators,
}

impl fmt::Debug for StageRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageRun").field("stages", &self.stages).field("list", &self.list).finish_non_exhaustive()
    }
}

impl DisplayAs for StageRun {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageRun: workers={}", self.list.names.len())
    }
}

impl ExecutionPlan for StageRun {
    fn name(&self) -> &'static str {
        "StageRun"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stages.properties()
    }

    /// All that has run: each has cost something.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        std::iter::once(&self.stages).chain(self.run.plans()).collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(stages) = children.into_iter().next() else { return Ok(self) };
        let Self { list, run, own, .. } = self.as_ref();
        Ok(Arc::new(Self { stages, list: list.clone(), run: Arc::clone(run), own: Arc::clone(own) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("a statement in stages has one partition");
        }
        let mut rows = started(&self.stages, &self.list, &context)?;
        let (run, own) = (Arc::clone(&self.run), Arc::clone(&self.own));
        let begun = async move {
            loop {
                match rows.next().await {
                    // Nobody has learnt anything of it.
                    Some(Err(error)) if is_of_worker(&error) => {
                        // What it holds is given back before others hold it.
                        drop(rows);
                        let (plan, list) = run.after(&error, &own)?;
                        rows = match list {
                            Some(list) => started(&plan, &list, &context)?,
                            None => return Ok(execute_stream(plan, context)?.boxed()),
                        };
                    }
                    first => return Ok::<_, DataFusionError>(futures::stream::iter(first).chain(rows).boxed()),
                }
            }
        };
        let rows = futures::stream::once(begun).try_flatten().inspect_err(|error| {
            if is_of_worker(error) {
                tracing::warn!(%error, "a statement ends because of a worker");
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The rows of a statement, read by way of these workers.
fn started(stages: &Arc<dyn ExecutionPlan>, list: &StageList, context: &TaskContext) -> Result<Rows> {
    let config = planner::settings(context.session_config().clone(), list.names.len())?
        .with_distributed_channel_resolver(Arc::clone(&list.channels));
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
    let rows = stages.execute(0, Arc::new(staged))?;
    let unstarted = list.faults.clone().wait().map(|failure| Some(Err(failure.into_error())));
    Ok(ended_by(rows, unstarted.boxed()).fuse().boxed())
}

type Rows = BoxStream<'static, Result<RecordBatch>>;

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
