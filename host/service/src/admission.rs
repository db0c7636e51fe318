//! How much is computed at once, over all callers and for each of them.
//!
//! More queries at once than processors can run take longer each and hold more memory, until
//! none ends in its time. So a bounded number runs, a bounded number waits in line for a bounded
//! time, and the rest is told at once to try again: what is answered stays close to the most
//! that the machine can do. Only the execution of a query needs a place; answers that are kept do not.
//!
//! One token takes half of the places, half of the line and half of the threads at most. What it sends beyond waits for
//! its own half before it stands in the common line, so it never stands before others there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_model::{Code, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::options::AdmissionOptions;
use crate::tenant::{Tenant, half};
use crate::turns::Turns;

/// From so many shares on, those that nobody uses are let go.
const MOST_SHARES: usize = 1_000;

/// The place of one query among those that run; given back when it is dropped. It goes with the
/// work, not with who waits for it: work that does not stop at once still takes its place.
#[derive(Debug)]
pub(crate) struct Permit {
    _place: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    /// The turns of its tenant.
    turns: Arc<Turns>,
}

impl Permit {
    /// The turns that the work of its tenant takes on the threads.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }
}

/// The places and the line before them.
#[derive(Debug)]
pub struct Admission {
    permits: Arc<Semaphore>,
    places: usize,
    /// Turns of one tenant.
    turns: usize,
    waiting: AtomicUsize,
    queue: usize,
    wait: Duration,
    shares: Mutex<HashMap<Tenant, Arc<TenantQueue>>>,
}

/// What one tenant may take.
#[derive(Debug)]
struct TenantQueue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    turns: Arc<Turns>,
}

