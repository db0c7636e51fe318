//! How a guest is kept inside its limits.
//!
//! - CPU: an operating system thread advances the epoch; at each tick the guest is asked to stop
//!   for a moment. The callback counts the tick, ends a guest that used too many, and otherwise
//!   yields to the executor, so that the wall-clock timeout around the call can fire. A long wait
//!   inside a host function costs one tick at most, because the deadline is always the next tick.
//! - Memory: the engine's own limits are for each memory. One sum over all memories and tables is
//!   kept here, taken from the memory that components share with statements, and a refusal is
//!   remembered, because the guest's answer to it is a plain trap.
//! - Everything that crosses the border is counted: calls, statements, rows, bytes, log lines.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tidegate_model::{Code, Failure, Limits};
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

use crate::answer::Usage;
use crate::ended::HardLimit;
use crate::host::State;

/// Entries of the resource table: open result sets, requests and answers together.
const MAX_RESOURCES: usize = 64;
/// Handles in the tables of the component's instances.
const MAX_HANDLES: usize = 256;
/// Bytes that one table element is reckoned as.
const TABLE_ELEMENT_BYTES: usize = 8;

/// The limits of one request and what was used of them.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    max_ticks: u64,
    used: Usage,
    log_lines: u32,
    denied: Option<Denied>,
    /// What the guest holds of the memory that it shares with statements.
    shared: Option<MemoryReservation>,
}

/// Why a guest was refused memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Its own limit.
    Own,
    /// All components and statements together hold what they may.
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

    /// Notes what the engine counted.
    pub(crate) fn executed(&mut self, instructions: Option<u64>) {
        self.used.instructions = instructions;
    }

    /// Whether the guest was refused memory, and why.
    pub(crate) fn memory_denied(&self) -> Option<Denied> {
        self.denied
    }

    /// Reserves memory of the host for what the guest made, until the reservation is dropped;
    /// nothing where memory is not shared.
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

    /// Counts one statement; whether it may run.
    pub(crate) fn statement(&mut self) -> bool {
        let allowed = self.used.statements < self.limits.statements;
        self.used.statements += u32::from(allowed);
        allowed
    }

    /// Counts one line of log; whether it may be written.
    pub(crate) fn log_line(&mut self) -> bool {
        let allowed = self.log_lines < self.limits.log_lines;
        self.log_lines += u32::from(allowed);
        allowed
    }

    /// Rows that may still enter the guest.
    pub(crate) fn rows_left(&self) -> u64 {
        self.limits.guest_rows.saturating_sub(self.used.guest_rows)
    }

    /// Bytes of batches that may still enter the guest.
    pub(crate) fn bytes_left(&self) -> usize {
        self.limits.guest_bytes.saturating_sub(self.used.guest_bytes)
    }

    /// Counts a batch that enters the guest.
    pub(crate) fn read(&mut self, rows: u64, bytes: usize) {
        self.used.guest_rows = self.used.guest_rows.saturating_add(rows);
        self.used.guest_bytes = self.used.guest_bytes.saturating_add(bytes);
    }

    fn tick(&mut self) -> Result<(), HardLimit> {
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
        // Beyond the maximum that the module declared, the refusal is its own.
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
        crate::engine::MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        crate::engine::MAX_TABLES
    }

    fn memories(&self) -> usize {
        crate::engine::MAX_MEMORIES
    }
}

/// The refusal of memory that components and statements share.
pub(crate) fn no_memory() -> Failure {
    let message = "components and statements hold all the memory that they may hold together; try again later";
    Failure::new(Code::Overloaded, message).about("memory")
}

/// A table that refuses to hold more than [`MAX_RESOURCES`].
pub(crate) fn resource_table() -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_RESOURCES);
    table
}

/// What a counting engine has counted in this store; nothing in other engines.
pub(crate) fn instructions(store: &Store<State>) -> Option<u64> {
    store.get_fuel().ok().map(|left| u64::MAX - left)
}

/// Puts a store under the limits of its state.
pub(crate) fn restrain(store: &mut Store<State>) {
    // Fuel counts here and limits nothing; engines that do not count have none.
    if store.get_fuel().is_ok()
        && let Err(error) = store.set_fuel(u64::MAX)
    {
        tracing::error!(error = ?error, "instructions cannot be counted");
    }
    let call_bytes = store.data().budget.limits().call_bytes;
    store.limiter(|state| &mut state.budget);
    store.set_hostcall_fuel(call_bytes);
    store.set_max_component_handles(MAX_HANDLES);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        store.data_mut().budget.tick()?;
        // The engine's own yield can be polled again at once, without the executor in between.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
}
