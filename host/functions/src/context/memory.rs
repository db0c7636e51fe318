//! The memory pool of one statement: its own limit, within what all statements may hold together.
//!
//! Operators that keep rows take what they keep from this pool themselves. Arrays that functions make are not counted
//! by the engine, so functions claim them here (see `counting`), for as long as the array lives.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use tidegate_model::Failure;

use crate::wording::{SHARED_MEMORY, out_of_memory};

/// The memory of one statement, or of all components, taken from the memory of all.
#[derive(Debug)]
pub struct StatementMemory {
    all: Arc<dyn MemoryPool>,
    limit: usize,
    held: AtomicUsize,
    /// The most that was held at a time.
    peak: AtomicUsize,
    /// What functions made. Where the array outlives the statement, its memory is given back
    /// with the statement.
    made: MemoryReservation,
}

impl StatementMemory {
    /// A pool of at most `limit` bytes, each of which is also taken from `all`.
    pub fn new(all: Arc<dyn MemoryPool>, limit: usize) -> Self {
        let made = MemoryConsumer::new("function").register(&all);
        Self { all, limit, held: AtomicUsize::new(0), peak: AtomicUsize::new(0), made }
    }

    /// The most bytes that it may hold.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The most bytes that were held at a time.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Notes that this much is held now.
    fn held_now(&self, bytes: usize) {
        self.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Fails if arrays were claimed beyond a limit: a claim itself cannot be refused.
    pub(super) fn check(&self) -> std::result::Result<(), Failure> {
        let held = self.reserved();
        if held > self.limit {
            return Err(out_of_memory(&format!("functions made {held} bytes of {}", self.limit)));
        }
        self.made.try_grow(0).map_err(|error| out_of_memory(&error.to_string()))
    }
}

/// The statement's memory in the form in which arrays claim their buffers. Claims cannot be refused, so the limit is
/// checked afterwards.
#[derive(Debug)]
pub(super) struct Claims<'a>(pub(super) &'a Arc<StatementMemory>);

impl arrow_buffer::MemoryPool for Claims<'_> {
    fn reserve(&self, size: usize) -> Box<dyn arrow_buffer::MemoryReservation> {
        let mut claim = Claim { memory: Arc::downgrade(self.0), size: 0 };
        arrow_buffer::MemoryReservation::resize(&mut claim, size);
        Box::new(claim)
    }

    fn available(&self) -> isize {
        let whole = |size: usize| isize::try_from(size).unwrap_or(isize::MAX);
        whole(self.0.limit) - whole(self.0.reserved())
    }

    fn used(&self) -> usize {
        self.0.reserved()
    }

    fn capacity(&self) -> usize {
        self.0.limit
    }
}

/// What one buffer of an array holds.
#[derive(Debug)]
struct Claim {
    memory: Weak<StatementMemory>,
    size: usize,
}

impl arrow_buffer::MemoryReservation for Claim {
    fn size(&self) -> usize {
        self.size
    }

    fn resize(&mut self, size: usize) {
        if let Some(memory) = self.memory.upgrade() {
            memory.made.grow(size);
            memory.held_now(memory.held.fetch_add(size, Ordering::Relaxed).saturating_add(size));
            memory.made.shrink(self.size);
            memory.held.fetch_sub(self.size, Ordering::Relaxed);
        }
        self.size = size;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        arrow_buffer::MemoryReservation::resize(self, 0);
    }
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.reserved(), self.limit)
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &'static str {
        "statement"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.held_now(self.held.fetch_add(additional, Ordering::Relaxed).saturating_add(additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let grown = |held: usize| held.checked_add(additional).filter(|held| *held <= self.limit);
        let Ok(before) = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) else {
            let message = format!("{additional} bytes more than {} of {}", self.reserved(), self.limit);
            return Err(DataFusionError::ResourcesExhausted(message));
        };
        self.all.try_grow(reservation, additional).map_err(|error| {
            self.held.fetch_sub(additional, Ordering::Relaxed);
            // Operators that can do with less look for this kind of error.
            DataFusionError::ResourcesExhausted(format!("{SHARED_MEMORY}: {error}"))
        })?;
        self.held_now(before.saturating_add(additional));
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

/// The failure of a refused reservation; `what` asked for it.
pub(super) fn refused(error: &DataFusionError, what: &str) -> Failure {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => out_of_memory(reason),
        _ => out_of_memory(what),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use tidegate_model::Code;

    use super::*;

    #[test]
    fn what_others_hold_is_told_apart_from_the_own_limit() {
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 << 20));
        let others = MemoryConsumer::new("others").register(&all);
        others.try_grow(3 << 20).unwrap();
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), 2 << 20));
        let pool: Arc<dyn MemoryPool> = Arc::clone(&memory) as _;
        let own = MemoryConsumer::new("own").register(&pool);
        let refused = |bytes: usize| refused(&own.try_grow(bytes).unwrap_err(), "a test").code;
        assert_eq!((refused(3 << 20), refused(2 << 20)), (Code::LimitExceeded, Code::Overloaded));
        drop(others);
        own.try_grow(2 << 20).unwrap();
        assert_eq!(refused(1), Code::LimitExceeded);
        own.shrink(2 << 20);
        assert_eq!(memory.peak(), 2 << 20, "refused requests and what was given back do not count");
    }
}