/// One who stands in line.
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    /// Takes a place in line, if there is one.
    fn stand(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let fits = |waiting: usize| (waiting < most).then_some(waiting + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok().then_some(Self(waiting))
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// The admission to so many threads.
    pub(crate) fn new(options: &AdmissionOptions, threads: usize) -> Self {
        let places = options.places();
        Self {
            permits: Arc::new(Semaphore::new(places)),
            places,
            turns: half(threads),
            waiting: AtomicUsize::new(0),
            queue: options.queue,
            wait: options.wait,
            shares: Mutex::default(),
        }
    }

    /// A place, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::Overloaded`], if the line is full or the wait is over; [`Code::TooManyRequests`], if
    /// others would have been let in.
    pub(crate) async fn enter(&self, tenant: Tenant) -> Result<Permit, Failure> {
        let share = self.share(tenant);
        let own = Arc::clone(&share.places).try_acquire_owned().ok();
        if let Some(own) = own {
            return match Arc::clone(&self.permits).try_acquire_owned() {
                Ok(place) => Ok(Permit { _place: place, _own: own, turns: Arc::clone(&share.turns) }),
                Err(_) => self.wait(&share, Some(own)).await,
            };
        }
        self.wait(&share, None).await
    }

    async fn wait(&self, share: &TenantQueue, own: Option<OwnedSemaphorePermit>) -> Result<Permit, Failure> {
        let full = || self.refusal("too many queries wait for their turn");
        let _own_line = QueueSlot::stand(&share.waiting, half(self.queue)).ok_or_else(full)?;
        let _line = QueueSlot::stand(&self.waiting, self.queue).ok_or_else(full)?;
        let both = async {
            let own = match own {
                Some(own) => own,
                None => Arc::clone(&share.places).acquire_owned().await?,
            };
            Ok::<_, tokio::sync::AcquireError>(Permit {
                _place: Arc::clone(&self.permits).acquire_owned().await?,
                _own: own,
                turns: Arc::clone(&share.turns),
            })
        };
        match timeout(self.wait, both).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(self.refusal("it is shutting down")),
            Err(_) => Err(self.refusal("the queries before this one take too long")),
        }
    }

    /// Whoever finds free places closed to it has met its own bound, not the server's.
    fn refusal(&self, why: &str) -> Failure {
        if self.permits.available_permits() == 0 {
            let message = format!("the server is busy: {why}; try again later");
            return Failure::new(Code::Overloaded, message).retry_after(1);
        }
        let most = half(self.places);
        let message =
            format!("the access token has {most} queries running, which is the most for one token; try again later");
        Failure::new(Code::TooManyRequests, message).retry_after(1)
    }

    fn share(&self, tenant: Tenant) -> Arc<TenantQueue> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= MOST_SHARES && !shares.contains_key(&tenant) {
            let (idle, half) = (1, half(self.places));
            shares.retain(|_, share| Arc::strong_count(share) > idle || share.places.available_permits() < half);
        }
        let new = || TenantQueue {
            places: Arc::new(Semaphore::new(half(self.places))),
            waiting: AtomicUsize::new(0),
            turns: Arc::new(Turns::new(self.turns)),
        };
        Arc::clone(shares.entry(tenant).or_insert_with(|| Arc::new(new())))
    }

    /// Queries that run, queries that may, queries that wait.
    pub fn numbers(&self) -> (usize, usize, usize) {
        let running = self.places.saturating_sub(self.permits.available_permits());
        (running, self.places, self.waiting.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn admission(concurrency: usize, queue: usize, wait: Duration) -> Admission {
        let options = AdmissionOptions { concurrency, queue, wait, ..AdmissionOptions::default() };
        Admission::new(&options, 8)
    }

    const A: Tenant = Tenant::Token([1; 32]);
    const B: Tenant = Tenant::Token([2; 32]);

    #[tokio::test]
    async fn who_finds_no_place_waits_and_then_is_refused() {
        let admission = admission(1, 1, Duration::from_millis(20));
        let first = admission.enter(A).await.unwrap();
        let failure = admission.enter(A).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::Overloaded, Some(1)));
        assert_eq!(admission.numbers(), (1, 1, 0), "who gives up leaves the line");
        drop(first);
        admission.enter(A).await.unwrap();
    }

    #[tokio::test]
    async fn a_place_goes_to_who_waits_and_a_full_line_refuses_at_once() {
        let admission = Arc::new(admission(1, 1, Duration::from_secs(60)));
        let first = admission.enter(A).await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter(A).await }
        });
        while admission.numbers().2 == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(admission.enter(A).await.unwrap_err().code, Code::Overloaded);
        drop(first);
        let permit = waiting.await.unwrap().unwrap();
        assert_eq!(admission.numbers(), (1, 1, 0));
        drop(permit);
        assert_eq!(admission.numbers(), (0, 1, 0));
    }

    #[tokio::test]
    async fn one_token_takes_half_of_the_places_and_leaves_the_rest_to_others() {
        let admission = admission(5, 8, Duration::from_millis(20));
        let first = admission.enter(A).await.unwrap();
        let _second = admission.enter(A).await.unwrap();
        let failure = admission.enter(A).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::TooManyRequests, Some(1)));
        assert!(failure.message.contains("has 2 queries running"), "{failure}");
        let _others = [admission.enter(B).await.unwrap(), admission.enter(B).await.unwrap()];
        let warming = admission.enter(Tenant::Warming).await.unwrap();
        // Now nobody finds a place, and that is the server's bound.
        assert_eq!(admission.enter(Tenant::Warming).await.unwrap_err().code, Code::Overloaded);
        assert_eq!(admission.enter(A).await.unwrap_err().code, Code::Overloaded);
        drop(warming);
        assert_eq!(admission.enter(A).await.unwrap_err().code, Code::TooManyRequests);
        drop(first);
        admission.enter(A).await.unwrap();
        assert_eq!(admission.numbers(), (3, 5, 0));
    }

    #[tokio::test]
    async fn one_token_in_line_does_not_stand_before_another() {
        let admission = Arc::new(admission(2, 8, Duration::from_secs(60)));
        let held = admission.enter(A).await.unwrap();
        let wait = |tenant: Tenant| {
            let admission = Arc::clone(&admission);
            tokio::spawn(async move { admission.enter(tenant).await })
        };
        let mut waiting: Vec<_> = (0..4).map(|_| wait(A)).collect();
        while admission.numbers().2 < 4 {
            tokio::task::yield_now().await;
        }
        // It has half of the line, and no more.
        assert_eq!(admission.enter(A).await.unwrap_err().code, Code::TooManyRequests);
        let other = admission.enter(B).await.unwrap();
        let second = wait(B);
        while admission.numbers().2 < 5 {
            tokio::task::yield_now().await;
        }
        drop(other);
        drop(second.await.unwrap().unwrap());
        assert!(waiting.iter().all(|task| !task.is_finished()), "its own half is taken");
        drop(held);
        for task in waiting.drain(..) {
            drop(task.await.unwrap().unwrap());
        }
        assert_eq!(admission.numbers(), (0, 2, 0));
    }

    #[tokio::test]
    async fn shares_that_nobody_uses_are_let_go() {
        let admission = admission(4, 4, Duration::from_millis(1));
        let tenant = |n: usize| {
            let mut identity = [0; 32];
            identity.iter_mut().zip(n.to_le_bytes()).for_each(|(to, from)| *to = from);
            Tenant::Token(identity)
        };
        let held = admission.enter(tenant(0)).await.unwrap();
        for n in 1..=2 * MOST_SHARES {
            drop(admission.enter(tenant(n)).await.unwrap());
        }
        assert!(admission.shares.lock().unwrap().len() <= MOST_SHARES);
        let _second = admission.enter(tenant(0)).await.unwrap();
        assert_eq!(admission.enter(tenant(0)).await.unwrap_err().code, Code::TooManyRequests, "it is still known");
        drop(held);
        admission.enter(tenant(0)).await.unwrap();
    }
}
