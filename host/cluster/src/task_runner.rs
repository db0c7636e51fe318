//! Running a task on the machine that this is: its bytes are decoded, and run by an engine.
//!
//! It is the same for workers of a network, for workers in this process, and for a coordinator that runs a task which no
//! worker runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tidegate_functions::context::{ExecutionContext, StatementMemory, Stop};
use tidegate_model::{Code, Failure};
use tidegate_sql::{Engine, OperatorRun, RunBounds};
use tidegate_store::HeldSegments;
use uuid::Uuid;

use crate::decoder::decode;
use crate::local_leaves::LocalLeaves;
use crate::task::TaskBounds;
use crate::worker_failure::WorkerFailure;

/// Runs tasks with an engine. All tasks of one statement share one memory, as the operators of a statement do that runs
/// on one machine.
#[derive(Debug)]
pub struct TaskRunner {
    engine: Engine,
    /// The memory of the statements that have tasks here, by [`TaskBounds::statement`].
    statements: Mutex<HashMap<Uuid, Weak<StatementMemory>>>,
}

impl TaskRunner {
    /// A runner of tasks with this engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, statements: Mutex::default() }
    }

    /// Bytes that the tasks hold now; of an engine that also runs statements, theirs too.
    pub fn memory_held(&self) -> usize {
        self.engine.memory_held()
    }

    /// Starts the encoded plan of a task of another machine, over the segments that the task names and no others. It runs
    /// until its rows and their senders are dropped; what computes for long stops when the stop sign is set.
    ///
    /// # Errors
    /// If the plan is refused, if there is no memory, or if the plan fails at its start.
    pub fn run(
        &self,
        plan: &[u8],
        held: &HeldSegments,
        bounds: &TaskBounds,
    ) -> Result<(OperatorRun, Stop), WorkerFailure> {
        let stop = Stop::after(bounds.time.unwrap_or(Duration::MAX));
        let memory = self.memory_of(bounds);
        let run = ExecutionContext::of_request(stop.clone()).enter(|| self.run_in(plan, held, bounds, memory))?;
        Ok((run, stop))
    }

    /// Starts the encoded plan of a task in the memory of a statement of this machine, and under the stop sign of the
    /// current execution context. Of the bounds, only the rows of a batch are used.
    ///
    /// # Errors
    /// As [`TaskRunner::run`].
    pub fn run_in(
        &self,
        plan: &[u8],
        held: &HeldSegments,
        bounds: &TaskBounds,
        memory: Arc<StatementMemory>,
    ) -> Result<OperatorRun, WorkerFailure> {
        let mut refused = None;
        let decoded = |context: &_| {
            decode(plan, held, context, &LocalLeaves::default()).map_err(|error| {
                let failure = Failure::new(Code::Internal, error.to_string());
                refused = Some(error.to_string());
                failure
            })
        };
        let run = self.engine.run_operators(decoded, RunBounds { memory, batch_rows: bounds.batch_rows });
        match refused {
            Some(why) => Err(WorkerFailure::Nonsense(why)),
            None => run.map_err(WorkerFailure::of_run),
        }
    }

    /// The memory of the statement of a task: what is held here for the task before it runs counts there too, as long as
    /// this is held.
    pub fn memory_of(&self, bounds: &TaskBounds) -> Arc<StatementMemory> {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = statements.get(&bounds.statement).and_then(Weak::upgrade) {
            return memory;
        }
        statements.retain(|_, memory| memory.strong_count() > 0);
        let memory = self.engine.memory_of_statement(bounds.memory);
        statements.insert(bounds.statement, Arc::downgrade(&memory));
        memory
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::MemoryConsumer;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::empty::EmptyExec;
    use tidegate_sql::EngineOptions;

    use super::*;

    #[test]
    fn tasks_of_one_statement_share_its_memory() {
        let engine = Engine::new(&EngineOptions { statement_memory: 3000, ..EngineOptions::default() }).unwrap();
        let runner = TaskRunner::new(engine);
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let plan = crate::encode(&plan, &Default::default(), None).unwrap().bytes;
        let memory = |statement: u128, memory: usize| {
            let bounds = TaskBounds { statement: Uuid::from_u128(statement), memory, batch_rows: 100, time: None };
            runner.run(&plan, &HeldSegments::default(), &bounds).unwrap().0.memory
        };
        let (one, same, other) = (memory(1, 1000), memory(1, 1000), memory(2, 1000));
        let held = |pool| MemoryConsumer::new("test").register(pool);
        let held = [held(&one), held(&same), held(&other)];
        held[0].try_grow(600).unwrap();
        assert!(held[1].try_grow(600).is_err() && held[1].try_grow(400).is_ok());
        held[2].try_grow(1000).unwrap();
        assert_eq!(runner.memory_held(), 2000);
        drop(held);
        drop((one, same, other));
        assert_eq!(runner.memory_held(), 0);
        // A worker lets no statement have more than it lets any.
        let one = memory(1, 1 << 30);
        let held = MemoryConsumer::new("test").register(&one);
        assert!(held.try_grow(3001).is_err() && held.try_grow(3000).is_ok());
        assert_eq!(runner.statements.lock().unwrap().len(), 1, "statements that ended are forgotten");
    }
}
