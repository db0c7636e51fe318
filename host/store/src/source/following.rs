//! Following a source: slices of its feed as columns, each for all queries that are run over it.
//!
//! Uses: `feed`, and the source for its schema.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use crate::{
    error::{Result, StoreError},
    ingest::tape_reader::stored_events,
    memory::{batch_builder::RawCall, mem_batch::MemBatch, places::Places},
    schema::shape::Shape,
    shred::shredder::Shredder,
    source::{
        Source,
        feed::{CallFeed, ColumnsVersion, NewRows},
    },
};

/// The committed calls of a source, from [`Feed::floor`] on.
#[derive(Debug)]
pub struct Feed {
    source: Arc<Source>,
    calls: Arc<CallFeed>,
}

impl Feed {
    /// The feed has all calls whose number is higher.
    pub fn floor(&self) -> i64 {
        self.calls.floor()
    }

    /// The number of the last committed call; it changes with each commit.
    pub fn last(&self) -> watch::Receiver<i64> {
        self.calls.last()
    }

    /// Bytes that the feed holds.
    pub fn held(&self) -> usize {
        self.calls.held()
    }

    /// From now on the feed holds at most so many bytes, or one call: the oldest calls go first.
    pub fn hold_at_most(&self, bytes: usize) {
        self.calls.hold_at_most(bytes);
    }

    /// Whether the source was deleted.
    pub fn is_deleted(&self) -> bool {
        self.source.is_deleted()
    }

    /// The rows of the calls after `after` as columns: of so many that they have about `rows` rows and `bytes` bytes, and
    /// of one at least. `None` if there are none. Rows that came before [`Feed::floor`] are not among them, which
    /// [`NewRows::after`] tells. May take some milliseconds.
    ///
    /// # Errors
    /// A call that cannot be read.
    pub fn slice(&self, after: i64, rows: usize, bytes: usize) -> Result<Option<NewRows>> {
        let (chosen, after) = self.calls.after(after, rows, bytes);
        if chosen.is_empty() {
            return Ok(None);
        }
        let shape = self.source.current_shape();
        if let Some(rows) = self.shredded(&chosen, after, shape, false)? {
            return Ok(Some(rows));
        }
        // There are new fields. Only the source itself decides which of them become columns. What it does not know then,
        // because retention has dropped all rows that had it, no query sees.
        self.source.columnize()?;
        self.shredded(&chosen, after, self.source.current_shape(), true)
    }

    /// The rows of the calls, which come after `after`, as columns. `None` if they have new fields, unless these are
    /// `ignored`.
    fn shredded(
        &self,
        calls: &[Arc<RawCall>],
        after: i64,
        shape: Arc<Shape>,
        ignored: bool,
    ) -> Result<Option<NewRows>> {
        let caps = self.source.caps().clone();
        let (mut batches, mut rows) = (Vec::new(), 0);
        let (mut shredder, mut places, mut bytes) = (None, Places::default(), 0);
        for call in calls {
            let each = call.body.len() / call.rows.max(1);
            for (row, event) in stored_events(&call.body, call.seq).enumerate() {
                let own = shredder.get_or_insert_with(|| Shredder::new(&shape, caps.clone()));
                own.add(event?.root());
                places.push(call.seq, row);
                rows += 1;
                bytes += each;
                if own.is_full() && !self.end_batch(&mut shredder, &mut places, &mut bytes, &mut batches)? && !ignored {
                    return Ok(None);
                }
            }
        }
        if !self.end_batch(&mut shredder, &mut places, &mut bytes, &mut batches)? && !ignored {
            return Ok(None);
        }
        let last = calls.last().map_or(0, |call| call.seq);
        Ok(Some(NewRows { batches, columns: ColumnsVersion(shape), rows, after, last }))
    }

    /// Ends a batch. Returns whether its columns were known.
    fn end_batch(
        &self,
        shredder: &mut Option<Shredder>,
        places: &mut Places,
        bytes: &mut usize,
        batches: &mut Vec<Arc<MemBatch>>,
    ) -> Result<bool> {
        let Some(shredder) = shredder.take() else { return Ok(true) };
        let (rows, grown) = shredder.finish(std::mem::take(bytes)).map_err(|error| self.corrupt(error))?;
        let rows = std::mem::take(places).put(&rows).map_err(|error| self.corrupt(error))?;
        batches.push(Arc::new(MemBatch::as_arrived(rows)));
        Ok(grown.is_none())
    }

    fn corrupt(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::corrupt(format!("the new rows of source `{}`", self.source.info().name), reason)
    }
}

impl Source {
    /// No call of the source so far has a higher number than `last`.
    pub(crate) fn numbered_up_to(&self, last: i64) {
        let mut lists = self.lists();
        lists.last = lists.last.max(last);
    }

    /// The feed of the source: the calls that it keeps while somebody holds them. `older` reads committed calls up to a
    /// number, without a gap at the end. Whoever gets the feed gets it with them.
    pub(crate) fn feed(self: &Arc<Self>, older: impl FnOnce(i64) -> Result<Vec<RawCall>>) -> Result<Feed> {
        // One at a time fills it; others wait until it is filled.
        let _filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, floor) = {
            let mut lists = self.lists();
            match lists.feed.upgrade() {
                Some(calls) => return Ok(Feed { source: Arc::clone(self), calls }),
                None => {
                    let calls = Arc::new(CallFeed::new(lists.last));
                    lists.feed = Arc::downgrade(&calls);
                    (calls, lists.last)
                }
            }
        };
        calls.prepend(floor, older(floor)?);
        Ok(Feed { source: Arc::clone(self), calls })
    }
}
