//! Reservations for bytes that several accounts are sent at the same time: those of a cached answer.
//!
//! The bytes are in memory once, so they count once in the whole budget, until the last reader has taken them. In the share
//! of an account they count only while a reader of that account takes them, so that no account is refused because of the
//! readers of another.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_model::Failure;
use tokio::sync::Notify;

use super::memory::{AccountMemory, Part, Reservation};
use crate::account::Account;

/// The reservations for the same bytes, of all accounts that are being sent them.
#[derive(Debug, Default)]
pub(crate) struct SharedBytes {
    readers: Mutex<Readers>,
    /// Told to all who wait for room when there is a reservation that they may share.
    made: Notify,
}

#[derive(Debug, Default)]
struct Readers {
    /// The bytes in the whole budget.
    whole: Weak<Reservation>,
    /// The bytes in the share of each account.
    shares: HashMap<Account, Weak<SharedReservation>>,
}

/// The reservation of one account, shared by all of its readers.
#[derive(Debug)]
pub(crate) struct SharedReservation {
    _share: Reservation,
    _whole: Arc<Reservation>,
}

impl SharedBytes {
    /// The reservation for a reader of an account. `bytes` is the same number in all calls.
    ///
    /// # Errors
    /// The budget is used up; see [`AccountMemory::take`].
    pub(crate) async fn take(&self, memory: &AccountMemory, bytes: usize) -> Result<Arc<SharedReservation>, Failure> {
        loop {
            // Registered before the look, so that what is made in between is not missed.
            let mut made = pin!(self.made.notified());
            made.as_mut().enable();
            if let Some(held) = self.readers().of(memory.account()) {
                return Ok(held);
            }
            tokio::select! {
                parts = self.parts(memory, bytes) => {
                    let (share, whole) = parts?;
                    return Ok(self.held(memory, share, whole));
                }
                () = made => {}
            }
        }
    }

    /// Room for the bytes in the share of the account and in the whole budget.
    async fn parts(&self, memory: &AccountMemory, bytes: usize) -> Result<(Reservation, Arc<Reservation>), Failure> {
        let share = memory.take_part(bytes, Part::Share).await?;
        let known = self.readers().whole.upgrade();
        let whole = match known {
            Some(known) => known,
            None => Arc::new(memory.take_part(bytes, Part::Whole).await?),
        };
        Ok((share, whole))
    }

    fn held(&self, memory: &AccountMemory, share: Reservation, whole: Arc<Reservation>) -> Arc<SharedReservation> {
        let mut readers = self.readers();
        // Other readers may have made the same reservations in the meantime. Then these are returned.
        if let Some(held) = readers.of(memory.account()) {
            return held;
        }
        let whole = readers.whole.upgrade().unwrap_or(whole);
        readers.whole = Arc::downgrade(&whole);
        let held = Arc::new(SharedReservation { _share: share, _whole: whole });
        readers.shares.retain(|_, held| held.strong_count() > 0);
        readers.shares.insert(memory.account(), Arc::downgrade(&held));
        drop(readers);
        self.made.notify_waiters();
        held
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readers {
    fn of(&self, account: Account) -> Option<Arc<SharedReservation>> {
        self.shares.get(&account)?.upgrade()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::Duration;

    use tidegate_model::Code;

    use super::*;
    use crate::answer::TransferMemory;

    const A: Account = Account::Token([1; 32]);
    const B: Account = Account::Token([2; 32]);

    #[tokio::test]
    async fn shared_bytes_count_for_each_account_that_reads_them_and_in_memory_once() {
        let budget = TransferMemory::new(100, Duration::from_millis(20));
        let shared = SharedBytes::default();
        let first = shared.take(&budget.of(A), 40).await.unwrap();
        let second = shared.take(&budget.of(A), 40).await.unwrap();
        let other = shared.take(&budget.of(B), 40).await.unwrap();
        assert_eq!(budget.used(), 40);
        for account in [A, B] {
            assert_eq!(budget.of(account).take(11).await.unwrap_err().code, Code::TooManyRequests);
        }
        // The other account still reads, and the first one has its whole half again.
        drop(first);
        assert!(budget.of(A).take(11).await.is_err(), "its second reader has not ended");
        drop(second);
        let held = budget.of(A).take(50).await.unwrap();
        assert_eq!(budget.used(), 90);
        assert!(budget.of(B).take(11).await.is_err());
        drop((held, other));
        assert_eq!(budget.used(), 0);
        let again = shared.take(&budget.of(B), 40).await.unwrap();
        assert_eq!(budget.used(), 40);
        drop(again);
    }

    #[tokio::test]
    async fn readers_that_come_at_once_reserve_once() {
        let budget = TransferMemory::new(100, Duration::from_secs(60));
        let shared = Arc::new(SharedBytes::default());
        let held = budget.of(A).take(50).await.unwrap();
        let wait = || {
            let (shared, memory) = (Arc::clone(&shared), budget.of(A));
            tokio::spawn(async move { shared.take(&memory, 20).await.unwrap() })
        };
        let waiting = [wait(), wait(), wait()];
        tokio::task::yield_now().await;
        drop(held);
        let mut readers = Vec::new();
        for reader in waiting {
            readers.push(reader.await.unwrap());
        }
        assert_eq!(budget.used(), 20);
        drop(readers);
        assert_eq!(budget.used(), 0);
    }

    /// The room that the second waits for is never free, because the first takes it.
    #[tokio::test]
    async fn who_waits_for_room_shares_what_is_made_meanwhile() {
        let budget = TransferMemory::new(100, Duration::from_secs(60));
        let shared = Arc::new(SharedBytes::default());
        let held = budget.of(B).take(50).await.unwrap();
        let freed = budget.of(Account::Token([3; 32])).take(20).await.unwrap();
        let wait = || {
            let (shared, memory) = (Arc::clone(&shared), budget.of(A));
            tokio::spawn(async move { shared.take(&memory, 40).await.unwrap() })
        };
        let waiting = [wait(), wait()];
        tokio::task::yield_now().await;
        drop(freed);
        let both = tokio::time::timeout(Duration::from_secs(10), futures::future::join_all(waiting)).await.unwrap();
        assert_eq!(budget.used(), 90);
        drop((both, held));
        assert_eq!(budget.used(), 0);
    }
}
