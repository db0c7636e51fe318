//! Puts that run now, and whether one takes longer than it should.
//!
//! A put that hangs fails after a minute, and others wait behind it. Until then nothing else would tell that segments
//! cannot be put.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// When each of the puts that run is late.
#[derive(Debug, Default)]
pub(crate) struct RunningPuts {
    late: Mutex<Vec<Instant>>,
}

impl RunningPuts {
    /// Runs a put of so many bytes, which is late after `patience`, and a second more for each megabyte.
    pub(crate) fn run<T>(&self, bytes: u64, patience: Duration, put: impl FnOnce() -> T) -> T {
        let late_at = Instant::now() + patience.saturating_add(Duration::from_micros(bytes));
        self.late().push(late_at);
        let done = put();
        let mut late = self.late();
        if let Some(place) = late.iter().position(|at| *at == late_at) {
            late.swap_remove(place);
        }
        done
    }

    /// Whether one is late.
    pub(crate) fn is_late(&self) -> bool {
        let now = Instant::now();
        self.late().iter().any(|at| *at <= now)
    }

    fn late(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_late_as_long_as_it_runs_after_its_time() {
        let puts = RunningPuts::default();
        puts.run(0, Duration::ZERO, || {
            assert!(puts.is_late());
            puts.run(0, Duration::from_secs(3600), || assert!(puts.is_late()));
            assert!(puts.is_late());
        });
        puts.run(3_600_000_000, Duration::ZERO, || assert!(!puts.is_late(), "a large one takes longer"));
        assert!(!puts.is_late());
    }
}
