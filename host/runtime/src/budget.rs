//! The limits of one request, and what it has used of them. See [`crate::limits`] for how they are enforced.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::{Code, Failure, Limits, Quota};
use wasmtime::ResourceLimiter;

use crate::answer::Usage;
use crate::engine::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use crate::hard_limit::HardLimit;

/// Bytes that one table element counts as.
const TABLE_ELEMENT_BYTES: usize = 8;

/// The limits of one request, and what was used of them.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    max_ticks: u64,
    used: Usage,
    log_lines: u32,
    denied: Option<Denied>,
    /// The reservation of the guest in the memory that is shared with statements.
    shared: Option<MemoryReservation>,
}

/// Why memory was refused to a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Its own limit.
    Own,
    /// All components and statements together have reached their limit.
    Shared,
}

impl Budget {
    pub(crate) fn new(limits: Limits, tick: Duration, pool: Option<&Arc<dyn MemoryPool>>) -> Self {
        let ticks = limits.cpu.as_nanos().div_ceil(tick.as_nanos().max(1));
        let max_ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        Self {
            limits,
            max_ticks,
            used: Usage::default(),
            log_lines: 0,
            denied: None,
            shared: pool.map(|pool| MemoryConsumer::new("component").register(pool)),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn used(&self) -> Usage {
        self.used
    }

    /// Records the instructions that the engine counted.
    pub(crate) fn executed(&mut self, instructions: Option<u64>) {
        self.used.instructions = instructions;
    }

    /// Whether the guest was refused memory, and why.
    pub(crate) fn memory_denied(&self) -> Option<Denied> {
        self.denied
    }

    /// Reserves memory of the host for what the guest made, until the reservation is dropped. `None` if memory is not
    /// shared.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Option<MemoryReservation>, Failure> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let made = shared.new_empty();
        made.try_grow(bytes).map_err(|_| no_memory())?;
        Ok(Some(made))
    }

    /// Counts one call into the host.
    pub(crate) fn enter(&mut self) -> Result<(), HardLimit> {
        self.used.host_calls += 1;
        if self.used.host_calls > self.limits.host_calls { Err(HardLimit::HostCalls) } else { Ok(()) }
    }

    /// Counts one statement and returns whether it may run.
    pub(crate) fn statement(&mut self) -> bool {
        let allowed = self.used.statements < self.limits.statements;
        self.used.statements += u32::from(allowed);
        allowed
    }

    /// Counts one log line and returns whether it may be written.
    pub(crate) fn log_line(&mut self) -> bool {
        let allowed = self.log_lines < self.limits.log_lines;
        self.log_lines += u32::from(allowed);
        allowed
    }

    /// Rows that the guest may still read.
    pub(crate) fn rows_left(&self) -> u64 {
        self.limits.guest_rows.saturating_sub(self.used.guest_rows)
    }

    /// Bytes of batches that the guest may still read.
    pub(crate) fn bytes_left(&self) -> usize {
        self.limits.guest_bytes.saturating_sub(self.used.guest_bytes)
    }

    /// Counts a batch that the guest has read.
    pub(crate) fn read(&mut self, rows: u64, bytes: usize) {
        self.used.guest_rows = self.used.guest_rows.saturating_add(rows);
        self.used.guest_bytes = self.used.guest_bytes.saturating_add(bytes);
    }

    pub(crate) fn tick(&mut self) -> Result<(), HardLimit> {
        self.used.ticks += 1;
        if self.used.ticks > self.max_ticks { Err(HardLimit::Cpu) } else { Ok(()) }
    }

    fn grow(&mut self, bytes: usize) -> bool {
        let wanted = self.used.guest_memory.saturating_add(bytes);
        if wanted > self.limits.guest_memory {
            self.denied = Some(Denied::Own);
        } else if self.shared.as_ref().is_some_and(|shared| shared.try_grow(bytes).is_err()) {
            self.denied = Some(Denied::Shared);
        } else {
            self.used.guest_memory = wanted;
            return true;
        }
        false
    }
}

impl ResourceLimiter for Budget {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Beyond the maximum that the module declares, the module itself refuses.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        tracing::debug!(error = ?error, "memory could not grow");
        self.denied = Some(Denied::Own);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current).saturating_mul(TABLE_ELEMENT_BYTES)))
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

/// The failure when the memory that components and statements share is exhausted.
pub(crate) fn no_memory() -> Failure {
    let message = "components and statements hold all the memory that they may hold together; try again later";
    Failure::new(Code::Overloaded, message).quota(Quota::Memory)
}
