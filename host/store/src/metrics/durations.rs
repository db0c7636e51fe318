//! How long something took, counted by duration: what a histogram of metrics is made of.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The bounds of the counts.
const BOUNDS: usize = 14;

/// How often something took how long since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many took at most as long as the bound, and longer than the one before; at last, longer than all bounds.
    pub counts: [u64; BOUNDS + 1],
    /// The sum of all, in microseconds.
    pub micros: u64,
}

impl Durations {
    /// The bounds, in seconds: from a sync of a fast disk to a segment that waits for an object store.
    pub const SECONDS: [f64; BOUNDS] =
        [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
}

/// The same while it is counted.
#[derive(Debug, Default)]
pub(crate) struct DurationCounters {
    counts: [AtomicU64; BOUNDS + 1],
    micros: AtomicU64,
}

impl DurationCounters {
    pub(crate) fn add(&self, took: Duration) {
        let place = Durations::SECONDS.partition_point(|bound| *bound < took.as_secs_f64());
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Durations {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Durations { counts, micros: self.micros.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_at_the_first_bound_that_it_does_not_pass() {
        let counters = DurationCounters::default();
        for millis in [0, 1, 2, 30_000, 30_001, 3_600_000] {
            counters.add(Duration::from_millis(millis));
        }
        let Durations { counts, micros } = counters.now();
        assert_eq!((counts[0], counts[1], counts[13], counts[14]), (2, 1, 1, 2));
        assert_eq!((counts.iter().sum::<u64>(), micros), (6, 3_660_004_000));
    }
}
