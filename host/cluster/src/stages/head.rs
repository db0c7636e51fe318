//! The stage that runs where the statement is.
//!
//! What belongs to one run is put among the operators of each stage on the machine that runs it. So the boundaries of the
//! head stage are leaves while that is done, and are put in again at last.

use std::collections::HashMap;
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
use tidegate_functions::context::failed;
use tidegate_model::{Code, Failure, Quota};
use tidegate_sql::{OwnOperator, OwnOperators, Wrapper, inside, own_failure, wrapped};

use super::boundaries::{of_new_run, tasks, with_inputs, without_inputs};
use super::planner;
use super::running::RunningStages;
use super::workers::StageList;
use crate::worker_failure::WorkerFailure;

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

/// The statement whose head stages run, also those of parts that several operators read. If one fails because of a worker
/// before its first row, it runs again. `own` puts among operators what belongs to one run.
pub(super) fn finished(plan: Arc<dyn ExecutionPlan>, own: OwnOperators) -> Result<Arc<dyn ExecutionPlan>> {
    let mut parts = HashMap::new();
    let plan = plan.transform_up(|node| {
        if let Some(OwnOperator::SharedRows { place, input }) = OwnOperator::of(node.as_ref()) {
            let input = match parts.get(&place.part) {
                Some(input) => Arc::clone(input),
                None => finished(input, Arc::clone(&own))?,
            };
            parts.insert(place.part, Arc::clone(&input));
            return Ok(Transformed::yes(OwnOperator::SharedRows { place, input }.into_plan()));
        }
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
        let (stages, list) = (Arc::clone(&self.stages), self.list.clone());
        let (run, own) = (Arc::clone(&self.run), Arc::clone(&self.own));
        let own: OwnOperators = Arc::new(move |plan| finished(own(plan)?, Arc::clone(&own)));
        // Nothing starts before it is read.
        let begun = async move {
            let mut rows = started(&stages, &list, &context)?;
            loop {
                match rows.next().await {
                    // Nobody has learnt anything of it.
                    Some(Err(error)) if is_of_worker(&error) => {
                        // What it holds is given back before others hold it.
                        drop(rows);
                        let (plan, list) = run.after(&error, &own)?;
                        rows = match list {
                            Some(list) => started(&plan, &list, &context)?,
                            None => return Ok(execute_stream(plan, context)?.map_err(at_home).boxed()),
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

/// What a run without workers fails with: that there is no memory for it is because of them.
fn at_home(error: DataFusionError) -> DataFusionError {
    let is_of_memory = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
        || own_failure(&error).is_some_and(|failure| failure.quota == Some(Quota::Memory));
    match is_of_memory {
        true => {
            let message = "the workers that read a part of the data failed, and this server has no memory left to read it \
                           itself; try again later";
            failed(Failure::new(Code::Overloaded, message).retry_after(1))
        }
        false => error,
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
    let rows = of_new_run(stages)?.execute(0, Arc::new(staged))?;
    let unstarted = list.faults.clone().wait().map(|failure| Some(Err(failure.into_error())));
    let mut rows = ended_by(rows, unstarted.boxed()).fuse().boxed();
    let (faults, tasks) = (list.faults.clone(), tasks(stages));
    let begun = async move {
        let first = rows.next().await;
        if let Some(Ok(_)) = &first {
            // Rows of this machine may be there before a worker says that it has no room: then the statement runs again.
            faults.all_started(tasks).await.map_err(WorkerFailure::into_error)?;
        }
        Ok::<_, DataFusionError>(futures::stream::iter(first).chain(rows))
    };
    Ok(futures::stream::once(begun).try_flatten().boxed())
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
