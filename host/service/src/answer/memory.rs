//! The memory budget for encoded answers that callers have not read yet, and for the bodies of their requests.
//!
//! A caller may read its answer slowly, down to the minimum rate of a connection, and the answer stays in memory until
//! it is read. It may send the body of its request as slowly. This budget bounds the memory of all of them together.
//! Bytes are counted from before they are encoded until their last copy is dropped, wherever they are: in a body, in the
//! buffers of a connection, in an HTTP/2 stream.
//! Bytes that several answers share are counted once.
//!
//! One account gets at most half of the budget, so that its slow readers leave the other half to other accounts. If the
//! budget is used up, a reservation waits for a short time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_model::{Code, Failure, Unit, number};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::account::{Account, half};

/// The budget for all answers and requests of a service. Clones share it.
#[derive(Debug, Clone)]
pub struct TransferMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The budget in bytes.
    most: usize,
    wait: Duration,
    state: Mutex<State>,
    /// Notified when bytes are returned.
    freed: Notify,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// The bytes that each account holds. Accounts that hold nothing are not in the map.
    shares: HashMap<Account, usize>,
}

/// Where a reservation counts. Bytes that several accounts share count once in the whole budget, and once in the share of
/// each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Both,
    Whole,
    Share,
}

/// The limit that a reservation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    All,
    Account,
}

impl TransferMemory {
    /// A budget of `bytes`. A reservation waits at most `wait` for other bytes to be returned.
    pub fn new(bytes: usize, wait: Duration) -> Self {
        let (state, freed, refused) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Self(Arc::new(Inner { most: bytes, wait, state, freed, refused }))
    }

    /// The budget as one account may use it; a subject shares that of its group.
    pub fn of(&self, account: Account) -> AccountMemory {
        AccountMemory { budget: Arc::clone(&self.0), account: account.group() }
    }

    /// The number of reserved bytes.
    pub fn used(&self) -> usize {
        self.0.state().used
    }

    /// The number of reservations that were refused since the start.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The budget as one account may use it. Clones share it.
#[derive(Debug, Clone)]
pub struct AccountMemory {
    budget: Arc<Inner>,
    account: Account,
}

impl AccountMemory {
    /// Reserves bytes, at once or after a short wait.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] if the account's half is used up, [`Code::Overloaded`] if the whole budget is.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Reservation, Failure> {
        self.take_part(bytes, Part::Both).await
    }

    /// As [`AccountMemory::take`], for bytes that count there.
    pub(super) async fn take_part(&self, bytes: usize, part: Part) -> Result<Reservation, Failure> {
        let deadline = Instant::now() + self.budget.wait;
        match timeout_at(deadline, self.wait_part(bytes, part)).await {
            Ok(held) => Ok(held),
            Err(_) => self.reserve(bytes, part).map_err(|full| self.refusal(full)),
        }
    }

    /// Whose part of the budget it is.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Reserves bytes at once, for what is in memory already.
    ///
    /// # Errors
    /// As [`AccountMemory::take`].
    pub fn take_now(&self, bytes: usize) -> Result<Reservation, Failure> {
        self.reserve(bytes, Part::Both).map_err(|full| self.refusal(full))
    }

    /// Reserves bytes at once for something that can be left out if there is no room. That does not count as a refusal.
    pub fn try_take(&self, bytes: usize) -> Option<Reservation> {
        self.reserve(bytes, Part::Both).ok()
    }

    /// Reserves bytes without a time limit, for callers that have a deadline of their own.
    pub(crate) async fn wait(&self, bytes: usize) -> Reservation {
        self.wait_part(bytes, Part::Both).await
    }

    async fn wait_part(&self, bytes: usize, part: Part) -> Reservation {
        loop {
            // Registered before the check, so that bytes that are returned between the check and the wait are not
            // missed.
            let mut freed = pin!(self.budget.freed.notified());
            freed.as_mut().enable();
            if let Ok(held) = self.reserve(bytes, part) {
                return held;
            }
            freed.await;
        }
    }

