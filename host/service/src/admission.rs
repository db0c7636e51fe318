//! Admission control: how many queries run at the same time, for all callers and for each tenant.
//!
//! If more queries run than the processors can serve, each takes longer and holds its memory longer, until no query
//! finishes in its time. So a bounded number of queries runs, a bounded number waits in a queue for a bounded time, and
//! all others are refused at once and told to try again later. This keeps the throughput close to the maximum of the
//! machine. Only the execution of a query needs a permit; cached answers do not.
//!
//! One token gets at most half of the permits, half of the queue and half of the threads. Its further queries wait for
//! a permit of its own half before they wait for a common permit, so they are never ahead of other callers there. Alerts
//! together get an eighth. Of the half that the holders of an issuer's tokens with the same pins have together, one of
//! them gets at most half.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::options::AdmissionOptions;
use crate::tenant::Tenant;
use crate::turns::Turns;

/// If there are this many shares, unused ones are removed before a new one is added.
const MOST_SHARES: usize = 1_000;

/// The permit of one running query, returned when it is dropped. It belongs to the work and not to the caller that
/// waits for it: work that does not stop at once keeps its permit.
#[derive(Debug)]
pub(crate) struct Permit {
    _common: OwnedSemaphorePermit,
    _tenant: OwnedSemaphorePermit,
    _subject: Option<OwnedSemaphorePermit>,
    /// The turns of the query's tenant.
    turns: Arc<Turns>,
}

impl Permit {
    /// The turns that the tenant's work takes on the compute threads.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }
}

/// The permits for queries, and the queue before them.
#[derive(Debug)]
pub struct Admission {
    permits: Arc<Semaphore>,
    places: usize,
    /// The number of compute threads.
    threads: usize,
    waiting: AtomicUsize,
    queue: usize,
    wait: Duration,
    shares: Mutex<HashMap<Tenant, Arc<TenantQueue>>>,
}

/// The share of one tenant.
#[derive(Debug)]
struct TenantQueue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    turns: Arc<Turns>,
}

/// One waiting query in a queue.
struct QueueSlot<'a>(&'a AtomicUsize);

