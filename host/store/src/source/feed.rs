//! The feed of a source: its committed calls, for those who follow it.
//!
//! Followers read each call once, in the order of commits, whether or not its rows are in memory or in a segment by then.
//! Rows in memory have neither that order nor their numbers any more (batches are sorted by time and joined), so a feed
//! keeps the calls as they were committed. It does so only while somebody holds it, and gives the oldest away when it
//! holds more than it may ([`Feed::hold_at_most`]). A slice of calls becomes columns once, for all queries that are run over it.
//!
//! A row is known by its place: the number of its call, which is that of its write-ahead row and never used twice, and
//! its number in the call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use datafusion::arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use tokio::sync::watch;

use crate::{
    error::{Result, StoreError},
    field_names::POSITION,
    ingest::tape_reader::stored_events,
    memory::{batch_builder::RawCall, mem_batch::MemBatch},
    schema::shape::Shape,
    shred::shredder::Shredder,
    source::Source,
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

/// The committed calls of a source, from [`Feed::floor`] on.
#[derive(Debug)]
pub struct Feed {
    source: Arc<Source>,
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
        while self.most.is_some_and(|most| self.bytes > most)
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

/// Rows of a slice of calls as columns.
#[derive(Debug)]
pub struct NewRows {
    batches: Vec<Arc<MemBatch>>,
    columns: ColumnsVersion,
    /// The number of each call, and the number of its first row in the slice.
    starts: Vec<(i64, usize)>,
    rows: usize,
    last: i64,
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

    /// The number of the last call of the slice.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// The place of a row of the slice: the number of its call, and its own number in the call.
    pub fn place(&self, row: usize) -> (i64, usize) {
        let after = self.starts.partition_point(|(_, first)| *first <= row);
        let start = after.checked_sub(1).and_then(|at| self.starts.get(at));
        start.map_or((self.last, row), |(seq, first)| (*seq, row - first))
    }
}

impl Feed {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call. Its number is higher than those before.
    pub(super) fn push(&self, call: &RawCall) {
        let RawCall { seq, rows, ref body } = *call;
        let mut calls = self.calls();
        calls.add(RawCall { seq, rows, body: body.clone() });
        calls.trim();
        drop(calls);
        self.last.send_replace(seq);
    }

    /// The feed has all calls whose number is higher.
    pub fn floor(&self) -> i64 {
        self.calls().floor
    }

    /// The number of the last committed call; it changes with each commit.
    pub fn last(&self) -> watch::Receiver<i64> {
        self.last.subscribe()
    }

    /// Bytes that the feed holds.
    pub fn held(&self) -> usize {
        self.calls().bytes
    }

    /// From now on the feed holds at most so many bytes: the oldest calls go first.
    pub fn hold_at_most(&self, bytes: usize) {
        let mut calls = self.calls();
        calls.most = Some(bytes);
        calls.trim();
    }

    /// Whether the source was deleted.
    pub fn is_deleted(&self) -> bool {
        self.source.is_deleted()
    }

    /// The rows of the calls after `after` as columns: of so many that they have about `rows` rows and `bytes` bytes, and
    /// of one at least. `None` if there are none. Rows that came before [`Feed::floor`] are not among them. May take some
    /// milliseconds.
    ///
    /// # Errors
    /// A call that cannot be read.
    pub fn slice(&self, after: i64, rows: usize, bytes: usize) -> Result<Option<NewRows>> {
        let chosen: Vec<Arc<RawCall>> = {
            let calls = self.calls();
            let first = calls.kept.partition_point(|call| call.seq <= after);
            let (mut of_rows, mut of_bytes) = (0, 0);
            let fits = |call: &&Arc<RawCall>| {
                let fits = of_rows < rows && of_bytes < bytes;
                of_rows += call.rows;
                of_bytes += call.body.len();
                fits
            };
            calls.kept.range(first..).take_while(fits).cloned().collect()
        };
        if chosen.is_empty() {
            return Ok(None);
        }
        let shape = self.source.current_shape();
        if let Some(rows) = self.shredded(&chosen, shape, false)? {
            return Ok(Some(rows));
        }
        // There are new fields. Only the source itself decides which of them become columns. What it does not know then,
        // because retention has dropped all rows that had it, no query sees.
        self.source.settle()?;
        self.shredded(&chosen, self.source.current_shape(), true)
    }

    /// The rows of the calls as columns. `None` if they have new fields, unless these are `ignored`.
    fn shredded(&self, calls: &[Arc<RawCall>], shape: Arc<Shape>, ignored: bool) -> Result<Option<NewRows>> {
        let caps = self.source.caps().clone();
        let (mut batches, mut starts, mut rows) = (Vec::new(), Vec::new(), 0);
        let (mut shredder, mut bytes) = (None, 0);
        for call in calls {
            starts.push((call.seq, rows));
            let each = call.body.len() / call.rows.max(1);
            for event in stored_events(&call.body, call.seq) {
                let own = shredder.get_or_insert_with(|| Shredder::new(&shape, caps.clone()));
                own.add(event?.root());
                rows += 1;
                bytes += each;
                if own.is_full() && !self.end_batch(&mut shredder, &mut bytes, rows, &mut batches)? && !ignored {
                    return Ok(None);
                }
            }
        }
        if !self.end_batch(&mut shredder, &mut bytes, rows, &mut batches)? && !ignored {
            return Ok(None);
        }
        let last = calls.last().map_or(0, |call| call.seq);
        Ok(Some(NewRows { batches, columns: ColumnsVersion(shape), starts, rows, last }))
    }

    /// Ends a batch, the last of whose rows has the number `end` - 1. Returns whether its columns were known.
    fn end_batch(
        &self,
        shredder: &mut Option<Shredder>,
        bytes: &mut usize,
        end: usize,
        batches: &mut Vec<Arc<MemBatch>>,
    ) -> Result<bool> {
        let Some(shredder) = shredder.take() else { return Ok(true) };
        let (rows, grown) = shredder.finish(std::mem::take(bytes)).map_err(|error| self.corrupt(error))?;
        let rows = numbered(&rows, end).map_err(|error| self.corrupt(error))?;
        batches.push(Arc::new(MemBatch::as_arrived(rows)));
        Ok(grown.is_none())
    }

    fn corrupt(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::corrupt(format!("the new rows of source `{}`", self.source.info().name), reason)
    }
}

/// The rows with their numbers as the last column.
fn numbered(rows: &RecordBatch, end: usize) -> datafusion::error::Result<RecordBatch> {
    let schema = rows.schema();
    let own = Arc::new(Field::new(POSITION, DataType::Int64, true));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([own]).collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let numbers = (end.saturating_sub(rows.num_rows())..end).map(|row| i64::try_from(row).unwrap_or(i64::MAX));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    let columns = rows.columns().iter().cloned().chain([numbers]).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

impl Source {
    /// No call of the source so far has a higher number than `last`.
    pub(crate) fn numbered_up_to(&self, last: i64) {
        let mut lists = self.lists();
        lists.last = lists.last.max(last);
    }

    /// The feed of the source: the one that somebody holds, or a new one. `older` reads committed calls up to a number,
    /// without a gap at the end.
    pub(crate) fn feed(self: &Arc<Self>, older: impl FnOnce(i64) -> Result<Vec<RawCall>>) -> Result<Arc<Feed>> {
        let (feed, floor) = {
            let mut lists = self.lists();
            if let Some(feed) = lists.feed.upgrade() {
                return Ok(feed);
            }
            let floor = lists.last;
            let calls = Mutex::new(Calls { floor, ..Calls::default() });
            let feed = Arc::new(Feed { source: Arc::clone(self), calls, last: watch::Sender::new(floor) });
            lists.feed = Arc::downgrade(&feed);
            (feed, floor)
        };
        let older = older(floor)?;
        if let Some(first) = older.first().map(|call| call.seq) {
            let mut calls = feed.calls();
            let newer = std::mem::take(&mut calls.kept);
            older.into_iter().for_each(|call| calls.add(call));
            calls.kept.extend(newer);
            calls.floor = first - 1;
        }
        Ok(feed)
    }
}
