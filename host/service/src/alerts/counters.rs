//! What happened to alerts since the start, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a service.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) runs: AtomicU64,
    pub(super) failed_runs: AtomicU64,
    pub(super) postponed: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) failed_sends: AtomicU64,
    pub(super) given_up: AtomicU64,
}

/// The same as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlertCounts {
    /// Runs that found whether the condition holds.
    pub runs: u64,
    /// Runs that failed.
    pub failed_runs: u64,
    /// Runs that were put off because the server was busy.
    pub postponed: u64,
    /// Messages that a receiver confirmed.
    pub sent: u64,
    /// Attempts to send a message that failed.
    pub failed_sends: u64,
    /// Messages that were given up.
    pub given_up: u64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn now(&self) -> AlertCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AlertCounts {
            runs: read(&self.runs),
            failed_runs: read(&self.failed_runs),
            postponed: read(&self.postponed),
            sent: read(&self.sent),
            failed_sends: read(&self.failed_sends),
            given_up: read(&self.given_up),
        }
    }
}
