//! Admission control: how many queries run at the same time, for all callers and for each account.
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

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};
use tokio::time::timeout;

use crate::account::Account;
use crate::fair_share::{FairShare, Permits, Share};
use crate::options::AdmissionOptions;
use crate::turns::Turns;

/// The permit of one running query, returned when it is dropped. It belongs to the work and not to the caller that
/// waits for it: work that does not stop at once keeps its permit.
#[derive(Debug)]
pub(crate) struct Permit {
    own: Permits<Line>,
    _subject: Option<Permits<Line>>,
}

impl Permit {
    /// The turns that the account's work takes on the compute threads.
    pub(crate) fn turns(&self) -> &Turns {
        &self.own.with().turns
    }
}

/// The permits for queries, and the queue before them.
#[derive(Debug)]
pub struct Admission {
    permits: FairShare<Line>,
    /// The number of compute threads.
    threads: usize,
    waiting: AtomicUsize,
    queue: usize,
    wait: Duration,
}

/// How many queries of an account wait, and its turns on the compute threads.
#[derive(Debug)]
struct Line {
    waiting: AtomicUsize,
    turns: Turns,
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
        Self {
            permits: FairShare::new(options.permits()),
            threads,
            waiting: AtomicUsize::new(0),
            queue: options.queue,
            wait: options.wait,
        }
    }

    /// Whether as many queries run as there are compute threads, or more, so that other work would slow them down.
    pub(crate) fn is_busy(&self) -> bool {
        self.permits.held() >= self.threads.max(1) || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A permit, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if the queue is full or the wait has timed out; [`Code::TooManyRequests`] if only the
    /// account's own share is used up, while permits are free for other accounts.
    pub(crate) async fn enter(&self, account: Account) -> Result<Permit, Failure> {
        let (group, began) = (account.group(), Instant::now());
        if group == account {
            return Ok(Permit { own: self.enter_share(account, self.wait).await?, _subject: None });
        }
        // First the subject's own permit: while it waits for that, it takes none of its group.
        let subject = self.enter_subject(account).await?;
        let own = self.enter_share(group, self.wait.saturating_sub(began.elapsed())).await?;
        Ok(Permit { own, _subject: Some(subject) })
    }

    /// A permit of a subject's share, at once or after a short wait.
    async fn enter_subject(&self, subject: Account) -> Result<Permits<Line>, Failure> {
        let share = self.share(subject);
        if let Some(own) = share.try_take() {
            return Ok(own);
        }
        let refused = || self.refusal(&share, "the queries before this one take too long");
        let _slot = QueueSlot::take(&share.with.waiting, subject.share(self.queue)).ok_or_else(refused)?;
        match timeout(self.wait, share.take()).await {
            Ok(Ok(own)) => Ok(own),
            _ => Err(refused()),
        }
    }

    async fn enter_share(&self, account: Account, longest: Duration) -> Result<Permits<Line>, Failure> {
        let share = self.share(account);
        if let Ok(permit) = self.permits.try_take(&share, 1) {
            return Ok(permit);
        }
        let full = || self.refusal(&share, "too many queries wait for their turn");
        let _own_slot = QueueSlot::take(&share.with.waiting, account.share(self.queue)).ok_or_else(full)?;
        let _common_slot = QueueSlot::take(&self.waiting, self.queue).ok_or_else(full)?;
        match timeout(longest, self.permits.take(&share)).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.refusal(&share, "the queries before this one take too long")),
        }
    }

    /// The failure of a refused query. If common permits are free, the account has reached its own limit and not the
    /// server's.
    fn refusal(&self, share: &Share<Line>, why: &str) -> Failure {
        if self.permits.free() == 0 {
            let message = format!("the server is busy: {why}; try again later");
            return Failure::new(Code::Overloaded, message).retry_after(1);
        }
        let most = share.most();
        let message =
            format!("the access token has {most} queries running, which is the most for one token; try again later");
        Failure::new(Code::TooManyRequests, message).retry_after(1)
    }

    fn share(&self, account: Account) -> Arc<Share<Line>> {
        let line = || Line { waiting: AtomicUsize::new(0), turns: Turns::new(account.share(self.threads)) };
        self.permits.of(account, line)
    }

    /// The number of queries that run, that may run, and that wait.
    pub fn numbers(&self) -> (usize, usize, usize) {
        (self.permits.held(), self.permits.most(), self.waiting.load(Ordering::Relaxed))
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

    const A: Account = Account::Token([1; 32]);
    const B: Account = Account::Token([2; 32]);

    #[tokio::test]
    async fn who_finds_no_permit_waits_and_then_is_refused() {
        let admission = admission(1, 1, Duration::from_millis(20));
        let first = admission.enter(A).await.unwrap();
        let failure = admission.enter(A).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::Overloaded, Some(1)));
        assert_eq!(admission.numbers(), (1, 1, 0), "who gives up leaves the line");
        drop(first);
        admission.enter(A).await.unwrap();
    }

    #[tokio::test]
    async fn a_permit_goes_to_who_waits_and_a_full_line_refuses_at_once() {
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
    async fn one_token_takes_half_of_the_permits_and_leaves_the_rest_to_others() {
        let admission = admission(5, 8, Duration::from_millis(20));
        let first = admission.enter(A).await.unwrap();
        let _second = admission.enter(A).await.unwrap();
        let failure = admission.enter(A).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::TooManyRequests, Some(1)));
        assert!(failure.message.contains("has 2 queries running"), "{failure}");
        let _others = [admission.enter(B).await.unwrap(), admission.enter(B).await.unwrap()];
        let warming = admission.enter(Account::Warming).await.unwrap();
        // All permits are in use now, which is the limit of the server.
        assert_eq!(admission.enter(Account::Warming).await.unwrap_err().code, Code::Overloaded);
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
        let wait = |account: Account| {
            let admission = Arc::clone(&admission);
            tokio::spawn(async move { admission.enter(account).await })
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
    async fn subjects_of_one_account_share_its_half() {
        let admission = admission(8, 8, Duration::from_millis(20));
        let subject = |n: u8| Account::Subject { group: [9; 32], subject: [n; 32] };
        let first = [admission.enter(subject(1)).await.unwrap(), admission.enter(subject(1)).await.unwrap()];
        let failure = admission.enter(subject(1)).await.unwrap_err();
        assert_eq!(failure.code, Code::TooManyRequests, "a subject has half of its account's half");
        let second = [admission.enter(subject(2)).await.unwrap(), admission.enter(subject(2)).await.unwrap()];
        let failure = admission.enter(subject(3)).await.unwrap_err();
        assert_eq!(failure.code, Code::TooManyRequests, "their account has half of the permits");
        assert_eq!(admission.numbers(), (4, 8, 0));
        let _other = [admission.enter(A).await.unwrap(), admission.enter(B).await.unwrap()];
        drop((first, second));
        admission.enter(subject(3)).await.unwrap();
        admission.enter(subject(1)).await.unwrap();
    }
}
