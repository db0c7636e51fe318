//! Turns: how many compute threads the work of one account may occupy at the same time.
//!
//! A piece of work holds a turn while it runs on a thread. If no turn is free, the work waits without occupying a
//! thread. Waiting work of an account is woken in order of arrival, when one of the account's turns ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The turns of one account.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The wakers of waiting work, in order of arrival.
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

impl Turns {
    /// `most` turns at the same time, but at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn. If none is free, it registers `waker` under a ticket and returns `None`.
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

    /// Removes a waiter. It may already have been woken for a free turn, so the next waiter is woken instead.
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

/// A turn: one of the account's threads while work runs on it. Dropping it ends the turn.
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
