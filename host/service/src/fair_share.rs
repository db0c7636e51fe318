//! Permits of which one account holds at most its share ([`Account::share`]), so that the others find the rest.
//!
//! An account takes each permit of its own share first, and then of all. So its further waiters wait for their own share, and
//! never stand before those of other accounts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::account::Account;

/// If there are this many shares, unused ones are removed before a new one is added.
const MOST_SHARES: usize = 1_000;

/// The permits of all accounts. With each share goes something that its account has only once, such as its line.
#[derive(Debug)]
pub struct FairShare<T = ()> {
    most: usize,
    all: Arc<Semaphore>,
    /// The shares that somebody has: who waits, or holds a permit.
    shares: Mutex<HashMap<Account, Weak<Share<T>>>>,
}

/// The share of one account.
#[derive(Debug)]
pub struct Share<T = ()> {
    permits: Arc<Semaphore>,
    most: usize,
    /// What goes with it.
    pub with: T,
}

/// What is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// The share of the account, while others may find something.
    Share,
    /// All of it.
    All,
}

impl<T> FairShare<T> {
    /// So many permits for all accounts together.
    pub fn new(most: usize) -> Self {
        Self { most, all: Arc::new(Semaphore::new(most)), shares: Mutex::default() }
    }

    /// How many permits there are.
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many permits are free.
    pub fn free(&self) -> usize {
        self.all.available_permits()
    }

    /// How many permits are held.
    pub fn held(&self) -> usize {
        self.most.saturating_sub(self.free())
    }

    /// The share of an account. A new one is made with what `make` returns.
    pub fn of(&self, account: Account, make: impl FnOnce() -> T) -> Arc<Share<T>> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&account).and_then(Weak::upgrade) {
            return share;
        }
        if shares.len() >= MOST_SHARES {
            shares.retain(|_, share| share.strong_count() > 0);
        }
        let most = account.share(self.most);
        let share = Arc::new(Share { permits: Arc::new(Semaphore::new(most)), most, with: make() });
        shares.insert(account, Arc::downgrade(&share));
        share
    }

    /// All of it as one share, for work of no account.
    pub fn whole(&self, with: T) -> Arc<Share<T>> {
        Arc::new(Share { permits: Arc::new(Semaphore::new(self.most)), most: self.most, with })
    }

    /// So many permits at once, or none.
    ///
    /// # Errors
    /// What has too few.
    pub fn try_take(&self, share: &Arc<Share<T>>, count: u32) -> Result<Permits<T>, UsedUp> {
        let own = if share.most < self.most { UsedUp::Share } else { UsedUp::All };
        let own = Arc::clone(&share.permits).try_acquire_many_owned(count).map_err(|_| own)?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(count).map_err(|_| UsedUp::All)?;
        Ok(Permits { share: Arc::clone(share), own, all: Some(all) })
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// None: the permits are never closed.
    pub async fn take(&self, share: &Arc<Share<T>>) -> Result<Permits<T>, AcquireError> {
        let own = share.take().await?;
        Ok(Permits { all: Some(Arc::clone(&self.all).acquire_owned().await?), ..own })
    }
}

impl<T> Share<T> {
    /// The most permits that its account may hold.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Waits for a permit of this share alone.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Permits<T>, AcquireError> {
        let own = Arc::clone(&self.permits).acquire_owned().await?;
        Ok(Permits { share: Arc::clone(self), own, all: None })
    }

    /// A permit of this share alone, if there is one.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Permits<T>> {
        let own = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Permits { share: Arc::clone(self), own, all: None })
    }
}

/// Permits of a share, which stays known as long, and as many of all, except where they are of the share alone. They are free
/// again when this is dropped.
#[derive(Debug)]
pub struct Permits<T = ()> {
    own: OwnedSemaphorePermit,
    all: Option<OwnedSemaphorePermit>,
    // Dropped last: a share that is made anew has all of its permits.
    share: Arc<Share<T>>,
}

impl<T> Permits<T> {
    /// What goes with the share.
    pub(crate) fn with(&self) -> &T {
        &self.share.with
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.own.num_permits()
    }

    /// Takes so many of them out; `None` if there are fewer.
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let all = match &mut self.all {
            Some(all) => Some(all.split(count)?),
            None => None,
        };
        Some(Self { share: Arc::clone(&self.share), own: self.own.split(count)?, all })
    }

    /// Adds others of the same share and kind.
    pub fn merge(&mut self, more: Self) {
        self.own.merge(more.own);
        if let (Some(all), Some(more)) = (&mut self.all, more.all) {
            all.merge(more);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const A: Account = Account::Token([1; 32]);

    fn taken(permits: &FairShare, account: Account) -> Result<Permits, UsedUp> {
        permits.try_take(&permits.of(account, || ()), 1)
    }

    #[test]
    fn an_account_has_half_and_all_have_the_whole() {
        let permits = FairShare::new(5);
        let mut own = permits.try_take(&permits.of(A, || ()), 2).unwrap();
        assert_eq!(taken(&permits, A).unwrap_err(), UsedUp::Share);
        let others: Vec<_> = (2..5).map(|n| taken(&permits, Account::Token([n; 32])).unwrap()).collect();
        assert_eq!(taken(&permits, Account::Alerts).unwrap_err(), UsedUp::All);
        drop((own.split(1).unwrap(), others));
        assert_eq!((permits.held(), permits.free()), (1, 4));
        own.merge(taken(&permits, A).unwrap());
        assert_eq!((own.count(), taken(&permits, A).unwrap_err()), (2, UsedUp::Share));
        let whole = permits.whole(());
        let _rest = permits.try_take(&whole, 3).unwrap();
        assert_eq!(permits.try_take(&whole, 3).unwrap_err(), UsedUp::All, "it is nobody's share");
    }

    #[test]
    fn shares_that_nobody_uses_are_let_go_and_others_stay_known() {
        let permits = FairShare::new(4);
        let account = |n: usize| {
            let mut identity = [0; 32];
            identity.iter_mut().zip(n.to_le_bytes()).for_each(|(to, from)| *to = from);
            Account::Token(identity)
        };
        let held = taken(&permits, account(0)).unwrap();
        for n in 1..=2 * MOST_SHARES {
            drop(taken(&permits, account(n)).unwrap());
        }
        assert!(permits.shares.lock().unwrap().len() <= MOST_SHARES);
        let _second = taken(&permits, account(0)).unwrap();
        assert_eq!(taken(&permits, account(0)).unwrap_err(), UsedUp::Share);
        drop(held);
        taken(&permits, account(0)).unwrap();
    }
}
