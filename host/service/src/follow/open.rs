//! From a request to a stream: the first rows, and from which place on rows are new.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use tidegate_model::{Code, Failure, number, size};
use tidegate_sql::Stop;
use tidegate_store::Feed;
use uuid::Uuid;

use super::event;
use super::follower::{Begin, FollowRequest, Follower};
use super::following::{Following, Membership};
use super::hub::Hub;
use super::position::{LastSeen, Position};
use super::statement::{Planned, depends_on_time, planned};
use crate::admission::Permit;
use crate::answer::{LineWriter, counted};
use crate::deadline::{GRACE, late};
use crate::failures::of_store;

/// How much later than a request's time its [`Stop`] ends the work.
const STOP_DELAY: Duration = Duration::from_millis(1100);
/// The column by which rows are the newest.
const TIME: &str = "timestamp";
/// The most bytes of the first rows that are sent at once.
const PIECE: usize = 64 << 10;
/// What a row costs beside its text: its id and the frame of its event.
const FRAME: usize = 96;
/// How often a statement is planned again because its source has moved on. The second time suffices.
const TRIES: usize = 3;

impl Following {
    /// Follows a query. The first rows are read when this returns.
    ///
    /// # Errors
    /// There are enough followers; what is wrong with the query; [`Code::Unsupported`] for one that is more than a filter
    /// over one table; the limits of a request.
    pub async fn open(self: &Arc<Self>, asked: FollowRequest) -> Result<Follower, Failure> {
        let seat = self.seat(asked.access.identity)?;
        let account = asked.request.account;
        let permit = Arc::new(self.executor.admission.enter(account).await?);
        let limit = asked.request.limits.wall_clock;
        let stop = Stop::after(limit + STOP_DELAY);
        let (own, held) = (Arc::clone(self), Arc::clone(&permit));
        let work = async move {
            let begun = stop.clone().cover(begin(&own, &asked, &held)).await?;
            Ok((begun, asked))
        };
        let work = self.executor.compute.run_in(permit, work);
        let ((membership, begin), asked) =
            tokio::time::timeout(limit + GRACE, work).await.unwrap_or_else(|_| Err(late(limit)))?;
        Ok(Follower::new(seat, membership, asked, begin))
    }

    fn has_feed(&self, source: Uuid, feed: &Arc<Feed>) -> bool {
        self.lists().feeds.get(&source).is_some_and(|known| Arc::ptr_eq(known, feed))
    }
}

async fn begin(
    following: &Arc<Following>,
    asked: &FollowRequest,
    permit: &Arc<Permit>,
) -> Result<(Membership, Begin), Failure> {
    let FollowRequest { request, arrived, seen, .. } = asked;
    let executor = &following.executor;
    let mut tries = 0;
    let (planned, feed, membership) = loop {
        tries += 1;
        let planned = planned(executor, request, *arrived, permit)?;
        let source = planned.table.source;
        let feed = following.feed(source)?;
        // The feed must have whatever came after the snapshot of the plan.
        if planned.table.position < feed.floor() && tries < TRIES {
            continue;
        }
        let timed = depends_on_time(executor, request, *arrived, permit, &planned.plan)?;
        let hub = Hub::new(request, source, timed, planned.table.position, &following.encoded);
        let membership = following.join(hub);
        if following.has_feed(source, &feed) || tries >= TRIES {
            break (planned, feed, membership);
        }
    };
    let now = planned.table.position;
    let begin = match seen {
        None => {
            let queue = first_rows(following, asked, &planned).await?;
            Begin { feed, after: Position::whole(now), queue }
        }
        Some(seen) => {
            let is_foreign = executor.endpoints.store().is_foreign_call(seen.position.call).map_err(of_store)?;
            resumed(*seen, now, is_foreign, feed)
        }
    };
    Ok((membership, begin))
}

/// Where a caller goes on that comes back; `now` is the last call that the source has. `is_foreign` tells that the catalog
/// gave the number of its last call to none.
fn resumed(seen: LastSeen, now: i64, is_foreign: bool, feed: Arc<Feed>) -> Begin {
    let mut queue = VecDeque::new();
    let LastSeen { position, left } = seen;
    if left > 0 {
        queue.push_back(Bytes::from(event::gap(&format!(
            "the stream broke off before {left} of its first rows were sent; ask the query itself for them"
        ))));
    }
    let is_later = position > Position::whole(now);
    if is_later || is_foreign {
        queue.push_back(Bytes::from(event::gap("the Last-Event-ID is none of this server; rows may be missing")));
    }
    let after = if is_later { Position::whole(now) } else { position };
    Begin { feed, after, queue }
}

/// The newest rows as events, the oldest of them first.
async fn first_rows(
    following: &Following,
    asked: &FollowRequest,
    planned: &Planned,
) -> Result<VecDeque<Bytes>, Failure> {
    let FollowRequest { request, rows, since, .. } = asked;
    let (executor, limits) = (&following.executor, &request.limits);
    let most = size(request.endpoint.manifest.settings.max_limit).min(limits.rows).min(*rows);
    let call = planned.table.position;
    let memory = executor.answers.of(request.account);
    let (mut lines, mut held) = (Vec::<Vec<u8>>::new(), memory.take(0).await?);
    if most > 0 {
        let plan = executor.engine.newest(&planned.plan, TIME, *since, most)?;
        let mut writer = LineWriter::new(plan.columns(), request.redact)?;
        let mut bytes = 0_usize;
        let mut batches = executor.engine.run_within(plan, Some(most), limits.statement_memory).await?;
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|failure| writer.failure(failure))?;
            writer.write(&batch, |_, line| {
                bytes = bytes.saturating_add(line.len() + FRAME);
                if bytes <= limits.answer_bytes {
                    lines.push(line.to_vec());
                }
            })?;
            if bytes > limits.answer_bytes {
                let message = format!("the first rows are larger than {} bytes; ask for fewer", limits.answer_bytes);
                return Err(Failure::new(Code::LimitExceeded, message).about("follow_rows"));
            }
            held.join(memory.take(bytes.saturating_sub(held.bytes())).await?);
        }
    }
    let (count, mut queue, mut piece) = (lines.len(), VecDeque::new(), Vec::new());
    for (row, line) in lines.into_iter().rev().enumerate() {
        let left = count - row - 1;
        let id = if left == 0 { Position::whole(call).to_string() } else { format!("{call}-{left}") };
        event::row(&mut piece, &id, &line);
        if piece.len() >= PIECE {
            let own = held.split(piece.len());
            queue.push_back(counted(std::mem::take(&mut piece).into(), Arc::new(own)));
        }
    }
    piece.extend_from_slice(event::live(Position::whole(call), count).as_bytes());
    held.join(memory.take(piece.len().saturating_sub(held.bytes())).await?);
    held.shrink(piece.len());
    queue.push_back(counted(piece.into(), Arc::new(held)));
    following.count_sent(number(count));
    Ok(queue)
}
