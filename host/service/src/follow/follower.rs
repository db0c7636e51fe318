//! The stream of one follower: the first rows, what it missed if it comes back, and then the rows of its hub.
//!
//! A follower holds what it is sending: its first rows, which were read before it begins, a piece of what it missed, or a
//! chunk of the ring. Its token and its endpoint are checked every second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tidegate_model::Failure;
use tidegate_store::Feed;
use tokio::sync::watch;
use tokio::time::Instant;

use super::event::{self, End};
use super::following::{Following, Membership, Seat};
use super::position::{LastSeen, Position};
use super::ring::{Batch, Cursor, Read};
use super::statement::{in_time, look};
use crate::admission::Permit;
use crate::answer::{Reservation, TenantMemory, counted};
use crate::execution::QueryRequest;
use crate::failures::of_store;
use crate::tokens::Access;

/// How often it is checked that the caller may still follow.
const CHECK: Duration = Duration::from_secs(1);
/// The rows and bytes that are looked at at once for those that were missed.
const SLICE_ROWS: usize = 2 << 10;
const SLICE_BYTES: usize = 1 << 20;
/// The most bytes of missed rows that are sent at once, unless one row has more, and how many if there is no room for
/// them.
const MOST: usize = 1 << 20;
const LEAST: usize = 64 << 10;
/// The pause before another try where the server is busy.
const PAUSE: Duration = Duration::from_millis(100);

/// A checked request for following a query.
#[derive(Debug)]
pub struct FollowRequest {
    /// The query.
    pub request: Arc<QueryRequest>,
    /// The rights of the caller's token.
    pub access: Arc<Access>,
    /// When the request arrived, in microseconds since 1970.
    pub arrived: i64,
    /// So many of the newest rows come first.
    pub rows: usize,
    /// None of them is older than this, in microseconds since 1970.
    pub since: Option<i64>,
    /// The last event that the caller has, if it comes back. Then no other rows come first.
    pub seen: Option<LastSeen>,
}

/// Where a stream begins.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) feed: Arc<Feed>,
    /// The place up to which the caller has all rows, or gets them by `queue`.
    pub(super) after: Position,
    pub(super) queue: VecDeque<Bytes>,
}

/// One caller who follows a query.
#[derive(Debug)]
pub struct Follower {
    following: Arc<Following>,
    membership: Membership,
    request: Arc<QueryRequest>,
    access: Arc<Access>,
    feed: Arc<Feed>,
    queue: VecDeque<Bytes>,
    after: Position,
    /// None while it reads rows by itself that are not in the ring any more.
    cursor: Option<Cursor>,
    changes: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    /// When a sign of life is due, and the next check.
    beat: Instant,
    check: Instant,
    ended: bool,
    sent: u64,
    missed: u64,
    _seat: Seat,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let Self { sent, missed, .. } = *self;
        tracing::debug!(endpoint = %self.request.endpoint.manifest.name, sent, missed, "a query is followed no more");
    }
}

impl Follower {
    pub(super) fn new(seat: Seat, membership: Membership, asked: FollowRequest, begin: Begin) -> Self {
        let following = Arc::clone(&seat.following);
        let Begin { feed, after, queue } = begin;
        let now = Instant::now();
        Self {
            changes: membership.hub.ring.changes(),
            stopping: following.stopping.subscribe(),
            beat: now + following.options.heartbeat,
            check: now + CHECK,
            following,
            membership,
            request: asked.request,
            access: asked.access,
            feed,
            queue,
            after,
            cursor: None,
            ended: false,
            sent: 0,
            missed: 0,
            _seat: seat,
        }
    }

