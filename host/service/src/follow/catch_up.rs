//! What a follower reads by itself: rows that the ring of its statement has no longer, or never had.
//!
//! Newer ones are in the feed of the source. Older ones are in memory and segments, and are read in the order of their
//! places, a range of calls at a time, up to the calls that the feed has. Each piece takes a permit among the queries of the
//! caller, and its events count in the memory of the caller's answers until they are sent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_model::{Failure, size};
use tidegate_store::WantedCalls;

use super::event::{self, End};
use super::follower::Follower;
use super::position::Position;
use super::reach::Reach;
use super::ring::Batch;
use super::statement::{in_time, look, planned, prepared, within};
use crate::admission::Permit;
use crate::answer::{AccountMemory, Reservation, counted};
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
        if self.rows_left == 0 {
            return Err(End::Limit);
        }
        let following = Arc::clone(&self.following);
        let executor = &following.executor;
        let memory = executor.answers.of(self.request.account);
        let room = room(&memory).await;
        let permit = executor.admission.enter(self.request.account).await;
        let (Ok(mut held), Ok(permit)) = (room, permit) else {
            tokio::time::sleep(PAUSE).await;
            return Ok(());
        };
        let (permit, most) = (Arc::new(permit), held.bytes());
        let floor = self.feed.floor();
        let held_permit = Arc::clone(&permit);
        let missed = if self.after.before() < floor {
            let work = self.read_stored(permit, most, floor);
            executor.compute.run_in(held_permit, async move { Ok(work.await) }).await??
        } else {
            self.gap_told = false;
            let work = self.read_missed(permit, most);
            executor.compute.run_in(held_permit, async move { Ok(work.await) }).await??
        };
        let Missed { batch, after, has_gap, reach } = missed;
        let (events, rows) = batch.into_events();
        match events.len().checked_sub(held.bytes()) {
            // The last row is beyond the room. It is sent nevertheless: a row that is larger than the room would never be.
            Some(more) if more > 0 => held.join(memory.note(more)),
            _ => held.shrink(events.len()),
        }
        if has_gap && !std::mem::replace(&mut self.gap_told, true) {
            self.queue.push_back(event::gap(GAP).into());
        }
        if rows > 0 {
            self.send(counted(events.into(), Arc::new(held)), rows);
        }
        self.rows_left = self.rows_left.saturating_sub(size(rows));
        self.after = after.map_or(self.after, |after| self.after.max(after));
        self.reach = reach.unwrap_or(self.reach);
        Ok(())
    }

    /// Reads rows of the feed after the place of the caller, about `most` bytes of them.
    fn read_missed(
        &self,
        permit: Arc<Permit>,
        most: usize,
    ) -> impl Future<Output = Result<Missed, End>> + Send + 'static {
        let (following, hub, feed) =
            (Arc::clone(&self.following), Arc::clone(&self.membership.hub), Arc::clone(&self.feed));
        let (request, after, before) = (Arc::clone(&self.request), self.after, self.after.before());
        let rows_left = self.rows_left;
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
            let prepared = hub.prepared(executor, &rows, following.clock.now(), &permit).await?;
            let mut more = true;
            look(executor, &request, &prepared, Arc::clone(&rows), after, |position, json| {
                batch.add(position, json);
                more = batch.bytes() < most && batch.rows() < rows_left;
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
        permit: Arc<Permit>,
        most: usize,
        floor: i64,
    ) -> impl Future<Output = Result<Missed, End>> + Send + 'static {
        let (following, source) = (Arc::clone(&self.following), self.membership.hub.source);
        let (request, after, before) = (Arc::clone(&self.request), self.after, self.after.before());
        let (reach, gap_told, rows_left) = (self.reach, self.gap_told, self.rows_left);
        async move {
            let executor = &following.executor;
            let store = executor.endpoints.store();
            let planned = planned(executor, &request, following.clock.now(), &permit)?;
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
                    more = batch.bytes() < most && batch.rows() < rows_left;
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
async fn room(memory: &AccountMemory) -> Result<Reservation, Failure> {
    match memory.take(MOST).await {
        Ok(held) => Ok(held),
        Err(_) => memory.take(LEAST).await,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_compiler::manifest_of_texts;

    use super::*;
    use crate::answer::Format;
    use crate::execution::{AdhocQuery, SentParameters};
    use crate::follow::{FollowRequest, LastSeen};
    use crate::options::Options;
    use crate::save_request::SaveRequest;
    use crate::service::Service;
    use crate::tokens::Access;

    /// The room of its token is nearly used up, and a row is larger than what is left.
    #[tokio::test]
    async fn a_row_beyond_the_room_ends_no_follower_that_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::new(folder.path());
        (options.admission.answer_memory, options.admission.wait) = (1 << 20, Duration::from_millis(20));
        let (service, _) = Service::open(options).await.unwrap();
        let query = "WITH t AS (SELECT event_message FROM `postgres.logs`) SELECT event_message FROM t";
        let manifest = manifest_of_texts("name = \"large\"\n[settings]\nsandboxable = true", query).unwrap();
        let endpoint = service.registrar.register_query(&manifest, SaveRequest::default()).await.unwrap();
        let message = "x".repeat(4 * LEAST);
        service.ingest("postgres.logs", vec![serde_json::json!({"event_message": message})]).await.unwrap();

        let access = Arc::new(Access::to_all("a test"));
        let adhoc = Some(AdhocQuery::Sql("SELECT event_message FROM t".to_owned()));
        let sent = SentParameters { adhoc, ..SentParameters::default() };
        let request = service.executor.check_request(endpoint, &[], &access, sent, Format::NdJson, false).unwrap();
        let memory = service.executor.answers.of(request.account);
        let seen = LastSeen::read("0");
        let (request, arrived) = (Arc::new(request), service.clock.now());
        let asked = FollowRequest { request, access, arrived, rows: 0, since: None, seen };
        let mut follower = service.following.open(asked).await.unwrap();
        let used = memory.note((1 << 19) - LEAST);
        let rows = |follower: &Follower| follower.queue.iter().filter(|events| events.len() > message.len()).count();
        for _ in 0..10 {
            follower.catch_up().await.unwrap();
        }
        assert_eq!(rows(&follower), 1, "{:?}", follower.queue.len());
        assert!(service.executor.answers.used() > used.bytes() + message.len());
        drop((follower, used));
        assert_eq!(service.executor.answers.used(), 0);
        service.close().await.unwrap();
    }
}
