//! How long a batch is sent again, and how long to wait in between.

use std::time::{Duration, Instant};

/// How long a batch is sent again that the server does not take, or where its connection breaks.
const PATIENCE: Duration = Duration::from_secs(600);
/// The same while no server has answered yet: the address may be wrong, and nobody should wait long to learn that.
const FIRST_PATIENCE: Duration = Duration::from_secs(20);
/// The shortest and the longest pause between two attempts.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The attempts to send one batch.
pub(super) struct Patience {
    began: Instant,
    /// The pause after the next connection that breaks.
    pause: Duration,
}

impl Patience {
    pub(super) fn new(began: Instant) -> Self {
        Self { began, pause: SHORTEST }
    }

    /// The pause that a server asks for with its refusal, if there is patience left.
    pub(super) fn after_refusal(&self, now: Instant, asked: Option<u64>) -> Option<Duration> {
        let pause = asked.map_or(SHORTEST, Duration::from_secs).clamp(SHORTEST, LONGEST);
        self.is_left(now, PATIENCE).then_some(pause)
    }

    /// The pause after a connection that broke, if there is patience left; it doubles. `is_known` says that a server has
    /// answered before.
    pub(super) fn after_break(&mut self, now: Instant, is_known: bool) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST);
        self.is_left(now, if is_known { PATIENCE } else { FIRST_PATIENCE }).then_some(pause)
    }

    fn is_left(&self, now: Instant, most: Duration) -> bool {
        now.saturating_duration_since(self.began) < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let seconds = |pause: Option<Duration>| pause.map(|pause| pause.as_secs());
        let mut patience = Patience::new(began);
        let pauses: Vec<_> = (0..8).map(|_| seconds(patience.after_break(at(599), true))).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        assert_eq!(patience.after_break(at(600), true), None);
        let mut patience = Patience::new(began);
        assert_eq!(
            (seconds(patience.after_break(at(19), false)), patience.after_break(at(20), false)),
            (Some(1), None)
        );
        let after = |now, asked| seconds(Patience::new(began).after_refusal(at(now), asked));
        assert_eq!(
            (after(0, None), after(0, Some(0)), after(0, Some(7)), after(599, Some(900))),
            (Some(1), Some(1), Some(7), Some(60))
        );
        assert_eq!(after(600, Some(1)), None);
    }
}
