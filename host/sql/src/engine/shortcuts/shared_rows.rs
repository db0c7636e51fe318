//! The rows of a part of a plan that several operators read: computed once, held in memory, and read by each of them.
//!
//! All rows are there before the first of them is handed on, so no reader waits for another one, whatever the order in
//! which they are polled. What is held counts in the statement's memory and is bounded. If the rows are more than
//! that, they are dropped before anyone has read one, and each reader computes the part by itself. Where no reader may do so,
//! because it would get other rows, they may be as many as the statement may hold, and are held until it ends: a reader may
//! begin when all others have ended.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{SchedulingType, reset_plan_states};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, displayable,
};
use futures::future::{BoxFuture, Shared, WeakShared, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::shared_part::on_enough_stack;
use crate::engine::guards::window_memory::new_memory;

/// The most bytes that the rows of a shared part hold.
const HELD: usize = 64 << 20;

/// A reader of a part: which part it is, and which of the part's readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartReader {
    /// Tells the parts of a plan apart.
    pub part: usize,
    /// Tells the readers of a plan apart.
    pub reader: usize,
    /// Whether the rows must be the same for all readers, so that none of them may compute the part by itself.
    pub once: bool,
}

/// One reader of the rows of a shared part.
#[derive(Debug)]
pub(crate) struct SharedRows {
    place: PartReader,
    /// The plan of the part, which is no child: rules of the optimizer must not push into it what only one reader needs.
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl SharedRows {
    pub(crate) fn of(place: PartReader, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = input.properties().as_ref().clone().with_scheduling_type(SchedulingType::NonCooperative);
        Arc::new(Self { place, input, properties: Arc::new(properties) })
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    pub(crate) fn place(&self) -> PartReader {
        self.place
    }
}

/// The plan in which the plans of shared parts are changed too: each once, for all of its readers.
///
/// # Errors
/// Those of `change`.
pub(crate) fn with_inputs(
    plan: Arc<dyn ExecutionPlan>,
    change: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    with_changed(plan, &change, &mut HashMap::new())
}

fn with_changed(
    plan: Arc<dyn ExecutionPlan>,
    change: &impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    changed: &mut HashMap<usize, Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let Some(SharedRows { place, input, .. }) = node.downcast_ref() else {
            return Ok(Transformed::no(node));
        };
        let input = match changed.get(&place.part) {
            Some(input) => Arc::clone(input),
            None => change(on_enough_stack(|| with_changed(Arc::clone(input), change, changed))?)?,
        };
        changed.insert(place.part, Arc::clone(&input));
        Ok(Transformed::yes(SharedRows::of(*place, input)))
    });
    plan.map(|plan| plan.data)
}

