//! Turns: how many compute threads the work of one tenant may hold at once.
//!
//! Each piece of work takes a turn for as long as it is on a thread. What finds no turn free waits without a thread,
//! and is woken in the order of arrival when a turn of its tenant ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The turns of one tenant.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// Who waits, in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Turns {
    /// So many turns at once, and one at least.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, or a ticket for when one is over.
    pub(crate) fn take(&self, ticket: &mut Option<u64>, waker: &Waker) -> Option<Turn<'_>> {
        let mut state = self.state();
        if state.running < self.most {
            state.running += 1;
            if let Some(ticket) = ticket.take() {
                state.waiting.remove(&ticket);
            }
            return Some(Turn(self));
        }
        let number = ticket.unwrap_or_else(|| {
            state.last += 1;
            state.last
        });
        *ticket = Some(number);
        state.waiting.insert(number, waker.clone());
        None
    }

    /// Who waits no longer may have been told that there is a turn: the next is told.
    pub(crate) fn leave(&self, ticket: u64) {
        let mut state = self.state();
        state.waiting.remove(&ticket);
        let next = if state.running < self.most { state.waiting.pop_first() } else { None };
        drop(state);
        wake(next);
    }
}

fn wake(next: Option<(u64, Waker)>) {
    if let Some((_, waker)) = next {
        waker.wake();
    }
}

/// One of the tenant's threads while work runs on it; given back when it is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
        let next = state.waiting.pop_first();
        drop(state);
        wake(next);
    }
}
