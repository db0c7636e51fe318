//! The clocks of the store: the wall clock, and the age clock, by which logs grow old.
//!
//! A wall clock may be wrong by years: a dead battery, a wrong answer of a time server, a machine that was copied. Who deletes
//! by it alone deletes everything after one wrong reading. The age clock counts the time that the store has seen pass:
//! by the monotonic clock while it runs, and by the wall clock as far as that is plausible. It never goes back, it is kept in
//! the catalog, and segments are stamped with it. A jump of the wall clock that is not plausible makes no log older, until the
//! operator says that this time has passed.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde::{Deserialize, Serialize};

/// Microseconds of a day.
pub(crate) const DAY: i64 = 24 * 3_600 * 1_000_000;

/// So far may the wall clock be ahead at a start: that long may a server have been off, without anyone asking why.
const MOST_AT_START: i64 = 3 * DAY;

/// So far may the wall clock move ahead of the monotonic clock while a store is open, in all: time in which the machine slept.
const MOST_WHILE_OPEN: i64 = DAY;

/// The present time in microseconds since 1970, UTC.
pub(crate) fn now_micros() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

/// What the catalog keeps of the age clock, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockState {
    /// The age clock. It began with the wall clock, and is the same as that as long as nothing jumps.
    pub(crate) age: i64,
    /// The latest time of the wall clock that was plausible.
    pub(crate) wall: i64,
}

impl ClockState {
    /// How far a time of the wall clock is ahead of what is plausible after the store was closed; 0 if it is plausible.
    pub(crate) fn ahead(self, wall: i64) -> i64 {
        Some(wall.saturating_sub(self.wall)).filter(|more| *more > MOST_AT_START).unwrap_or(0)
    }
}

/// The age clock of an open store.
#[derive(Debug)]
pub(crate) struct AgeClock {
    began: Instant,
    reading: Mutex<Reading>,
    /// By how much a test has moved the wall clock.
    #[cfg(test)]
    pub(crate) moved: std::sync::atomic::AtomicI64,
}

#[derive(Debug)]
struct Reading {
    state: ClockState,
    /// The monotonic clock at this reading, since the store was opened.
    ran: i64,
    /// So far may the wall clock be ahead of `state.wall`.
    most: i64,
    is_first: bool,
    /// How far the wall clock is ahead of that; 0 if it is plausible.
    ahead: i64,
    /// Whether that was told.
    is_told: bool,
}

impl Reading {
    fn advance(&mut self, wall: i64, ran: i64) {
        let passed = ran.saturating_sub(self.ran).max(0);
        self.ran = ran;
        self.add(passed, passed);
        let more = wall.saturating_sub(self.state.wall);
        self.ahead = if more > self.most { more } else { 0 };
        // A clock that is behind says nothing of the time that passed.
        if more > 0 && self.ahead == 0 {
            self.add(more, more);
            self.most = if self.is_first { MOST_WHILE_OPEN } else { self.most - more };
            self.is_first = false;
        }
    }

    fn add(&mut self, age: i64, wall: i64) {
        self.state.age = self.state.age.saturating_add(age);
        self.state.wall = self.state.wall.saturating_add(wall);
    }
}

impl AgeClock {
    /// Goes on from what the catalog has; without that, from the newest time that is otherwise known of, if there is one.
    pub(crate) fn start(kept: Option<ClockState>, newest: Option<i64>) -> AgeClock {
        let wall = now_micros();
        let known = newest.map_or(wall, |newest| newest.min(wall));
        let state = kept.unwrap_or(ClockState { age: known, wall: known });
        let mut reading = Reading { state, ran: 0, most: MOST_AT_START, is_first: true, ahead: 0, is_told: false };
        reading.advance(wall, 0);
        AgeClock {
            began: Instant::now(),
            reading: Mutex::new(reading),
            #[cfg(test)]
            moved: std::sync::atomic::AtomicI64::default(),
        }
    }