    /// The events, in pieces, until the stream ends. Dropping it leaves.
    pub fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        futures::stream::unfold(self, |mut own| async move {
            let bytes = own.next().await?;
            Some((bytes, own))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                self.beat = Instant::now() + self.following.options.heartbeat;
                return Some(bytes);
            }
            if self.ended {
                return None;
            }
            if let Some(end) = self.must_end() {
                self.finish(&end);
                continue;
            }
            if Instant::now() >= self.beat {
                self.queue.push_back(event::heartbeat(self.after).into());
                continue;
            }
            self.changes.borrow_and_update();
            let ring = &self.membership.hub.ring;
            let Some(mut cursor) = self.cursor.or_else(|| ring.join(self.after)) else {
                if let Err(end) = self.catch_up().await {
                    self.finish(&end);
                }
                continue;
            };
            let read = ring.read(&mut cursor);
            self.cursor = Some(cursor);
            self.after = cursor.after;
            match read {
                Read::Missed(rows) => {
                    self.missed += rows;
                    self.following.count_missed(rows);
                    self.queue.push_back(event::missed(rows).into());
                }
                Read::Rows(bytes, rows) => self.send(bytes, rows),
                Read::Nothing(Some(end)) => self.finish(&end),
                Read::Nothing(None) => self.wait().await,
            }
        }
    }

    fn send(&mut self, events: Bytes, rows: u64) {
        self.sent += rows;
        self.following.count_sent(rows);
        self.queue.push_back(events);
    }

    fn finish(&mut self, end: &End) {
        self.queue.push_back(event::end(end, self.after).into());
        self.ended = true;
    }

    /// Waits for something to do.
    async fn wait(&mut self) {
        let due = self.beat.min(self.check);
        tokio::select! {
            _ = self.changes.changed() => {}
            _ = self.stopping.changed() => {}
            () = tokio::time::sleep_until(due) => {}
        }
    }

    /// Why the caller may follow no longer.
    fn must_end(&mut self) -> Option<End> {
        if *self.stopping.borrow() {
            return Some(End::Shutdown);
        }
        let now = Instant::now();
        if now < self.check {
            return None;
        }
        self.check = now + CHECK;
        if !self.following.tokens.holds(&self.access, self.following.clock.now()) {
            return Some(End::Revoked);
        }
        let endpoint = &self.request.endpoint;
        let registry = self.following.executor.endpoints.registry();
        let Some(entry) = registry.by_id(endpoint.id) else { return Some(End::Deleted) };
        let mut reads: Vec<_> = registry.reads(&endpoint.tables).iter().map(|read| (read.id, read.version)).collect();
        let mut known = self.request.reads.clone();
        reads.sort_unstable();
        known.sort_unstable();
        (entry.version != endpoint.version || reads != known).then_some(End::Changed)
    }

    /// Reads some of the rows that the ring has no longer. They are known to the caller when they are on their way.
    async fn catch_up(&mut self) -> Result<(), End> {
        let (floor, before) = (self.feed.floor(), self.after.before());
        if before < floor {
            let message = "rows are missing that are kept no longer for followers; ask the query itself for them";
            self.queue.push_back(event::gap(message).into());
            self.after = Position::whole(floor);
            return Ok(());
        }
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
        let work = self.read_missed(Arc::clone(&place), most);
        let (batch, after) = executor.compute.run_in(place, async move { Ok(work.await) }).await??;
        let (events, rows) = batch.into_events();
        match events.len().checked_sub(held.bytes()) {
            Some(more) if more > 0 => held.join(memory.take(more).await?),
            _ => held.shrink(events.len()),
        }
        if rows > 0 {
            self.send(counted(events.into(), Arc::new(held)), rows);
        }
        self.after = self.after.max(after);
        Ok(())
    }

    /// Reads rows after the place of the caller, about `most` bytes of them, and the place up to which they are all.
    fn read_missed(
        &self,
        place: Arc<Permit>,
        most: usize,
    ) -> impl Future<Output = Result<(Batch, Position), End>> + Send + 'static {
        let (following, hub, feed) =
            (Arc::clone(&self.following), Arc::clone(&self.membership.hub), Arc::clone(&self.feed));
        let (request, after, before) = (Arc::clone(&self.request), self.after, self.after.before());
        in_time(async move {
            let mut batch = Batch::default();
            // Read before the slice: the feed has all calls up to that one, and none of the source has a number between.
            let last = *feed.last().borrow();
            let rows = feed.slice(before, SLICE_ROWS, SLICE_BYTES).map_err(of_store)?;
            let Some(rows) = rows.map(Arc::new) else { return Ok((batch, Position::whole(last.max(before)))) };
            if rows.after() > before {
                // The feed has given calls away meanwhile. The next try tells it.
                return Ok((batch, after));
            }
            let executor = &following.executor;
            let prepared = hub.prepared(executor, &rows, following.clock.now(), &place).await?;
            let mut more = true;
            look(executor, &request, &prepared, &rows, after, |position, json| {
                batch.add(position, json);
                more = batch.bytes() < most;
                more
            })
            .await?;
            let read = batch.last().filter(|_| !more).unwrap_or(Position::whole(rows.last()));
            Ok((batch, read))
        })
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
