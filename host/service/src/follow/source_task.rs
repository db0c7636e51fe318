//! The task of a followed source: it looks at newly committed rows, for all hubs of the source together.
//!
//! It begins at once when something is committed after a pause, and otherwise waits for the interval of the settings, and
//! as long as the last pass over the hubs took, so that it takes half of the time of one thread at most. A pass holds a
//! permit among the queries and competes with them as the work of one account.
//!
//! Each hub has its own place up to which it is computed. Hubs at the same place share a slice, and those of a token that
//! has many or slow ones fall behind the others, so that nobody waits for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_model::Failure;
use tidegate_store::Feed;
use uuid::Uuid;

use super::event::End;
use super::following::{Following, Lists};
use super::hub::Hub;
use crate::account::Account;
use crate::failures::of_store;

/// How often a task without commits looks whether it is still needed.
const UPKEEP: Duration = Duration::from_secs(1);
/// How long the calls of a source are kept after its last follower has left, so that it can come back without reading
/// stored rows.
const LINGER: Duration = Duration::from_secs(300);
/// How long the hubs of one token may take in one pass, but for the end of the last of them.
const TOKEN_TIME: Duration = Duration::from_millis(250);
/// The rows and bytes of one slice.
const SLICE_ROWS: usize = 8 << 10;
const SLICE_BYTES: usize = 8 << 20;

impl Following {
    /// The feed of a source. With the first one, its task begins. Blocks for reading from the catalog.
    pub(super) fn feed(self: &Arc<Self>, source: Uuid) -> Result<Arc<Feed>, Failure> {
        let known = |lists: &Lists| lists.feeds.get(&source).filter(|feed| !feed.is_deleted()).cloned();
        if let Some(feed) = known(&self.lists()) {
            return Ok(feed);
        }
        let store = self.executor.endpoints.store();
        let feed = Arc::new(store.feed(source, self.options.memory / 2).map_err(of_store)?);
        let mut lists = self.lists();
        if let Some(feed) = known(&lists) {
            return Ok(feed);
        }
        lists.feeds.insert(source, Arc::clone(&feed));
        drop(lists);
        feed.hold_at_most(self.shares().0);
        tokio::spawn(run(Arc::downgrade(self), source, Arc::clone(&feed)));
        Ok(feed)
    }

    fn hubs_of(&self, source: Uuid) -> Vec<Arc<Hub>> {
        self.lists().hubs.values().filter(|hub| hub.source == source).cloned().collect()
    }

    /// Looks at new rows for each hub whose ring has not ended, those first that are behind. Returns whether one of them
    /// got on. A token's hubs take [`TOKEN_TIME`] of a pass; the others of them go on in the next one.
    ///
    /// # Errors
    /// No permit is free in time; the rows cannot be read.
    async fn look(self: &Arc<Self>, feed: &Arc<Feed>, hubs: Vec<Arc<Hub>>) -> Result<bool, Failure> {
        let Ok(_share) = self.share.acquire().await else { return Ok(false) };
        let permit = Arc::new(self.executor.admission.enter(Account::Following).await?);
        let (own, feed, held) = (Arc::clone(self), Arc::clone(feed), Arc::clone(&permit));
        let look = async move {
            let (floor, last, most) = (feed.floor(), *feed.last().borrow(), own.shares().1);
            let mut groups: BTreeMap<i64, Vec<Arc<Hub>>> = BTreeMap::new();
            for hub in hubs.into_iter().filter(|hub| !hub.ring.is_ended()) {
                if hub.ring.computed() < floor {
                    hub.ring.skip_to(floor);
                }
                groups.entry(hub.ring.computed()).or_default().push(hub);
            }
            let (mut times, mut got_on) = (Times::default(), false);
            for (after, mut hubs) in groups {
                hubs.retain(|hub| times.are_left(hub.account()));
                let Some(first) = hubs.first().map(|hub| hub.account()) else { continue };
                let began = Instant::now();
                let rows = feed.slice(after, SLICE_ROWS, SLICE_BYTES).map_err(of_store)?;
                times.add(first, began.elapsed());
                let Some(rows) = rows.map(Arc::new) else {
                    // `last` was read before: the source has no calls in between.
                    hubs.iter().for_each(|hub| hub.ring.has_computed(last));
                    continue;
                };
                for (nth, hub) in hubs.into_iter().enumerate() {
                    if *own.stopping.borrow() {
                        return Ok(false);
                    }
                    if !times.take_in(nth, hub.account()) {
                        continue;
                    }
                    let began = Instant::now();
                    hub.look(&own.executor, &rows, own.clock.now(), &held, most, &own.looks).await;
                    times.add(hub.account(), began.elapsed());
                    got_on |= hub.ring.is_ended() || hub.ring.computed() > after;
                    tokio::task::yield_now().await;
                }
            }
            Ok(got_on)
        };
        self.executor.compute.run_in(permit, look).await
    }
}

