//! What a statement may use before it runs.
//!
//! A short text can make a large plan: a table that is read a thousand times has its columns a thousand times, a
//! parameter of a megabyte stands in the plan wherever it is named, and constants are computed while the plan is
//! made. So planning has a context, as running has: functions that fold constants ask the same stop sign, take part in
//! the same memory, and may make much less at once, because what is not folded is computed when the statement runs.
//! What the plan itself holds is estimated as it grows.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::Failure;

use super::current;
use super::memory::{StatementMemory, refused};
use super::patterns::Patterns;

/// What an expression of a plan is estimated to take, in bytes: itself, its name and type, and the copies that the
/// optimizer and the physical plan make of it.
pub const EXPRESSION: usize = 1 << 10;
/// The same for a column.
pub const COLUMN: usize = 1 << 10;

/// The memory of a statement from its resolving to its end, beside that of its operators.
#[derive(Debug)]
pub struct PlanningBudget {
    memory: Arc<StatementMemory>,
    /// What the plan holds.
    plan: MemoryReservation,
    patterns: Arc<Patterns>,
}

impl PlanningBudget {
    /// A budget of so many bytes, taken from what all statements may hold.
    pub fn new(all: &Arc<dyn MemoryPool>, bytes: usize) -> Arc<Self> {
        let memory = Arc::new(StatementMemory::new(Arc::clone(all), bytes));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let plan = MemoryConsumer::new("plan").register(&pool);
        Arc::new(Self { memory, plan, patterns: Arc::new(Patterns::new(&pool)) })
    }

    /// The regular expressions that were compiled for the statement.
    pub fn patterns(&self) -> &Arc<Patterns> {
        &self.patterns
    }

    pub(super) fn memory(&self) -> &Arc<StatementMemory> {
        &self.memory
    }
}

/// Counts bytes of the plan that is being made. Past the limit every [`check`] fails.
pub fn charge(bytes: usize) {
    current(|context| {
        let Some(budget) = context.budget() else { return };
        if let Err(error) = budget.plan.try_grow(bytes) {
            context.keep_failure(refused(&error, "a plan"));
        }
    });
}

/// The bytes that were counted so far.
pub fn charged() -> usize {
    current(|context| context.budget().map_or(0, |budget| budget.plan.size())).unwrap_or_default()
}

/// Fails if the result is no longer wanted, or if the plan has become larger than it may be.
///
/// # Errors
/// A time-out, or what [`within_budget`] says.
pub fn check() -> Result<(), Failure> {
    super::check_planning()?;
    within_budget()
}

/// Fails if the plan has become larger than it may be.
///
/// # Errors
/// That the statement, or all together, need more memory than they may hold.
pub fn within_budget() -> Result<(), Failure> {
    let failure = current(|context| context.budget().and_then(|_| context.failure().cloned())).flatten();
    failure.map_or(Ok(()), Err)
}

/// Whether a statement is being planned: what is computed then stays in the plan.
pub(crate) fn is_current() -> bool {
    current(|context| context.budget().is_some()).unwrap_or(false)
}
