//! What a statement may use before it runs.
//!
//! A text is short, and what is made of it is not: a table read a thousand times has its columns a thousand
//! times, a parameter of a megabyte stands in the plan wherever it is named, and constants are computed while
//! the plan is made. So planning is done for a statement at hand, as running is: functions that fold constants
//! ask the same stop sign, take part in the same memory, and may do much less at once, because what is not
//! folded is computed when the statement runs. What the plan itself holds is estimated as it grows.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::memory::StatementMemory;
use super::statement::{Statement, at_hand};
use crate::fail::{Result, known, memory_failure};
use crate::functions::Patterns;
use crate::stop::Stop;

/// What an expression and a column of a plan take: themselves, their names and types, and the copies that the
/// optimizer and the plan that runs make of them, in bytes, roughly.
pub(crate) const EXPRESSION: usize = 1 << 10;
pub(crate) const COLUMN: usize = 1 << 10;

/// What is kept of a statement from its resolving to its end.
#[derive(Debug)]
pub(crate) struct Budget {
    memory: Arc<StatementMemory>,
    /// What the plan holds.
    plan: MemoryReservation,
    pub(crate) patterns: Arc<Patterns>,
}

impl Budget {
    /// A budget of so many bytes, taken from what all statements may hold.
    pub(crate) fn new(all: &Arc<dyn MemoryPool>, bytes: usize) -> Arc<Self> {
        let memory = Arc::new(StatementMemory::new(Arc::clone(all), bytes));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let plan = MemoryConsumer::new("plan").register(&pool);
        Arc::new(Self { memory, plan, patterns: Arc::new(Patterns::new(&pool)) })
    }

    /// The statement at hand while it is planned.
    pub(crate) fn statement(self: &Arc<Self>) -> Statement {
        Statement {
            memory: Arc::clone(&self.memory),
            stop: Stop::current(),
            failure: Arc::default(),
            patterns: Arc::clone(&self.patterns),
            planned: Some(Arc::clone(self)),
        }
    }
}

impl Statement {
    /// Does work of many steps with this as the statement at hand.
    pub(super) async fn cover_steps<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| -> Poll<T> { self.cover(|| work.as_mut().poll(cx)) }).await
    }

    /// Fails if the plan has become larger than it may be.
    pub(super) fn planned(&self) -> Result<()> {
        self.failure.get().cloned().map_or(Ok(()), Err)
    }
}

/// Counts bytes of the plan that is being made. Past the limit every [`check`] fails.
pub(crate) fn charge(bytes: usize) {
    at_hand(|statement| {
        let Some(budget) = &statement.planned else { return };
        if let Err(error) = budget.plan.try_grow(bytes) {
            let failure = known(&error).unwrap_or_else(|| memory_failure("a plan"));
            // Only the first counts.
            let _ = statement.failure.set(failure);
        }
    });
}

/// The bytes that were counted so far.
pub(crate) fn charged() -> usize {
    at_hand(|statement| statement.planned.as_ref().map_or(0, |budget| budget.plan.size())).unwrap_or_default()
}

/// Fails if the result is no longer wanted, or if the plan has become larger than it may be.
pub(crate) fn check() -> Result<()> {
    crate::stop::check()?;
    at_hand(Statement::planned).unwrap_or(Ok(()))
}

/// Whether a statement is being planned: what is computed stays in the plan.
pub(crate) fn is_at_hand() -> bool {
    at_hand(|statement| statement.planned.is_some()).unwrap_or(false)
}
