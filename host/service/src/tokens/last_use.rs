//! When a token was last used, so that tokens that nobody needs are found.
//!
//! A use is noted in memory, and written to the catalog at intervals: a request never waits for it. A crash loses the uses
//! since the last interval.

use std::sync::atomic::{AtomicI64, Ordering};

/// The last use of a token, in microseconds since 1970; the smallest number is none.
#[derive(Debug)]
pub(super) struct LastUse {
    used: AtomicI64,
    written: AtomicI64,
}

impl Default for LastUse {
    fn default() -> Self {
        Self::of(None)
    }
}

impl LastUse {
    /// A last use that the catalog has.
    pub(super) fn of(last: Option<i64>) -> Self {
        let last = last.unwrap_or(i64::MIN);
        Self { used: AtomicI64::new(last), written: AtomicI64::new(last) }
    }

    /// Notes a use.
    pub(super) fn note(&self, now: i64) {
        self.used.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Option<i64> {
        Some(self.used.load(Ordering::Relaxed)).filter(|used| *used > i64::MIN)
    }

    /// The last use if it is not written.
    pub(super) fn unwritten(&self) -> Option<i64> {
        self.last().filter(|used| *used > self.written.load(Ordering::Relaxed))
    }

    /// Notes that a use is written.
    pub(super) fn note_written(&self, used: i64) {
        self.written.fetch_max(used, Ordering::Relaxed);
    }
}
