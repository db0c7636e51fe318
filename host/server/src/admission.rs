//! How much is computed at once, over all callers.
//!
//! More queries at once than processors can run take longer each and hold more memory, until
//! none ends in its time. So a bounded number runs, a bounded number waits in line for a bounded
//! time, and the rest is told at once to try again: what is answered stays close to the most
//! that the machine can do. Only the execution of a query needs a place; answers that are kept do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_model::{Code, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::options::AdmissionOptions;

/// The place of one query among those that run; given back when it is dropped. It goes with the
/// work, not with who waits for it: work that does not stop at once still takes its place.
#[derive(Debug)]
pub(crate) struct Permit {
    _permit: OwnedSemaphorePermit,
}

/// The places and the line before them.
#[derive(Debug)]
pub(crate) struct Admission {
    permits: Arc<Semaphore>,
    places: usize,
    waiting: AtomicUsize,
    queue: usize,
    wait: Duration,
}

/// One who stands in line.
struct InLine<'a>(&'a AtomicUsize);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(crate) fn new(options: &AdmissionOptions) -> Self {
        let places = options.places();
        Self {
            permits: Arc::new(Semaphore::new(places)),
            places,
            waiting: AtomicUsize::new(0),
            queue: options.queue,
            wait: options.wait,
        }
    }

    /// A place, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::Overloaded`], if the line is full or the wait is over.
    pub(crate) async fn enter(&self) -> Result<Permit, Failure> {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return Ok(Permit { _permit: permit });
        }
        let overloaded = |why: &str| {
            let message = format!("the server is busy: {why}; try again later");
            Failure::new(Code::Overloaded, message).retry_after(1)
        };
        let fits = |waiting: usize| (waiting < self.queue).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return Err(overloaded("too many queries wait for their turn"));
        }
        let _in_line = InLine(&self.waiting);
        match timeout(self.wait, permits.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Permit { _permit: permit }),
            Ok(Err(_)) => Err(overloaded("it is shutting down")),
            Err(_) => Err(overloaded("the queries before this one take too long")),
        }
    }

    /// Queries that run, queries that may, queries that wait.
    pub(crate) fn numbers(&self) -> (usize, usize, usize) {
        let running = self.places.saturating_sub(self.permits.available_permits());
        (running, self.places, self.waiting.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn admission(concurrency: usize, queue: usize, wait: Duration) -> Admission {
        Admission::new(&AdmissionOptions { concurrency, queue, wait })
    }

    #[tokio::test]
    async fn who_finds_no_place_waits_and_then_is_refused() {
        let admission = admission(1, 1, Duration::from_millis(20));
        let first = admission.enter().await.unwrap();
        let failure = admission.enter().await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::Overloaded, Some(1)));
        assert_eq!(admission.numbers(), (1, 1, 0), "who gives up leaves the line");
        drop(first);
        admission.enter().await.unwrap();
    }

    #[tokio::test]
    async fn a_place_goes_to_who_waits_and_a_full_line_refuses_at_once() {
        let admission = Arc::new(admission(1, 1, Duration::from_secs(60)));
        let first = admission.enter().await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter().await }
        });
        while admission.numbers().2 == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.enter().await.unwrap_err().code, Code::Overloaded);
        drop(first);
        let permit = waiting.await.unwrap().unwrap();
        assert_eq!(admission.numbers(), (1, 1, 0));
        drop(permit);
        assert_eq!(admission.numbers(), (0, 1, 0));
    }
}
