//! How a guest is stopped when it reaches a limit.
//!
//! - CPU: a thread of the operating system advances the engine's epoch. At each tick the guest is interrupted for a
//!   moment: the callback counts the tick, ends a guest that used too many, and otherwise yields to the executor, so
//!   that the wall-clock timeout around the call can fire. A long wait inside a host function costs one tick at most,
//!   because the deadline is always the next tick.
//! - Memory: the engine's limits are for each memory separately. [`Budget`] keeps one sum over all memories and tables.
//!   It is taken from the memory that components share with statements. A refusal is remembered, because the guest
//!   answers it with a plain trap.
//! - What passes between guest and host is counted: calls, statements, rows, bytes, log lines.

use wasmtime::{Store, UpdateDeadline};

use crate::host::State;

/// Handles in the tables of the component's instances.
const MAX_HANDLES: usize = 256;

/// The instructions that a counting engine has counted in this store; `None` for other engines.
pub(crate) fn instructions(store: &Store<State>) -> Option<u64> {
    store.get_fuel().ok().map(|left| u64::MAX - left)
}

/// Puts a store under the limits of its state.
pub(crate) fn restrain(store: &mut Store<State>) {
    // Fuel is used for counting and limits nothing. An engine that does not count has none.
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
        // `UpdateDeadline::Yield` may be polled again at once, without giving other tasks a turn.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
}
