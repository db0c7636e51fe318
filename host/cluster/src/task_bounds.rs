//! What a task, the part of a statement that one worker runs, may use there.

use std::time::Duration;

use datafusion::common::internal_err;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use tidegate_functions::context::{ExecutionContext, time_left};
use uuid::Uuid;

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
