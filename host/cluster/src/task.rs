//! A task is the part of a statement that one worker runs; [`Workers`] run tasks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use futures::stream::BoxStream;
use tidegate_functions::context::{ExecutionContext, StatementMemory, time_left};
use tidegate_sql::StatementCost;
use tidegate_store::HeldSegments;
use uuid::Uuid;

use crate::encoder::EncodedPlan;
use crate::worker_failure::WorkerFailure;

/// What one worker runs: a plan over segments of one source.
#[derive(Debug, Clone)]
pub struct Task {
    /// The name of the worker that is to run it: one of [`Workers::names`] when the plan was cut.
    pub worker: Arc<str>,
    /// The plan, and the segments that it reads.
    pub plan: EncodedPlan,
    /// These segments. Their files stay while this is held.
    pub held: HeldSegments,
    /// How many partitions the plan has.
    pub partitions: usize,
    /// The columns of its rows.
    pub schema: SchemaRef,
    /// Bytes of segments that it reads, about, as they are stored and with all columns.
    pub bytes: u64,
    /// Rows that it reads, about, before any condition.
    pub rows: u64,
}

/// What a task may use on its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskBounds {
    /// The statement, by a random number: all tasks of one statement on one worker share its memory there.
    pub statement: Uuid,
    /// Bytes that all tasks of the statement may hold together on one worker: what the statement may hold on the
    /// coordinator. A worker may have a lower limit of its own.
    pub memory: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// How long it may run; `None` if nobody set a limit.
    pub time: Option<Duration>,
}

impl TaskBounds {
    /// Those of a task of the statement that runs with this context: what it may still use.
    ///
    /// # Errors
    /// If no statement runs with it.
    pub fn of_statement(statement: Uuid, context: &TaskContext) -> Result<Self, DataFusionError> {
        let execution = context.session_config().get_extension::<ExecutionContext>();
        let home = execution.as_ref().and_then(|execution| Some((execution, execution.memory()?)));
        let Some((execution, home)) = home else { return internal_err!("a task is sent outside of a statement") };
        let batch_rows = context.session_config().batch_size();
        Ok(Self { statement, memory: home.limit(), batch_rows, time: execution.enter(time_left) })
    }
}

/// The rows of one partition of a task. It ends without a failure only if the worker said that there are no more rows.
/// Nothing comes after a failure.
pub type TaskRows = BoxStream<'static, Result<RecordBatch, WorkerFailure>>;

/// What a task has cost so far.
pub type CostSoFar = Box<dyn Fn() -> StatementCost + Send + Sync>;

/// One attempt to run a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The name of the worker; `None` is this machine.
    pub worker: Option<Arc<str>>,
    /// Why it did not go well; `None` also while it goes on. For operators, not for callers.
    pub failure: Option<String>,
}

/// The attempts to run a task so far.
pub type AttemptsSoFar = Box<dyn Fn() -> Vec<Attempt> + Send + Sync>;

/// A task that runs. When all of its rows were dropped, it ends, and what it held is given back.
pub struct TaskRun {
    /// The rows of each partition, as many as the task has.
    pub partitions: Vec<TaskRows>,
    /// What the task has cost so far, also after its end.
    pub cost: CostSoFar,
    /// Where it ran, if that may be elsewhere than the task says; none if not.
    pub attempts: AttemptsSoFar,
}

impl TaskRun {
    /// A task with the rows of its partitions, and what it costs.
    pub fn new(partitions: Vec<TaskRows>, cost: impl Fn() -> StatementCost + Send + Sync + 'static) -> Self {
        Self { partitions, cost: Box::new(cost), attempts: Box::new(Vec::new) }
    }

    /// The same task, which may run elsewhere.
    #[must_use]
    pub fn with_attempts(self, attempts: impl Fn() -> Vec<Attempt> + Send + Sync + 'static) -> Self {
        Self { attempts: Box::new(attempts), ..self }
    }
}

impl fmt::Debug for TaskRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRun").field("partitions", &self.partitions.len()).finish_non_exhaustive()
    }
}

/// What runs tasks: in this process, or on other machines.
pub trait Workers: fmt::Debug + Send + Sync {
    /// The names of the workers, by which segments are shared out. A worker that comes back has the same name.
    fn names(&self) -> Vec<Arc<str>>;

    /// Starts a task, within a runtime and in the execution context of its statement. Its partitions are read in any
    /// order, and none waits for another one to be read. `home` is the memory of the statement on this machine: what is held
    /// here of rows that nobody has taken yet counts there.
    ///
    /// # Errors
    /// If the worker does not take the task, also if it is gone. What fails later comes with the rows, with its code and place.
    fn run(&self, task: &Task, bounds: &TaskBounds, home: &Arc<StatementMemory>) -> Result<TaskRun, WorkerFailure>;
}
