//! The stop sign of a request: a flag that whoever waits for the result can set, and a deadline.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ExecutionContext;

/// Tells work that its result is no longer wanted: it was asked to stop, or its time is over. Clones are one sign.
#[derive(Debug, Clone)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    /// `None` is never.
    deadline: Option<Instant>,
}

impl Stop {
    /// A sign that becomes due when [`Stop::ask`] is called, and of itself after `time`.
    pub fn after(time: Duration) -> Self {
        Self { asked: Arc::default(), deadline: Instant::now().checked_add(time) }
    }

    /// A sign that nobody holds and that has no deadline.
    pub(super) fn never() -> Self {
        Self { asked: Arc::default(), deadline: None }
    }

    /// Asks the work to stop.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Does work under this sign: statements that are planned and started within stop by it. Tasks that `work`
    /// spawns are not covered.
    pub async fn cover<T>(&self, work: impl Future<Output = T>) -> T {
        ExecutionContext::of_request(self.clone()).scope(work).await
    }

    /// How long it is until the deadline, if there is one.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Whether the work should stop.
    pub(super) fn is_due(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::Code;

    use super::*;
    use crate::context::check_planning;

    #[tokio::test]
    async fn work_is_stopped_by_its_time_and_by_who_waits() {
        assert!(check_planning().is_ok(), "nobody set a limit");
        let stop = Stop::after(Duration::from_secs(60));
        assert!(stop.cover(async { check_planning() }).await.is_ok());
        stop.ask();
        assert_eq!(stop.cover(async { check_planning() }).await.map_err(|failure| failure.code), Err(Code::Timeout));
        let stop = Stop::after(Duration::ZERO);
        assert!(stop.cover(async { check_planning() }).await.is_err());
    }
}
