//! The execution context: what belongs to one statement while it is planned and while it runs.
//!
//! It holds the statement's memory, its stop sign, its compiled regular expressions, the place for its first failure
//! and, while the statement is planned, the budget of the plan. Functions and operators never keep one: a plan would
//! then hold state of its statement, and could not run elsewhere. Instead the context is the current one of the
//! thread while a future is polled or a batch is computed ([`ExecutionContext::enter`] and its forms for futures and
//! streams), and code asks for it there: [`current`].
//!
//! The engine's own means do not suffice: its functions know nothing of the memory pool, a task-local variable is lost
//! in tasks that operators spawn, and a scan that evaluates a filter keeps only the text of an error. Operators take
//! the context of their statement from the session extensions of the `TaskContext` when they are executed.

mod counting;
mod error;
mod memory;
mod patterns;
pub mod planning;
mod scope;
mod stop;

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::error::Result;
use tidegate_model::Failure;

use crate::wording;
pub use counting::{Transient, count_copied, count_made};
pub use error::{failed, value_error};
pub use memory::StatementMemory;
pub use patterns::{Compiled, Patterns, compiled, engine_may_compile};
pub use planning::PlanningBudget;
pub use stop::Stop;

thread_local! {
    static CURRENT: RefCell<Option<Arc<ExecutionContext>>> = const { RefCell::new(None) };
}

/// What belongs to one statement, or to a request that has no statement yet.
#[derive(Debug)]
pub struct ExecutionContext {
    stop: Stop,
    phase: Phase,
    /// The first failure of a function that runs; while planning, that the plan is too large.
    failure: OnceLock<Failure>,
}

/// How far the statement is.
#[derive(Debug)]
enum Phase {
    /// A request, before a statement of it is planned.
    Request,
    Planning(Arc<PlanningBudget>),
    Running {
        memory: Arc<StatementMemory>,
        patterns: Arc<Patterns>,
    },
}

impl ExecutionContext {
    /// The context of a request, of which only the stop sign is known.
    pub fn of_request(stop: Stop) -> Arc<Self> {
        Self::new(stop, Phase::Request)
    }

    /// The context of a statement that is planned within `budget`. It stops with the current context.
    pub fn of_planning(budget: &Arc<PlanningBudget>) -> Arc<Self> {
        Self::new(current_stop(), Phase::Planning(Arc::clone(budget)))
    }

    /// The context of a statement that runs. `patterns` are those that were compiled while it was planned. It stops
    /// with the current context.
    pub fn of_run(memory: Arc<StatementMemory>, patterns: Arc<Patterns>) -> Arc<Self> {
        Self::new(current_stop(), Phase::Running { memory, patterns })
    }

    fn new(stop: Stop, phase: Phase) -> Arc<Self> {
        Arc::new(Self { stop, phase, failure: OnceLock::new() })
    }

    /// The first failure of a function of the statement that ran; while planning, that the plan is too large.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Keeps a failure of the statement, if it is the first.
    fn keep_failure(&self, failure: Failure) {
        // Only the first counts.
        let _ = self.failure.set(failure);
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// The most bytes that the statement held at a time; 0 for a request without one.
    pub fn peak_memory(&self) -> usize {
        self.memory().map_or(0, |memory| memory.peak())
    }

    /// The memory that the statement counts in; `None` for a request without one.
    pub fn memory(&self) -> Option<&Arc<StatementMemory>> {
        match &self.phase {
            Phase::Request => None,
            Phase::Planning(budget) => Some(budget.memory()),
            Phase::Running { memory, .. } => Some(memory),
        }
    }

    fn patterns(&self) -> Option<&Arc<Patterns>> {
        match &self.phase {
            Phase::Request => None,
            Phase::Planning(budget) => Some(budget.patterns()),
            Phase::Running { patterns, .. } => Some(patterns),
        }
    }

    fn budget(&self) -> Option<&Arc<PlanningBudget>> {
        match &self.phase {
            Phase::Planning(budget) => Some(budget),
            Phase::Request | Phase::Running { .. } => None,
        }
    }
}

/// What `ask` finds in the thread's current context; `None` where there is none. `ask` must not enter another one.
pub fn current<T>(ask: impl FnOnce(&ExecutionContext) -> T) -> Option<T> {
    CURRENT.with_borrow(|context| context.as_deref().map(ask))
}

fn current_stop() -> Stop {
    current(|context| context.stop.clone()).unwrap_or_else(Stop::never)
}

/// How long the current statement may still run; `None` if nobody set a limit.
pub fn time_left() -> Option<Duration> {
    current(|context| context.stop.time_left()).flatten()
}

/// Fails if the result of the current statement is no longer wanted. Computations of seconds ask every few
/// milliseconds.
///
/// # Errors
/// [`tidegate_model::Code::Timeout`].
pub fn check() -> Result<()> {
    if current(|context| context.stop.is_due()).unwrap_or(false) {
        return Err(failed(wording::timed_out()));
    }
    Ok(())
}

/// The same for steps of planning.
///
/// # Errors
/// [`tidegate_model::Code::Timeout`].
pub fn check_planning() -> std::result::Result<(), Failure> {
    if current(|context| context.stop.is_due()).unwrap_or(false) {
        return Err(wording::timed_out_planning());
    }
    Ok(())
}
