//! The pace of a merge: how long it rests between its pieces of work.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::error::{Result, StoreError};

/// The longest rest after a piece of work.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How long the work stands still at most for queries that wait, for each piece of work. So it goes on, if slowly, on
/// a server that is never idle.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The length of a pause while queries wait.
const PAUSE: Duration = Duration::from_millis(5);

/// What others tell the thread while it works.
#[derive(Default)]
pub(crate) struct Signals {
    /// The store is being closed.
    pub(crate) stop: AtomicBool,
    /// Whether the processors are needed for queries.
    pub(crate) is_busy: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// How a merge is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// By the tiers, within the share of the time.
    Background,
    /// All that fits together, at once.
    AtOnce,
}

/// The rests of a merge.
pub(crate) struct Work<'s> {
    pub(crate) signals: &'s Signals,
    /// Percent of the time in which it may work.
    pub(crate) percent: u32,
    pub(crate) pace: Pace,
    /// When the current piece of work began.
    pub(crate) began: Instant,
}

impl Work<'_> {
    /// Rests as long as the last piece of work demands.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the store is being closed.
    pub(crate) fn rest(&mut self) -> Result<()> {
        let worked = self.began.elapsed();
        if self.pace == Pace::Background {
            let percent = self.percent.clamp(1, 100);
            thread::sleep((worked * (100 - percent) / percent).min(LONGEST_REST));
            let paused = Instant::now();
            while self.signals.is_busy.get().is_some_and(|is_busy| is_busy())
                && paused.elapsed() < LONGEST_PAUSE
                && !self.signals.stop.load(Ordering::Relaxed)
            {
                thread::sleep(PAUSE);
            }
        }
        self.began = Instant::now();
        if self.signals.stop.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) }
    }
}
