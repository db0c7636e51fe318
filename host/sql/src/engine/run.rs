//! What belongs to one run of operators: its memory, its settings, its execution context.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use tidegate_functions::context::{ExecutionContext, PlanningBudget, StatementMemory};

use super::Engine;
use super::shortcuts::shared_rows::SharedParts;
use crate::fail::{Planning, Result};

/// What the operators of one run have in common.
pub(super) struct Run {
    pub(super) task: Arc<TaskContext>,
    pub(super) context: Arc<ExecutionContext>,
}

impl Engine {
    /// A run with these settings, in batches of so many rows. Its execution context stops with the current one of the
    /// thread.
    pub(super) fn new_run(
        &self,
        settings: SessionConfig,
        budget: &PlanningBudget,
        memory: Arc<StatementMemory>,
        rows: usize,
    ) -> Result<Run> {
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let context = ExecutionContext::of_run(memory, Arc::clone(budget.patterns()));
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.runtime).with_memory_pool(pool).build().planned()?;
        let settings = settings
            .with_batch_size(rows)
            .with_extension(Arc::clone(&context))
            .with_extension(Arc::<SharedParts>::default());
        let task = TaskContext::from(&self.sessions.usual);
        let task = task.with_session_config(settings).with_runtime(Arc::new(runtime));
        Ok(Run { task: Arc::new(task), context })
    }

    /// Memory for one statement: at most so many bytes, and never more than any statement may hold, within what all may hold
    /// together.
    pub fn memory_of_statement(&self, bytes: usize) -> Arc<StatementMemory> {
        Arc::new(StatementMemory::new(Arc::clone(&self.total_memory), bytes.min(self.statement_memory)))
    }
}