    fn reserve(&self, bytes: usize, part: Part) -> Result<Reservation, Full> {
        let mut state = self.budget.state();
        let own = state.shares.get(&self.account).copied().unwrap_or(0);
        if bytes > 0 && part != Part::Share && state.used.saturating_add(bytes) > self.budget.most {
            return Err(Full::All);
        }
        if bytes > 0 && part != Part::Whole && own.saturating_add(bytes) > half(self.budget.most) {
            return Err(Full::Account);
        }
        state.add(self.account, bytes, part);
        drop(state);
        Ok(Reservation { memory: self.clone(), bytes, part })
    }

    /// Counts bytes that are allocated already, even beyond the limits. It is only for bytes that replace others which
    /// were reserved, because it reduces what is left for other accounts.
    pub fn note(&self, bytes: usize) -> Reservation {
        self.budget.state().add(self.account, bytes, Part::Both);
        Reservation { memory: self.clone(), bytes, part: Part::Both }
    }

    fn refusal(&self, full: Full) -> Failure {
        self.budget.refused.fetch_add(1, Ordering::Relaxed);
        let bytes = |n: usize| Unit::Bytes.show(number(n));
        let (code, message) = match full {
            Full::All => {
                let most = bytes(self.budget.most);
                let message = format!(
                    "the answers that are not yet read and the bodies of requests hold {most}, which is the most; try \
                     again later"
                );
                (Code::Overloaded, message)
            }
            Full::Account => {
                let most = bytes(half(self.budget.most));
                let message = format!(
                    "the answers for the access token that are not yet read and the bodies of its requests hold {most}, \
                     which is the most for one token; read them, or try again later"
                );
                (Code::TooManyRequests, message)
            }
        };
        Failure::new(code, message).retry_after(1)
    }
}

impl State {
    fn add(&mut self, account: Account, bytes: usize, part: Part) {
        if part != Part::Share {
            self.used = self.used.saturating_add(bytes);
        }
        if bytes > 0 && part != Part::Whole {
            let own = self.shares.entry(account).or_default();
            *own = own.saturating_add(bytes);
        }
    }

    fn give_back(&mut self, account: Account, bytes: usize, part: Part) {
        if part != Part::Share {
            self.used = self.used.saturating_sub(bytes);
        }
        if part != Part::Whole
            && let Entry::Occupied(mut own) = self.shares.entry(account)
        {
            *own.get_mut() = own.get().saturating_sub(bytes);
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// Reserved bytes, which are returned when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: AccountMemory,
    bytes: usize,
    part: Part,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves more, at once or after a short wait, until this has so many bytes. One that needs more than its account
    /// may have reserves all of that and continues.
    ///
    /// # Errors
    /// As [`AccountMemory::take`].
    pub async fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let more = bytes.min(half(self.memory.budget.most)).saturating_sub(self.bytes);
        if more > 0 {
            let held = self.memory.take(more).await?;
            self.join(held);
        }
        Ok(())
    }

    /// Adds another reservation of the same account to this one.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
    }

