//! The stream of one follower: the first rows, what it missed if it comes back, and then the rows of its hub.
//!
//! A follower holds what it is sending: its first rows, which were read before it begins, a piece of what it missed, or a
//! chunk of the ring. What it missed it reads by itself (`catch_up`). Its token and its endpoint are checked every second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tidegate_model::Audience;
use tidegate_store::Feed;
use tokio::sync::watch;
use tokio::time::Instant;

use super::event::{self, End};
use super::following::{Following, Membership, Seat};
use super::position::{LastSeen, Position};
use super::reach::Reach;
use super::ring::{Cursor, Read};
use crate::execution::{QueryRequest, answer_rows};
use crate::tokens::Access;

/// How often it is checked that the caller may still follow.
const CHECK: Duration = Duration::from_secs(1);

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
    pub(super) following: Arc<Following>,
    pub(super) membership: Membership,
    pub(super) request: Arc<QueryRequest>,
    access: Arc<Access>,
    pub(super) feed: Arc<Feed>,
    pub(super) queue: VecDeque<Bytes>,
    pub(super) after: Position,
    /// How many stored rows are looked at at once.
    pub(super) reach: Reach,
    /// How many more rows it may read by itself before it is at new rows again: as many as an answer may have.
    pub(super) rows_left: usize,
    /// Whether it was told that stored rows may be missing, since it left the feed.
    pub(super) gap_told: bool,
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
        let rows_left = answer_rows(&asked.request);
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
            reach: Reach::default(),
            rows_left,
            gap_told: false,
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
            if self.cursor.replace(cursor).is_none() {
                self.rows_left = answer_rows(&self.request);
            }
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

    pub(super) fn send(&mut self, events: Bytes, rows: u64) {
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
        let (store, request) = (self.following.executor.endpoints.store(), &self.request);
        if request.audience != Audience::All && store.tenancy_generation() != request.tenancy_generation {
            return Some(End::TenancyChanged);
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
}
