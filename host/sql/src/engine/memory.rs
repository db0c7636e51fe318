//! What statements may hold: each its own limit, all together the server's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

/// The memory of one statement, taken from the memory of all.
#[derive(Debug)]
pub(super) struct StatementMemory {
    all: Arc<dyn MemoryPool>,
    limit: usize,
    held: AtomicUsize,
}

impl StatementMemory {
    pub(super) fn new(all: Arc<dyn MemoryPool>, limit: usize) -> Self {
        Self { all, limit, held: AtomicUsize::new(0) }
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
        self.held.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let grown = |held: usize| held.checked_add(additional).filter(|held| *held <= self.limit);
        if self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            let message = format!("{additional} bytes more than {} of {}", self.reserved(), self.limit);
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        self.all.try_grow(reservation, additional).inspect_err(|_| {
            self.held.fetch_sub(additional, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}