impl<'a> QueueSlot<'a> {
    /// Takes a slot in the queue, if it is not full.
    fn take(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
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
    /// Admission control for a number of compute threads.
    pub(crate) fn new(options: &AdmissionOptions, threads: usize) -> Self {
        let places = options.places();
        Self {
            permits: Arc::new(Semaphore::new(places)),
            places,
            threads,
            waiting: AtomicUsize::new(0),
            queue: options.queue,
            wait: options.wait,
            shares: Mutex::default(),
        }
    }

    /// Whether as many queries run as there are compute threads, or more, so that other work would slow them down.
    pub(crate) fn is_busy(&self) -> bool {
        let running = self.places.saturating_sub(self.permits.available_permits());
        running >= self.threads.max(1) || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A permit, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if the queue is full or the wait has timed out; [`Code::TooManyRequests`] if only the
    /// tenant's own share is used up, while permits are free for other tenants.
    pub(crate) async fn enter(&self, tenant: Tenant) -> Result<Permit, Failure> {
        let (group, began) = (tenant.group(), Instant::now());
        if group == tenant {
            return self.enter_share(tenant, self.wait).await;
        }
        // First the subject's own place: while it waits for that, it takes none of its group.
        let own = self.own_place(tenant).await?;
        let permit = self.enter_share(group, self.wait.saturating_sub(began.elapsed())).await?;
        Ok(Permit { _subject: Some(own), ..permit })
    }

    /// A place of a subject, at once or after a short wait.
    async fn own_place(&self, subject: Tenant) -> Result<OwnedSemaphorePermit, Failure> {
        let share = self.share(subject);
        if let Ok(own) = Arc::clone(&share.places).try_acquire_owned() {
            return Ok(own);
        }
        let refused = || self.refusal(subject, "the queries before this one take too long");
        let _slot = QueueSlot::take(&share.waiting, subject.share(self.queue)).ok_or_else(refused)?;
        match timeout(self.wait, Arc::clone(&share.places).acquire_owned()).await {
            Ok(Ok(own)) => Ok(own),
            _ => Err(refused()),
        }
    }

    async fn enter_share(&self, tenant: Tenant, wait: Duration) -> Result<Permit, Failure> {
        let share = self.share(tenant);
        let own = Arc::clone(&share.places).try_acquire_owned().ok();
        if let Some(own) = own {
            return match Arc::clone(&self.permits).try_acquire_owned() {
                Ok(place) => {
                    Ok(Permit { _common: place, _tenant: own, _subject: None, turns: Arc::clone(&share.turns) })
                }
                Err(_) => self.wait(tenant, &share, Some(own), wait).await,
            };
        }
        self.wait(tenant, &share, None, wait).await
    }

    async fn wait(
        &self,
        tenant: Tenant,
        share: &TenantQueue,
        own: Option<OwnedSemaphorePermit>,
        longest: Duration,
    ) -> Result<Permit, Failure> {
        let full = || self.refusal(tenant, "too many queries wait for their turn");
        let _tenant_slot = QueueSlot::take(&share.waiting, tenant.share(self.queue)).ok_or_else(full)?;
        let _common_slot = QueueSlot::take(&self.waiting, self.queue).ok_or_else(full)?;
        let both = async {
            let own = match own {
                Some(own) => own,
                None => Arc::clone(&share.places).acquire_owned().await?,
            };
            Ok::<_, tokio::sync::AcquireError>(Permit {
                _common: Arc::clone(&self.permits).acquire_owned().await?,
                _tenant: own,
                _subject: None,
                turns: Arc::clone(&share.turns),
            })
        };
        match timeout(longest, both).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(self.refusal(tenant, "it is shutting down")),
            Err(_) => Err(self.refusal(tenant, "the queries before this one take too long")),
        }
    }

    /// The failure of a refused query. If common permits are free, the tenant has reached its own limit and not the
    /// server's.
    fn refusal(&self, tenant: Tenant, why: &str) -> Failure {
        if self.permits.available_permits() == 0 {
            let message = format!("the server is busy: {why}; try again later");
            return Failure::new(Code::Overloaded, message).retry_after(1);
        }
        let most = tenant.share(self.places);
        let message =
            format!("the access token has {most} queries running, which is the most for one token; try again later");
        Failure::new(Code::TooManyRequests, message).retry_after(1)
    }

    fn share(&self, tenant: Tenant) -> Arc<TenantQueue> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= MOST_SHARES && !shares.contains_key(&tenant) {
            let idle = 1;
            shares.retain(|tenant, share| {
                Arc::strong_count(share) > idle || share.places.available_permits() < tenant.share(self.places)
            });
        }
        let new = || TenantQueue {
            places: Arc::new(Semaphore::new(tenant.share(self.places))),
            waiting: AtomicUsize::new(0),
            turns: Arc::new(Turns::new(tenant.share(self.threads))),
        };
        Arc::clone(shares.entry(tenant).or_insert_with(|| Arc::new(new())))
    }

    /// The number of queries that run, that may run, and that wait.
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
        // All permits are in use now, which is the limit of the server.
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
        // The token already fills its half of the queue.
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
    async fn subjects_of_one_tenant_share_its_half() {
        let admission = admission(8, 8, Duration::from_millis(20));
        let subject = |n: u8| Tenant::Subject { group: [9; 32], subject: [n; 32] };
        let first = [admission.enter(subject(1)).await.unwrap(), admission.enter(subject(1)).await.unwrap()];
        let failure = admission.enter(subject(1)).await.unwrap_err();
        assert_eq!(failure.code, Code::TooManyRequests, "a subject has half of its tenant's half");
        let second = [admission.enter(subject(2)).await.unwrap(), admission.enter(subject(2)).await.unwrap()];
        let failure = admission.enter(subject(3)).await.unwrap_err();
        assert_eq!(failure.code, Code::TooManyRequests, "their tenant has half of the places");
        assert_eq!(admission.numbers(), (4, 8, 0));
        let _other = [admission.enter(A).await.unwrap(), admission.enter(B).await.unwrap()];
        drop((first, second));
        admission.enter(subject(3)).await.unwrap();
        admission.enter(subject(1)).await.unwrap();
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