    fn read(&self) -> MutexGuard<'_, Reading> {
        #[cfg(not(test))]
        let wall = now_micros();
        #[cfg(test)]
        let wall = now_micros() + self.moved.load(std::sync::atomic::Ordering::Relaxed);
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.advance(wall, i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX));
        reading
    }

    /// The age clock now.
    pub(crate) fn now(&self) -> i64 {
        self.read().state.age
    }

    /// Lets time pass, for a test.
    #[cfg(test)]
    pub(crate) fn pass(&self, micros: i64) {
        self.read().add(micros, micros);
    }

    /// What the catalog is to keep.
    pub(crate) fn state(&self) -> ClockState {
        self.read().state
    }

    /// How far the wall clock is ahead of what is plausible, in microseconds; 0 if it is plausible.
    pub(crate) fn ahead(&self) -> i64 {
        self.read().ahead
    }

    /// Whether the wall clock has become implausible since the last call.
    pub(crate) fn is_to_be_told(&self) -> bool {
        let mut reading = self.read();
        let is_new = reading.ahead > 0 && !reading.is_told;
        reading.is_told = reading.ahead > 0;
        is_new
    }

    /// The operator says that the wall clock is right, and whether the time by which it is ahead has passed: then all logs from
    /// before are older by it.
    pub(crate) fn accept(&self, has_passed: bool) {
        let mut reading = self.read();
        let ahead = std::mem::take(&mut reading.ahead);
        reading.add(if has_passed { ahead } else { 0 }, ahead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = DAY / 24;

    fn reading(at: i64) -> Reading {
        let state = ClockState { age: at, wall: at };
        Reading { state, ran: 0, most: MOST_AT_START, is_first: true, ahead: 0, is_told: false }
    }

    #[test]
    fn a_clock_that_is_right_is_followed() {
        let mut clock = reading(1_000 * DAY);
        clock.advance(1_002 * DAY, 0);
        assert_eq!((clock.state.age, clock.ahead), (1_002 * DAY, 0), "it was off for two days");
        clock.advance(1_002 * DAY + 5 * HOUR, 5 * HOUR);
        assert_eq!((clock.state.age, clock.ahead), (1_002 * DAY + 5 * HOUR, 0));
        // It slept for three hours, of which the monotonic clock knows nothing.
        clock.advance(1_002 * DAY + 9 * HOUR, 6 * HOUR);
        assert_eq!((clock.state.age, clock.ahead), (1_002 * DAY + 9 * HOUR, 0));
    }

    #[test]
    fn a_jump_makes_nothing_older_than_the_time_that_passed() {
        for at_start in [true, false] {
            let mut clock = reading(1_000 * DAY);
            if !at_start {
                clock.advance(1_000 * DAY + 1, 0);
            }
            clock.advance(1_365 * DAY, 0);
            assert!(clock.state.age <= 1_000 * DAY + 1 && clock.ahead >= 365 * DAY - 1, "{clock:?}");
            clock.advance(1_366 * DAY, DAY);
            assert!((1_001 * DAY..=1_001 * DAY + 1).contains(&clock.state.age), "{clock:?}");
            // It is right again.
            clock.advance(1_001 * DAY + HOUR, DAY + HOUR);
            assert_eq!(clock.ahead, 0);
        }
    }

    #[test]
    fn small_jumps_do_not_add_up() {
        let mut clock = reading(1_000 * DAY);
        clock.advance(1_000 * DAY + 1, 0);
        (1..100).for_each(|n| clock.advance(1_000 * DAY + n * 20 * HOUR, n));
        assert!(clock.state.age <= 1_001 * DAY + 100 && clock.ahead > 0, "{clock:?}");
        let mut clock = reading(1_000 * DAY);
        clock.advance(1_000 * DAY + 1, 0);
        (1..100).for_each(|n| clock.advance(1_000 * DAY + (n % 2) * 20 * HOUR, n));
        assert!(clock.state.age <= 1_000 * DAY + 20 * HOUR + 100 && clock.ahead == 0, "{clock:?}");
    }

    #[test]
    fn a_clock_that_was_dead_and_is_right_again_counts_what_passed() {
        let mut clock = reading(1_000 * DAY);
        clock.advance(0, 0);
        clock.advance(HOUR, HOUR);
        assert_eq!((clock.state.age, clock.ahead), (1_000 * DAY + HOUR, 0));
        clock.advance(1_002 * DAY, HOUR);
        assert_eq!((clock.state.age, clock.ahead), (1_002 * DAY, 0));
    }

    #[test]
    fn the_operator_says_what_a_jump_was() {
        for (has_passed, expected) in [(false, 0), (true, 365 * DAY)] {
            let before = now_micros() - 365 * DAY;
            let clock = AgeClock::start(Some(ClockState { age: before, wall: before }), None);
            assert!(clock.now() - before < HOUR && clock.ahead() >= 365 * DAY);
            clock.accept(has_passed);
            let passed = clock.now() - before - expected;
            assert!((0..HOUR).contains(&passed) && clock.ahead() == 0, "{has_passed}: {passed}");
        }
    }
}