/// A plan as text, and below it the plans of its shared parts.
pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    let mut text = displayable(plan.as_ref()).indent(true).to_string();
    let mut parts = BTreeMap::new();
    let mut plans = vec![Arc::clone(plan)];
    while let Some(plan) = plans.pop() {
        // The closure never fails, so neither does the walk.
        let _ = plan.apply(|node| {
            if let Some(SharedRows { place, input, .. }) = node.downcast_ref()
                && parts.insert(place.part, Arc::clone(input)).is_none()
            {
                plans.push(Arc::clone(input));
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    for (part, input) in parts {
        text.push_str(&format!("part {part}:\n{}", displayable(input.as_ref()).indent(true)));
    }
    text
}

impl DisplayAs for SharedRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartReader { part, reader, once } = self.place;
        write!(f, "SharedRows: part={part}, reader={reader}{}", if once { ", once" } else { "" })
    }
}

impl ExecutionPlan for SharedRows {
    fn name(&self) -> &'static str {
        "SharedRows"
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(parts) = context.session_config().get_extension::<SharedParts>() else {
            return Err(DataFusionError::Internal("a shared part runs without its statement".to_owned()));
        };
        // Taken now and not when the rows are asked for: what is computed lives as long as one of the readers.
        let rows = parts.rows(self.place, &self.input, &context);
        let (place, input) = (self.place, Arc::clone(&self.input));
        let stream = async move {
            match rows.await.map_err(DataFusionError::Shared)? {
                Some(held) => Ok(held.stream(partition)),
                None => parts.of_reader(place, &input)?.execute(partition, context),
            }
        };
        let rows = futures::stream::once(stream).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// All rows of a part.
#[derive(Debug)]
struct Held {
    partitions: Vec<Vec<RecordBatch>>,
    input: Arc<dyn ExecutionPlan>,
    /// Counts them.
    _memory: Arc<MemoryReservation>,
}

impl Held {
    fn stream(self: Arc<Self>, partition: usize) -> SendableRecordBatchStream {
        let schema = self.input.schema();
        let rows = (0..).map_while(move |batch| {
            let batch = self.partitions.get(partition)?.get(batch)?;
            Some(Ok(batch.clone()))
        });
        let rows = futures::stream::iter(rows);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// The rows of a part when they are there; `None` if they are too many to be held.
type Rows = Shared<BoxFuture<'static, std::result::Result<Option<Arc<Held>>, Arc<DataFusionError>>>>;
/// The same without keeping it: the task that computes it holds the context, and the context holds this.
type WeakRows = WeakShared<BoxFuture<'static, std::result::Result<Option<Arc<Held>>, Arc<DataFusionError>>>>;

/// The shared parts of one running statement.
#[derive(Debug, Default)]
pub(crate) struct SharedParts {
    rows: Mutex<HashMap<usize, WeakRows>>,
    /// The plans of readers that compute a part by themselves, by part and reader.
    own: Mutex<HashMap<(usize, usize), Arc<dyn ExecutionPlan>>>,
    /// The rows of parts that must not be computed again.
    kept: Mutex<HashMap<usize, Arc<Held>>>,
}

impl SharedParts {
    fn rows(self: &Arc<Self>, place: PartReader, input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Rows {
        let PartReader { part, once, .. } = place;
        let mut all = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = self.kept().get(&part) {
            return futures::future::ready(Ok(Some(Arc::clone(held)))).boxed().shared();
        }
        if let Some(rows) = all.get(&part).and_then(WeakShared::upgrade) {
            return rows;
        }
        let (input, context, parts) = (Arc::clone(input), Arc::clone(context), Arc::downgrade(self));
        let rows = async move {
            let rows = collected(input, context, if once { usize::MAX } else { HELD }).await?;
            if once && let (Some(parts), Some(rows)) = (parts.upgrade(), &rows) {
                parts.kept().insert(part, Arc::clone(rows));
            }
            Ok(rows)
        };
        let rows = rows.boxed().shared();
        all.extend(rows.downgrade().map(|weak| (part, weak)));
        rows
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<usize, Arc<Held>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of a reader that computes the part by itself: operators hold what belongs to one run of them.
    fn of_reader(&self, place: PartReader, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let PartReader { part, reader, .. } = place;
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = own.get(&(part, reader)) {
            return Ok(Arc::clone(plan));
        }
        let plan = reset_plan_states(Arc::clone(input))?;
        own.insert((part, reader), Arc::clone(&plan));
        Ok(plan)
    }
}

/// Why the rows of a part are not held.
enum Ended {
    TooMany,
    Failed(DataFusionError),
}

impl From<DataFusionError> for Ended {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error)
    }
}

/// Computes all partitions, each in a task of its own; at most `most` bytes, beyond which there are none, or what the statement
/// may hold. Dropping this stops them, and so does the first that ends early.
async fn collected(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    most: usize,
) -> std::result::Result<Option<Arc<Held>>, Arc<DataFusionError>> {
    // Each run has operators of its own: a reader that comes after all others have ended computes the part again.
    let plan = reset_plan_states(Arc::clone(&input))?;
    let memory = Arc::new(MemoryConsumer::new("shared rows").register(context.memory_pool()));
    let partitions = (0..plan.output_partitioning().partition_count()).map(|partition| {
        let rows = plan.execute(partition, Arc::clone(&context));
        let memory = Arc::clone(&memory);
        let task = SpawnedTask::spawn(async move { held(rows?, &memory, most).await });
        async move { task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))? }
    });
    match try_join_all(partitions).await {
        Ok(partitions) => Ok(Some(Arc::new(Held { partitions, input, _memory: memory }))),
        Err(Ended::TooMany) => {
            // The other tasks end soon, and not at once; the readers need the memory now.
            memory.free();
            Ok(None)
        }
        Err(Ended::Failed(error)) => Err(Arc::new(error)),
    }
}

/// The rows of one partition, counted in `memory`.
async fn held(
    mut rows: SendableRecordBatchStream,
    memory: &MemoryReservation,
    most: usize,
) -> std::result::Result<Vec<RecordBatch>, Ended> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let bytes = new_memory(&batch, batches.last());
        match memory.try_grow(bytes) {
            Err(error) if most == usize::MAX => return Err(Ended::Failed(error)),
            Ok(()) if memory.size() <= most => {}
            _ => return Err(Ended::TooMany),
        }
        batches.push(batch);
    }
    Ok(batches)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