/// What the hubs of each token have used of a pass.
#[derive(Debug, Default)]
struct Times(HashMap<Account, Duration>);

impl Times {
    fn are_left(&self, account: Account) -> bool {
        self.0.get(&account).is_none_or(|used| *used < TOKEN_TIME)
    }

    /// Whether a hub of a group, by its place in it, has its turn: the first one gets on even if its token has used its time
    /// for the slice. The others of the same token wait for the next pass like all.
    fn take_in(&self, nth: usize, account: Account) -> bool {
        nth == 0 || self.are_left(account)
    }

    fn add(&mut self, account: Account, time: Duration) {
        *self.0.entry(account).or_default() += time;
    }
}

async fn run(following: Weak<Following>, source: Uuid, feed: Arc<Feed>) {
    let mut last = feed.last();
    // What was committed before the task began.
    last.mark_changed();
    let mut used = Instant::now();
    loop {
        let _ = tokio::time::timeout(UPKEEP, last.changed()).await;
        let began = Instant::now();
        let Some(own) = following.upgrade() else { return };
        if *own.stopping.borrow() {
            return;
        }
        let target = *last.borrow_and_update();
        if feed.is_deleted() {
            own.lists().feeds.remove(&source);
            own.hubs_of(source).iter().for_each(|hub| hub.ring.end(End::SourceDeleted));
            return;
        }
        let hubs = own.hubs_of(source);
        if !hubs.is_empty() {
            used = Instant::now();
        }
        let late = |hubs: &[Arc<Hub>]| hubs.iter().any(|hub| !hub.ring.is_ended() && hub.ring.computed() < target);
        let mut interval = own.options.interval;
        if late(&hubs) {
            match own.look(&feed, hubs).await {
                Ok(true) if late(&own.hubs_of(source)) => {
                    last.mark_changed();
                    interval = Duration::ZERO;
                }
                Ok(_) => {}
                Err(failure) => {
                    tracing::debug!(%failure, "new rows are looked at later");
                    last.mark_changed();
                }
            }
        }
        let (of_feed, of_ring) = own.shares();
        feed.hold_at_most(of_feed);
        own.hubs_of(source).iter().for_each(|hub| hub.ring.trim(of_ring));
        if used.elapsed() > LINGER {
            let mut lists = own.lists();
            if !lists.hubs.values().any(|hub| hub.source == source) {
                lists.feeds.remove(&source);
                return;
            }
        }
        let took = began.elapsed();
        drop(own);
        tokio::time::sleep(interval.saturating_sub(took).max(took)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hub_of_a_token_gets_on_without_time_and_the_others_wait() {
        let (slow, other) = (Account::Token([1; 32]), Account::Token([2; 32]));
        let mut times = Times::default();
        times.add(slow, TOKEN_TIME);
        let turns = [slow, slow, other, slow].into_iter().enumerate().map(|(nth, account)| times.take_in(nth, account));
        assert_eq!(turns.collect::<Vec<_>>(), [true, false, true, false]);
    }
}
