//! The operator that stands in the place of what workers run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use tidegate_functions::context::{ExecutionContext, failed, time_left};
use tidegate_sql::StatementCost;
use uuid::Uuid;

use crate::task::{CostSoFar, Task, TaskBounds, TaskRows, TaskRun, Workers};
use crate::worker_failure::WorkerFailure;

/// The rows of tasks, whose partitions follow one another. A task is started when the first of its partitions is read.
#[derive(Debug, Clone)]
pub(crate) struct RemoteLeaf {
    workers: Arc<dyn Workers>,
    statement: Uuid,
    tasks: Arc<[Task]>,
    properties: Arc<PlanProperties>,
    runs: Arc<Runs>,
}

/// The tasks of one run of the operator.
#[derive(Debug, Default)]
struct Runs {
    started: Mutex<HashMap<usize, Started>>,
}

/// A task that runs; what was taken of its rows is `None`.
struct Started {
    partitions: Vec<Option<TaskRows>>,
    cost: CostSoFar,
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
    let mut started = leaf.runs.started.lock().unwrap_or_else(PoisonError::into_inner);
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
            let TaskRun { partitions, cost, .. } = leaf.workers.run(task, &bounds, home).map_err(of_worker)?;
            if partitions.len() != task.partitions {
                let why = format!("a task has {} partitions instead of {}", partitions.len(), task.partitions);
                return Err(of_worker(WorkerFailure::Nonsense(why)));
            }
            place.insert(Started { partitions: partitions.into_iter().map(Some).collect(), cost })
        }
    };
    let rows = run.partitions.get_mut(partition).and_then(Option::take);
    rows.map_or_else(|| internal_err!("a partition of a task is read twice"), Ok)
}

/// The failure of a worker as one of the statement.
fn of_worker(failure: WorkerFailure) -> DataFusionError {
    failed(failure.into_failure())
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
        let stream = async move { Ok::<_, DataFusionError>(rows(&leaf, at, &context)?.map_err(of_worker)) };
        let rows = futures::stream::once(stream).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }

    /// What the scans of the tasks have read, under the names that scans use.
    fn metrics(&self) -> Option<MetricsSet> {
        let started = self.runs.started.lock().unwrap_or_else(PoisonError::into_inner);
        let costs: Vec<StatementCost> = started.values().map(|task| (task.cost)()).collect();
        let metrics = ExecutionPlanMetricsSet::new();
        let add = |count: Count, numbers: &mut dyn Iterator<Item = u64>| {
            numbers.for_each(|number| count.add(usize::try_from(number).unwrap_or(usize::MAX)));
        };
        add(MetricBuilder::new(&metrics).output_rows(0), &mut costs.iter().map(|cost| cost.rows_read));
        add(MetricBuilder::new(&metrics).counter("bytes_scanned", 0), &mut costs.iter().map(|cost| cost.bytes_read));
        Some(metrics.clone_inner())
    }
}
