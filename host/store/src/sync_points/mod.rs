//! The places where threads of the store can get in each other's way: locks around what queries read, and the queue of
//! the writer thread.
//!
//! The store goes through these functions there. In a build they are the plain lock or nothing at all. In the tests of
//! this crate a [`schedule`] stops the threads at these places and lets one at a time go on, in an order that a seed
//! decides. So the order in which a flush, a merge, a deletion, calls and queries meet is tried out, on the real code.
//!
//! Uses: nothing.

#[cfg(test)]
pub(crate) mod schedule;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is held for moments only, at no place of this module.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    reach("lock");
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks what is held through other places of this module.
pub(crate) fn lock_long<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(test)]
    if let Some(guard) = schedule::lock(mutex) {
        return guard;
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place at which another thread may go on first.
pub(crate) fn reach(place: &'static str) {
    #[cfg(test)]
    schedule::reach(place);
    #[cfg(not(test))]
    let _ = place;
}

/// A turn at the writer thread: from before a message is sent until its answer has come.
#[derive(Debug)]
pub(crate) struct WriterTurn {
    #[cfg(test)]
    _turn: Option<schedule::Turn>,
}

/// Waits for a turn at the writer thread. Without a schedule its queue does that.
pub(crate) fn writer_turn() -> WriterTurn {
    WriterTurn {
        #[cfg(test)]
        _turn: schedule::writer_turn(),
    }
}

/// Which thread of the store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreThread {
    Commit,
    Flush,
    Compact,
}

/// What a thread of the store runs: it is a part of the schedule of the thread that starts it, if that has one.
pub(crate) fn thread(kind: StoreThread, run: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    #[cfg(test)]
    let run = {
        let task = match kind {
            StoreThread::Commit => None,
            StoreThread::Flush => Some(schedule::FLUSHING),
            StoreThread::Compact => Some(schedule::MERGING),
        };
        schedule::thread(task, run)
    };
    #[cfg(not(test))]
    let _ = kind;
    run
}

/// Runs what the writer thread does after its answers, which is no part of anyone's turn.
pub(crate) fn after_answer(work: impl FnOnce()) {
    #[cfg(test)]
    let _aside = schedule::aside();
    work();
}
