//! What a follower reads by itself: rows that the ring of its statement has no longer, or never had.
//!
//! Newer ones are in the feed of the source. Older ones are in memory and segments, and are read in the order of their
//! places, a range of calls at a time, up to the calls that the feed has. Each piece takes a place among the queries of the
//! caller, and its events count in the memory of the caller's answers until they are sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_model::Failure;
use tidegate_store::WantedCalls;

use super::event::{self, End};
use super::follower::Follower;
use super::position::Position;
use super::reach::Reach;
use super::ring::Batch;
use super::statement::{in_time, look, planned, prepared, within};
use crate::admission::Permit;
use crate::answer::{Reservation, TenantMemory, counted};
use crate::failures::of_store;

/// The rows and bytes that are looked at at once for those that were missed.
const SLICE_ROWS: usize = 2 << 10;
const SLICE_BYTES: usize = 1 << 20;
/// The most bytes of missed rows that are sent at once, unless one row has more, and how many if there is no room for
/// them.
const MOST: usize = 1 << 20;
const LEAST: usize = 64 << 10;
/// A look at the stored rows of several calls that takes longer is made smaller: the stream is silent meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before another try where the server is busy.
const PAUSE: Duration = Duration::from_millis(100);
/// What a follower is told that comes back to rows that are there no longer, or that cannot be put in their order.
const GAP: &str = "rows were dropped since then, or are stored without their order; ask the query itself for them";

/// Some missed rows.
#[derive(Debug, Default)]
struct Missed {
    batch: Batch,
    /// All rows up to here are in the batch, or were known before.
    after: Option<Position>,
    /// Whether rows may be missing among them.
    has_gap: bool,
    /// The bounds of the next look at stored rows.
    reach: Option<Reach>,
}

impl Follower {
    /// Reads some of the rows that the ring has no longer. They are known to the caller when they are on their way.
    pub(super) async fn catch_up(&mut self) -> Result<(), End> {
        let following = Arc::clone(&self.following);
        let executor = &following.executor;
        let memory = executor.answers.of(self.request.tenant);
        let room = room(&memory).await;
        let place = executor.admission.enter(self.request.tenant).await;
        let (Ok(mut held), Ok(place)) = (room, place) else {
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        };
        let (place, most) = (Arc::new(place), held.bytes());
        let floor = self.feed.floor();
        let held_place = Arc::clone(&place);
        let missed = if self.after.before() < floor {
            let work = self.read_stored(place, most, floor);
            executor.compute.run_in(held_place, async move { Ok(work.await) }).await??
        } else {
            self.gap_told = false;
            let work = self.read_missed(place, most);
            executor.compute.run_in(held_place, async move { Ok(work.await) }).await??
        };
        let Missed { batch, after, has_gap, reach } = missed;
        let (events, rows) = batch.into_events();
        match events.len().checked_sub(held.bytes()) {
            Some(more) if more > 0 => held.join(memory.take(more).await?),
            _ => held.shrink(events.len()),
        }
        if has_gap && !std::mem::replace(&mut self.gap_told, true) {
            self.queue.push_back(event::gap(GAP).into());
        }
        if rows > 0 {
            self.send(counted(events.into(), Arc::new(held)), rows);
        }
        self.after = after.map_or(self.after, |after| self.after.max(after));
        self.reach = reach.unwrap_or(self.reach);
        Ok(())
    }

    /// Reads rows of the feed after the place of the caller, about `most` bytes of them.
    fn read_missed(
        &self,
        place: Arc<Permit>,
        most: usize,
    ) -> impl Future<Output = Result<Missed, End>> + Send + 'static {
        let (following, hub, feed) =
            (Arc::clone(&self.following), Arc::clone(&self.membership.hub), Arc::clone(&self.feed));
        let (request, after, before) = (Arc::clone(&self.request), self.after, self.after.before());
        in_time(async move {
            let mut batch = Batch::default();
            // Read before the slice: the feed has all calls up to that one, and none of the source has a number between.
            let last = *feed.last().borrow();
            let rows = feed.slice(before, SLICE_ROWS, SLICE_BYTES).map_err(of_store)?;
            let Some(rows) = rows.map(Arc::new) else {
                return Ok(Missed { after: Some(Position::whole(last.max(before))), ..Missed::default() });
            };
            if rows.after() > before {
                // The feed has given calls away meanwhile. The next try reads them where they are stored.
                return Ok(Missed::default());
            }
            let executor = &following.executor;
            let prepared = hub.prepared(executor, &rows, following.clock.now(), &place).await?;
            let mut more = true;
            look(executor, &request, &prepared, Arc::clone(&rows), after, |position, json| {
                batch.add(position, json);
                more = batch.bytes() < most;
                more
            })
            .await?;
            let read = batch.last().filter(|_| !more).unwrap_or(Position::whole(rows.last()));
            Ok(Missed { batch, after: Some(read), ..Missed::default() })
        })
    }

    /// Reads stored rows after the place of the caller, about `most` bytes of them, up to the call `floor`.
    fn read_stored(
        &self,
        place: Arc<Permit>,
        most: usize,
        floor: i64,
    ) -> impl Future<Output = Result<Missed, End>> + Send + 'static {
        let (following, source) = (Arc::clone(&self.following), self.membership.hub.source);
        let (request, after, before) = (Arc::clone(&self.request), self.after, self.after.before());
        let (reach, gap_told) = (self.reach, self.gap_told);
        async move {
            let executor = &following.executor;
            let store = executor.endpoints.store();
            let planned = planned(executor, &request, following.clock.now(), &place)?;
            if planned.table.source != source {
                return Err(End::Changed);
            }
            let up_to = floor.min(planned.table.position);
            if up_to <= before {
                return Ok(Missed::default());
            }
            let Reach { rows, span } = reach;
            let wanted = WantedCalls { after: before, up_to, rows, span };
            let stored = store.stored_calls(&planned.table, wanted).map_err(of_store)?;
            // Asked after the snapshot was taken, which has whatever is dropped later.
            let lacks = !gap_told && store.may_lack_calls(source, before).map_err(of_store)?;
            let has_gap = lacks || !stored.is_complete;
            let (mut batch, mut more) = (Batch::default(), true);
            following.stored_looks.fetch_add(1, Ordering::Relaxed);
            let time = request.limits.wall_clock;
            let looked = within(if stored.span > 1 { time.min(PATIENCE) } else { time }, async {
                let prepared = prepared(executor, &planned, &stored.table).await?;
                look(executor, &request, &prepared, Arc::new(()), after, |position, json| {
                    batch.add(position, json);
                    more = batch.bytes() < most;
                    more
                })
                .await
            });
            let looked: Result<(), Failure> = looked.await;
            if let Err(failure) = looked {
                let Some(reach) = reach.after_failure(&failure, stored.span) else {
                    return Err(failure.into());
                };
                return Ok(Missed { reach: Some(reach), ..Missed::default() });
            }
            let reach = match (more, batch.bytes() < most / 4) {
                (false, _) => reach.smaller(),
                (true, true) => reach.larger(),
                (true, false) => reach,
            };
            let read = batch.last().filter(|_| !more).unwrap_or(Position::whole(stored.last));
            Ok(Missed { batch, after: Some(read), has_gap, reach: Some(reach) })
        }
    }
}

/// Room for missed rows: less of it where much is being sent.
///
/// # Errors
/// There is none for now.
async fn room(memory: &TenantMemory) -> Result<Reservation, Failure> {
    match memory.take(MOST).await {
        Ok(held) => Ok(held),
        Err(_) => memory.take(LEAST).await,
    }
}
