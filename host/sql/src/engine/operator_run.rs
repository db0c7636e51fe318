//! Running operators that were made elsewhere: a part of a statement that another machine planned.
//!
//! What belongs to one run on one machine is put around them here, as around the operators of a statement of this
//! machine: memory that is counted, the stop sign, turns, the execution context.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use tidegate_functions::context::{ExecutionContext, PlanningBudget, StatementMemory};
use tidegate_model::number;

use super::cost::read_by;
use super::run::Run;
use super::statement_cost::StatementCost;
use super::{Engine, batch, with_own_operators};
use crate::fail::{Planning, Result, from_running};

/// What a run of operators may use.
#[derive(Debug, Clone)]
pub struct RunBounds {
    /// What its operators hold counts here. Several runs of one statement share it.
    pub memory: Arc<StatementMemory>,
    /// Rows of a batch; fewer where rows are wide.
    pub batch_rows: usize,
}

/// What a run has cost so far. It keeps the operators, and not their rows.
#[derive(Debug, Clone)]
pub struct OperatorCost {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<ExecutionContext>,
}

impl OperatorCost {
    /// What the run has cost so far; it is no statement of its own.
    pub fn so_far(&self) -> StatementCost {
        StatementCost { memory: number(self.context.peak_memory()), ..read_by(&self.plan) }
    }
}

/// The rows of one partition, and why there are no more.
pub struct OperatorRows {
    rows: SendableRecordBatchStream,
    context: Arc<ExecutionContext>,
    /// The memory of the plan counts until all rows have come.
    _budget: Arc<PlanningBudget>,
}

impl fmt::Debug for OperatorRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorRows").finish_non_exhaustive()
    }
}

impl OperatorRows {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Stream for OperatorRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.poll_next_unpin(cx);
        next.map(|next| next.map(|batch| batch.map_err(|error| from_running(error, self.context.failure()))))
    }
}

/// Operators that can run, with what belongs to the run among them. Those who have them execute them.
#[derive(Debug)]
pub struct PreparedOperators {
    /// The operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What they are executed with.
    pub task: Arc<TaskContext>,
    context: Arc<ExecutionContext>,
    budget: Arc<PlanningBudget>,
}

impl PreparedOperators {
    /// The rows of operators that were executed with this task context.
    pub fn rows(&self, rows: SendableRecordBatchStream) -> OperatorRows {
        OperatorRows { rows, context: Arc::clone(&self.context), _budget: Arc::clone(&self.budget) }
    }

    /// What the run costs.
    pub fn cost(&self) -> OperatorCost {
        OperatorCost { plan: Arc::clone(&self.plan), context: Arc::clone(&self.context) }
    }
}

impl Engine {
    /// Makes the operators that `make` makes, which is given the options and the files of the engine, ready to run. They
    /// stop with the current execution context of the thread.
    ///
    /// # Errors
    /// Those of `make`, and if the operators cannot be made.
    pub fn prepare_operators(
        &self,
        make: impl FnOnce(&TaskContext) -> Result<Arc<dyn ExecutionPlan>>,
        bounds: RunBounds,
    ) -> Result<PreparedOperators> {
        let budget = PlanningBudget::new(&self.total_memory, self.statement_memory);
        let plan = ExecutionContext::of_planning(&budget).enter(|| {
            let plan = make(&TaskContext::from(&self.sessions.usual))?;
            with_own_operators(plan, self.counted).planned()
        })?;
        let rows = batch::rows_by_width(&plan).min(bounds.batch_rows.max(1));
        let Run { task, context } = self.new_run(self.sessions.usual.config().clone(), &budget, bounds.memory, rows)?;
        Ok(PreparedOperators { plan, task, context, budget })
    }
}
