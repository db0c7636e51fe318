//! The task of a followed source: it looks at newly committed rows, for all hubs of the source together.
//!
//! It begins at once when something is committed after a pause, and otherwise waits for the interval of the settings, and
//! as long as the last look took, so that it takes half of the time of one thread at most. A look holds a place among
//! the queries and competes with them as the work of one tenant.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_model::Failure;
use tidegate_store::Feed;
use uuid::Uuid;

use super::event::End;
use super::following::{Following, Lists};
use super::hub::Hub;
use crate::failures::of_store;
use crate::tenant::Tenant;

/// How often a task without commits looks whether it is still needed.
const UPKEEP: Duration = Duration::from_secs(1);
/// How long the calls of a source are kept after its last follower has left, so that it can come back without a gap.
const LINGER: Duration = Duration::from_secs(300);
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

    /// Looks at a slice of new rows for each hub. Returns whether there was one.
    ///
    /// # Errors
    /// No place is free in time; the rows cannot be read.
    async fn look(self: &Arc<Self>, feed: &Arc<Feed>, hubs: Vec<Arc<Hub>>) -> Result<bool, Failure> {
        let Ok(_share) = self.share.acquire().await else { return Ok(false) };
        let place = Arc::new(self.executor.admission.enter(Tenant::Following).await?);
        let (own, feed, held) = (Arc::clone(self), Arc::clone(feed), Arc::clone(&place));
        let look = async move {
            let floor = feed.floor();
            for hub in hubs.iter().filter(|hub| hub.ring.computed() < floor) {
                hub.ring.skip_to(floor);
            }
            let Some(after) = hubs.iter().map(|hub| hub.ring.computed()).min() else { return Ok(false) };
            let Some(rows) = feed.slice(after, SLICE_ROWS, SLICE_BYTES).map_err(of_store)? else { return Ok(false) };
            let (rows, now, most) = (Arc::new(rows), own.clock.now(), own.shares().1);
            for hub in &hubs {
                hub.look(&own.executor, &rows, now, &held, most, &own.looks).await;
                tokio::task::yield_now().await;
            }
            Ok(true)
        };
        self.executor.compute.run_in(place, look).await
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
        loop {
            let hubs = own.hubs_of(source);
            if hubs.is_empty() {
                break;
            }
            used = Instant::now();
            let late = hubs.iter().filter(|hub| !hub.ring.is_ended()).any(|hub| hub.ring.computed() < target);
            if !late {
                break;
            }
            match own.look(&feed, hubs).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(failure) => {
                    tracing::debug!(%failure, "new rows are looked at later");
                    last.mark_changed();
                    break;
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
        let (interval, took) = (own.options.interval, began.elapsed());
        drop(own);
        tokio::time::sleep(interval.saturating_sub(took).max(took)).await;
    }
}
