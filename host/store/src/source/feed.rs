//! The feed of a source: its committed calls, for those who follow it.
//!
//! Followers read each call once, in the order of commits, whether or not its rows are in memory or in a segment by then.
//! Rows in memory have that order no more (batches are sorted by time and joined), so a feed
//! keeps the calls as they were committed. It does so only while somebody holds it, and gives the oldest away when it
//! holds more than it may, except the newest call: whoever is fast enough gets every call, however large it is.
//! [`crate::source::following`] makes columns of them. Whoever needs older calls reads them from memory and segments, by
//! the places of their rows ([`crate::scan::stored_calls`]).
//!
//! A row is known by its place ([`crate::memory::places`]): the number of its call, which is that of its write-ahead row
//! and never used twice, and its number in the call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{
    memory::{batch_builder::RawCall, mem_batch::MemBatch},
    schema::shape::Shape,
};

/// Bytes that a call takes besides its body.
const CALL_BYTES: usize = 64;

/// Which columns a source had. They change when an event brings a new field.
#[derive(Debug, Clone)]
pub struct ColumnsVersion(pub(crate) Arc<Shape>);

impl PartialEq for ColumnsVersion {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The committed calls of a source after a number.
#[derive(Debug)]
pub(crate) struct CallFeed {
    calls: Mutex<Calls>,
    last: watch::Sender<i64>,
}

#[derive(Debug, Default)]
struct Calls {
    /// By number, without a gap after `floor`.
    kept: VecDeque<Arc<RawCall>>,
    bytes: usize,
    /// The most bytes, if that was said.
    most: Option<usize>,
    floor: i64,
}

impl Calls {
    fn trim(&mut self) {
        while self.kept.len() > 1
            && self.most.is_some_and(|most| self.bytes > most)
            && let Some(call) = self.kept.pop_front()
        {
            self.bytes -= call.body.len() + CALL_BYTES;
            self.floor = call.seq;
        }
    }

    fn add(&mut self, call: RawCall) {
        self.bytes += call.body.len() + CALL_BYTES;
        self.kept.push_back(Arc::new(call));
    }
}

/// Rows of a slice of calls as columns, with their places.
#[derive(Debug)]
pub struct NewRows {
    pub(super) batches: Vec<Arc<MemBatch>>,
    pub(super) columns: ColumnsVersion,
    pub(super) rows: usize,
    pub(super) after: i64,
    pub(super) last: i64,
}

impl NewRows {
    /// What a table of the source reads.
    pub(crate) fn batches(&self) -> &[Arc<MemBatch>] {
        &self.batches
    }

    /// The columns that hold all of the rows.
    pub fn columns(&self) -> &ColumnsVersion {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All calls from this number, which is not among them, up to [`NewRows::last`] are in the slice. It is higher than
    /// what was asked for where the feed had given away calls after that.
    pub fn after(&self) -> i64 {
        self.after
    }

    /// The number of the last call of the slice.
    pub fn last(&self) -> i64 {
        self.last
    }
}

impl CallFeed {
    /// A feed of the calls after `floor`.
    pub(super) fn new(floor: i64) -> CallFeed {
        let calls = Mutex::new(Calls { floor, ..Calls::default() });
        CallFeed { calls, last: watch::Sender::new(floor) }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call. Its number is higher than those before.
    pub(super) fn push(&self, call: &RawCall) {
        let RawCall { seq, rows, ref body, columns: _ } = *call;
        let mut calls = self.calls();
        calls.add(RawCall::of_body(seq, rows, Arc::clone(body)));
        calls.trim();
        drop(calls);
        self.last.send_replace(seq);
    }

    /// Adds the calls that came right before `floor`, which the feed was made with, in their order. Nothing is added if
    /// the feed has given calls away since then: there would be a gap.
    pub(super) fn prepend(&self, floor: i64, older: Vec<RawCall>) {
        let Some(first) = older.first().map(|call| call.seq) else { return };
        let mut calls = self.calls();
        if calls.floor != floor {
            return;
        }
        let newer = std::mem::take(&mut calls.kept);
        older.into_iter().for_each(|call| calls.add(call));
        calls.kept.extend(newer);
        calls.floor = first - 1;
        calls.trim();
    }

    /// The feed has all calls whose number is higher.
    pub(super) fn floor(&self) -> i64 {
        self.calls().floor
    }

    /// The number of the last committed call; it changes with each commit.
    pub(super) fn last(&self) -> watch::Receiver<i64> {
        self.last.subscribe()
    }

    /// Bytes that the feed holds.
    pub(super) fn held(&self) -> usize {
        self.calls().bytes
    }

    /// From now on the feed holds at most so many bytes, or one call: the oldest calls go first.
    pub(super) fn hold_at_most(&self, bytes: usize) {
        let mut calls = self.calls();
        calls.most = Some(bytes);
        calls.trim();
    }

    /// The calls after `after`: so many that they have about `rows` rows and `bytes` bytes, and one at least. And the
    /// number after which none is missing.
    pub(super) fn after(&self, after: i64, rows: usize, bytes: usize) -> (Vec<Arc<RawCall>>, i64) {
        let calls = self.calls();
        let first = calls.kept.partition_point(|call| call.seq <= after);
        let (mut of_rows, mut of_bytes) = (0, 0);
        let fits = |call: &&Arc<RawCall>| {
            let fits = of_rows < rows && of_bytes < bytes;
            of_rows += call.rows;
            of_bytes += call.body.len();
            fits
        };
        (calls.kept.range(first..).take_while(fits).cloned().collect(), after.max(calls.floor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(seq: i64) -> RawCall {
        RawCall::of_body(seq, 1, Arc::new(b"[{}]".to_vec()))
    }

    #[test]
    fn older_calls_are_added_only_right_before_those_of_the_feed() {
        let seqs = |feed: &CallFeed| feed.after(0, 100, 100).0.iter().map(|call| call.seq).collect::<Vec<_>>();
        let feed = CallFeed::new(5);
        feed.push(&call(7));
        feed.prepend(5, vec![call(2), call(5)]);
        assert_eq!((seqs(&feed), feed.floor()), (vec![2, 5, 7], 1));
        let feed = CallFeed::new(5);
        feed.push(&call(7));
        feed.push(&call(8));
        feed.hold_at_most(0);
        feed.prepend(5, vec![call(2), call(5)]);
        assert_eq!((seqs(&feed), feed.floor()), (vec![8], 7), "call 7 would be missing between them");
    }
}
