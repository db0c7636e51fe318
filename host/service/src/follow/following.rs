//! All who follow a query of a service: how many there are, what they share, and what they use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{Code, Failure};
use tidegate_store::Feed;
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use super::hub::{Hub, HubKey};
use crate::account::Identity;
use crate::clock::Clock;
use crate::execution::Executor;
use crate::options::FollowOptions;
use crate::tokens::Tokens;

/// The part of all permits for queries that looks at new rows may take at once.
const SHARE: usize = 8;

/// What followers use, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct FollowNumbers {
    /// Streams that are open.
    pub followers: usize,
    /// Different statements among them.
    pub hubs: usize,
    /// Bytes of new rows that are kept for them.
    pub held: usize,
    /// Rows that were sent.
    pub sent: u64,
    /// Rows that slow followers missed.
    pub missed: u64,
    /// Runs of a statement over new rows.
    pub looks: u64,
    /// Runs over stored rows, for followers that came back.
    pub stored_looks: u64,
    /// Requests that were refused because there are enough followers.
    pub refused: u64,
}

/// All who follow a query of a service.
#[derive(Debug)]
pub struct Following {
    pub(super) options: FollowOptions,
    pub(super) executor: Arc<Executor>,
    pub(super) tokens: Arc<Tokens>,
    pub(super) clock: Clock,
    lists: Mutex<Lists>,
    /// Bytes of encoded rows.
    pub(super) encoded: Arc<AtomicUsize>,
    /// Bounds how many looks at new rows happen at once.
    pub(super) share: Semaphore,
    pub(super) stopping: watch::Sender<bool>,
    sent: AtomicU64,
    missed: AtomicU64,
    pub(super) looks: AtomicU64,
    pub(super) stored_looks: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) hubs: HashMap<HubKey, Arc<Hub>>,
    pub(super) feeds: HashMap<Uuid, Arc<Feed>>,
    followers: usize,
    of_token: HashMap<Identity, usize>,
}

/// A follower's part of the bounds, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) following: Arc<Following>,
    identity: Identity,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut lists = self.following.lists();
        lists.followers = lists.followers.saturating_sub(1);
        if let Some(own) = lists.of_token.get_mut(&self.identity) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                lists.of_token.remove(&self.identity);
            }
        }
    }
}

/// A follower's part of a hub. The hub ends with its last follower.
#[derive(Debug)]
pub(super) struct Membership {
    following: Arc<Following>,
    pub(super) hub: Arc<Hub>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut lists = self.following.lists();
        if self.hub.followers.fetch_sub(1, Ordering::Relaxed) == 1
            && lists.hubs.get(&self.hub.key).is_some_and(|known| Arc::ptr_eq(known, &self.hub))
        {
            lists.hubs.remove(&self.hub.key);
        }
    }
}

impl Following {
    pub(crate) fn new(
        options: &FollowOptions,
        executor: &Arc<Executor>,
        tokens: &Arc<Tokens>,
        clock: Clock,
        permits: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            options: options.clone(),
            executor: Arc::clone(executor),
            tokens: Arc::clone(tokens),
            clock,
            lists: Mutex::default(),
            encoded: Arc::default(),
            share: Semaphore::new((permits / SHARE).max(1)),
            stopping: watch::Sender::new(false),
            sent: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            stored_looks: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all streams, and lets no more begin: the server stops.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// What followers use now.
    pub fn numbers(&self) -> FollowNumbers {
        let lists = self.lists();
        let calls: usize = lists.feeds.values().map(|feed| feed.held()).sum();
        FollowNumbers {
            followers: lists.followers,
            hubs: lists.hubs.len(),
            held: calls + self.encoded.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            missed: self.missed.load(Ordering::Relaxed),
            looks: self.looks.load(Ordering::Relaxed),
            stored_looks: self.stored_looks.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// A seat for one more follower.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] and [`Code::Overloaded`]: there are enough of the token, or in all.
    pub(super) fn seat(self: &Arc<Self>, identity: Identity) -> Result<Seat, Failure> {
        let FollowOptions { followers: most, followers_of_token: of_token, .. } = self.options;
        let mut lists = self.lists();
        let own = lists.of_token.get(&identity).copied().unwrap_or(0);
        let failure = if *self.stopping.borrow() {
            Failure::new(Code::Overloaded, "the server is shutting down; try again later")
        } else if own >= of_token {
            let message = format!(
                "the access token follows {own} queries, which is the most for one token ([follow] followers_of_token); \
                 end one of them, or try again later"
            );
            Failure::new(Code::TooManyRequests, message)
        } else if lists.followers >= most {
            let message =
                format!("{most} queries are followed, which is the most ([follow] followers); try again later");
            Failure::new(Code::Overloaded, message)
        } else {
            lists.followers += 1;
            *lists.of_token.entry(identity).or_default() += 1;
            drop(lists);
            return Ok(Seat { following: Arc::clone(self), identity });
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(failure.retry_after(1))
    }

    /// The hub of a statement, or `new` if there is none, with one more follower.
    pub(super) fn join(self: &Arc<Self>, new: Hub) -> Membership {
        let mut lists = self.lists();
        let known = lists.hubs.get(&new.key).filter(|hub| !hub.ring.is_ended()).cloned();
        let hub = known.unwrap_or_else(|| {
            let hub = Arc::new(new);
            lists.hubs.insert(hub.key, Arc::clone(&hub));
            hub
        });
        hub.followers.fetch_add(1, Ordering::Relaxed);
        Membership { following: Arc::clone(self), hub }
    }

    /// The bytes that one feed may hold, and those of one ring.
    pub(super) fn shares(&self) -> (usize, usize) {
        let lists = self.lists();
        let half = self.options.memory / 2;
        (half / lists.feeds.len().max(1), half / lists.hubs.len().max(1))
    }
}

impl Following {
    /// Counts rows that were sent.
    pub(super) fn count_sent(&self, rows: u64) {
        self.sent.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts rows that a follower missed.
    pub(super) fn count_missed(&self, rows: u64) {
        self.missed.fetch_add(rows, Ordering::Relaxed);
    }
}