    /// Takes so many bytes out of this one, at most all, as a reservation of their own.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { memory: self.memory.clone(), bytes, part: self.part }
    }

    /// Makes this hold so many bytes, for what is in memory already. As [`AccountMemory::note`], it may exceed the limits.
    pub fn resize(&mut self, bytes: usize) {
        let more = self.memory.note(bytes.saturating_sub(self.bytes));
        self.join(more);
        self.shrink(bytes);
    }

    /// Returns the bytes beyond the first `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let more = self.bytes.saturating_sub(bytes);
        if more > 0 {
            self.bytes = bytes;
            self.memory.budget.state().give_back(self.memory.account, more, self.part);
            self.memory.budget.freed.notify_waiters();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// Bytes together with their reservation.
struct Counted<H> {
    bytes: Bytes,
    _held: H,
}

impl<H> AsRef<[u8]> for Counted<H> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that keep a reservation until the last of their copies and slices is dropped.
pub fn counted(bytes: Bytes, held: impl Send + Sync + 'static) -> Bytes {
    Bytes::from_owner(Counted { bytes, _held: held })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const A: Account = Account::Token([1; 32]);
    const B: Account = Account::Token([2; 32]);
    const C: Account = Account::Token([3; 32]);

    fn budget() -> TransferMemory {
        TransferMemory::new(100, Duration::from_millis(20))
    }

    #[tokio::test]
    async fn a_token_takes_half_and_all_of_them_the_whole() {
        let budget = budget();
        let first = budget.of(A).take(50).await.unwrap();
        let failure = budget.of(A).take(1).await.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::TooManyRequests, Some(1)));
        let _second = budget.of(B).take(50).await.unwrap();
        assert_eq!(budget.of(C).take(1).await.unwrap_err().code, Code::Overloaded);
        assert_eq!((budget.used(), budget.refused()), (100, 2));
        // A reservation of no bytes always succeeds.
        assert_eq!(budget.of(C).take(0).await.unwrap().bytes(), 0);
        drop(first);
        let _third = budget.of(C).take(50).await.unwrap();
        assert_eq!(budget.used(), 100);
    }

    #[tokio::test]
    async fn what_is_given_back_goes_to_who_waits() {
        let budget = TransferMemory::new(100, Duration::from_secs(60));
        let mut first = budget.of(A).take(50).await.unwrap();
        let waiting = tokio::spawn({
            let memory = budget.of(A);
            async move { memory.take(20).await.unwrap().bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.shrink(30);
        assert_eq!(waiting.await.unwrap(), 20);
        assert_eq!(budget.used(), 30);
    }

    #[tokio::test]
    async fn what_can_be_left_out_takes_no_more_than_the_half_of_its_token() {
        let budget = budget();
        let held: Vec<_> = std::iter::from_fn(|| budget.of(A).try_take(20)).collect();
        assert_eq!((held.len(), budget.used(), budget.refused()), (2, 40, 0));
        assert_eq!(budget.of(A).take_now(20).unwrap_err().code, Code::TooManyRequests);
        assert!(budget.of(B).try_take(50).is_some(), "the others have their half");
        assert_eq!((budget.used(), budget.refused()), (40, 1));
    }

    #[tokio::test]
    async fn a_reservation_grows_up_to_the_half_of_its_token() {
        let budget = budget();
        let mut held = budget.of(A).take_now(0).unwrap();
        held.hold(10).await.unwrap();
        held.hold(5).await.unwrap();
        assert_eq!(budget.used(), 10, "it does not shrink");
        let mut other = budget.of(A).take_now(0).unwrap();
        assert_eq!(other.hold(1_000).await.unwrap_err().code, Code::TooManyRequests);
        drop(held);
        other.hold(1_000).await.unwrap();
        assert_eq!(budget.used(), 50);
        for bytes in [70, 30] {
            other.resize(bytes);
            assert_eq!(budget.used(), bytes, "it is what is there, also beyond the half");
        }
    }

    #[tokio::test]
    async fn bytes_are_counted_until_the_last_slice_is_gone_and_shared_ones_once() {
        let budget = budget();
        let mut held = budget.of(A).take(10).await.unwrap();
        held.join(budget.of(A).note(80));
        assert_eq!(budget.used(), 90, "what is there is counted beyond the half");
        held.shrink(40);
        let held = Arc::new(held);
        let one = counted(Bytes::from_static(&[1; 40]), Arc::clone(&held));
        let mut other = counted(Bytes::from_static(&[1; 40]), held);
        let slice = other.split_to(3);
        drop((one, other));
        assert_eq!((budget.used(), &*slice), (40, &[1, 1, 1][..]));
        drop(slice);
        assert_eq!(budget.used(), 0);
        assert!(budget.0.state().shares.is_empty());
    }
}
