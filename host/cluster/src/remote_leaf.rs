//! The operator that stands in the place of what workers run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use tidegate_functions::context::{ExecutionContext, time_left};
use tidegate_sql::StatementCost;
use uuid::Uuid;

use crate::cut_report::{AttemptReport, RunReport};
use crate::task::{Attempt, AttemptsSoFar, CostSoFar, Task, TaskBounds, TaskRows, TaskRun, Workers};
use crate::task_figures::TaskFigures;
use crate::worker_failure::WorkerFailure;

/// The rows of tasks, whose partitions follow one another. A task is started when the first of its partitions is read.
#[derive(Debug, Clone)]
pub(crate) struct RemoteLeaf {
    workers: Arc<dyn Workers>,
    statement: Uuid,
    tasks: Arc<[Task]>,
    properties: Arc<PlanProperties>,
    runs: Arc<TaskRuns>,
}

/// The tasks of one run of the operator.
#[derive(Debug, Default)]
pub(crate) struct TaskRuns {
    started: Mutex<HashMap<usize, Started>>,
}

impl TaskRuns {
    fn started(&self) -> MutexGuard<'_, HashMap<usize, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the task at a place has done so far; `None` if it was not started.
    pub(crate) fn report(&self, place: usize) -> Option<RunReport> {
        let started = self.started();
        let Started { cost, attempts, figures, partitions: _ } = started.get(&place)?;
        let StatementCost { rows_read, bytes_read, memory, .. } = cost();
        let attempts = attempts().into_iter().map(|Attempt { worker, failure }| AttemptReport {
            worker: worker.map(|worker| worker.to_string()),
            failure,
        });
        let (taken, rows_sent, attempts) = (figures.taken(), figures.rows(), attempts.collect());
        Some(RunReport { taken, rows_sent, rows_read, bytes_read, memory, attempts })
    }
}

/// A task that runs; what was taken of its rows is `None`.
struct Started {
    partitions: Vec<Option<TaskRows>>,
    cost: CostSoFar,
    attempts: AttemptsSoFar,
    figures: Arc<TaskFigures>,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("partitions", &self.partitions.len()).finish_non_exhaustive()
    }
}

impl RemoteLeaf {
    /// The rows of tasks of a statement, of which there is at least one, with the orders and equivalences that each
    /// partition of each task has.
    pub(crate) fn of(
        workers: Arc<dyn Workers>,
        statement: Uuid,
        tasks: Arc<[Task]>,
        equivalences: EquivalenceProperties,
    ) -> Arc<Self> {
        let partitions = tasks.iter().map(|task| task.partitions).sum();
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let properties =
            PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        Arc::new(Self { workers, statement, tasks, properties: Arc::new(properties), runs: Arc::default() })
    }

    /// Its tasks, when it runs.
    pub(crate) fn runs(&self) -> Arc<TaskRuns> {
        Arc::clone(&self.runs)
    }

    /// The task that has a partition of the operator, and which of the task's partitions it is.
    fn place(&self, partition: usize) -> Option<(usize, usize)> {
        let mut before = 0;
        for (place, task) in self.tasks.iter().enumerate() {
            if partition < before + task.partitions {
                return Some((place, partition - before));
            }
            before += task.partitions;
        }
        None
    }
}

/// The rows of a partition of a task, which is started if it does not run yet.
fn rows(leaf: &RemoteLeaf, (place, partition): (usize, usize), context: &TaskContext) -> Result<TaskRows> {
    let Some(task) = leaf.tasks.get(place) else { return internal_err!("there is no task {place}") };
    let mut started = leaf.runs.started();
    let run = match started.entry(place) {
        Entry::Occupied(run) => run.into_mut(),
        Entry::Vacant(place) => {
            let execution = context.session_config().get_extension::<ExecutionContext>();
            let home = execution.as_deref().and_then(ExecutionContext::memory);
            let Some(home) = home else { return internal_err!("a task is read outside of a statement") };
            let bounds = TaskBounds {
                statement: leaf.statement,
                memory: home.limit(),
                batch_rows: context.session_config().batch_size(),
                time: time_left(),
            };
            let TaskRun { partitions, cost, attempts } = leaf.workers.run(task, &bounds, home).map_err(ended)?;
            if partitions.len() != task.partitions {
                let why = format!("a task has {} partitions instead of {}", partitions.len(), task.partitions);
                return Err(ended(WorkerFailure::Nonsense(why)));
            }
            let figures = TaskFigures::new(partitions.len());
            let partitions = partitions.into_iter().map(|rows| Some(figures.counted(rows))).collect();
            place.insert(Started { partitions, cost, attempts, figures })
        }
    };
    let rows = run.partitions.get_mut(partition).and_then(Option::take);
    rows.map_or_else(|| internal_err!("a partition of a task is read twice"), Ok)
}

/// The error that a statement ends with.
fn ended(failure: WorkerFailure) -> DataFusionError {
    if failure.is_of_worker() {
        tracing::warn!(%failure, "a statement ends because of a worker");
    }
    failure.into_error()
}

impl DisplayAs for RemoteLeaf {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions: Vec<usize> = self.tasks.iter().map(|task| task.partitions).collect();
        write!(f, "RemoteLeaf: partitions of tasks={partitions:?}")
    }
}

impl ExecutionPlan for RemoteLeaf {
    fn name(&self) -> &'static str {
        "RemoteLeaf"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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

    /// Each run has tasks of its own.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { runs: Arc::default(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(at) = self.place(partition) else { return internal_err!("no task has partition {partition}") };
        let leaf = self.clone();
        let stream = async move { Ok::<_, DataFusionError>(rows(&leaf, at, &context)?.map_err(ended)) };
        let rows = futures::stream::once(stream).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    /// What the scans of the tasks have read, under the names that scans use, and the tasks.
    fn metrics(&self) -> Option<MetricsSet> {
        let started = self.runs.started();
        let all = started.values().map(|task| (task.cost)()).fold(StatementCost::default(), StatementCost::plus);
        let moves = started.values().map(|task| (task.attempts)().len().saturating_sub(1)).sum();
        let metrics = ExecutionPlanMetricsSet::new();
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        MetricBuilder::new(&metrics).output_rows(0).add(whole(all.rows_read));
        for (name, count) in
            [("bytes_scanned", whole(all.bytes_read)), ("remote_tasks", started.len()), ("remote_moves", moves)]
        {
            MetricBuilder::new(&metrics).counter(name, 0).add(count);
        }
        Some(metrics.clone_inner())
    }
}
