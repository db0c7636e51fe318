//! The flush of a source, in three steps: when it is due, the rows in memory, and the swap for the segment
//! (or back, if writing failed).

use std::{
    mem,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::{
    error::{Result, StoreError},
    memory::flush_rows::FlushRows,
    options::StoreOptions,
    schema::shape::Shape,
    segment::handle::{FileRemoval, Segment},
    source::{RawSize, Source},
};

/// A source with fewer rows in memory than this waits longer for its flush; see [`StoreOptions::flush_interval`].
const TRICKLE_ROWS: usize = 1_000;

const TRICKLE_PATIENCE: u32 = 12;

/// The pause after a failed flush. A failed attempt costs as much as a successful one, and the next mostly fails too.
const RETRY: Duration = Duration::from_secs(2);

impl Source {
    /// Whether the rows in memory should be flushed now.
    pub(crate) fn is_due(&self, options: &StoreOptions) -> bool {
        if !self.may_flush() {
            return false;
        }
        let RawSize { rows, bytes } = self.waiting();
        let lists = self.lists();
        let age = lists.since.map_or(Duration::ZERO, |since| since.elapsed());
        let patience = if rows < TRICKLE_ROWS { TRICKLE_PATIENCE } else { 1 };
        rows > 0
            && (rows >= options.flush_rows
                || bytes >= options.flush_bytes
                || age >= options.flush_interval.saturating_mul(patience))
    }

    /// Whether the pause after a failed flush is over.
    pub(crate) fn may_flush(&self) -> bool {
        self.lists().not_before.is_none_or(|at| at <= Instant::now())
    }

    /// The rows that are in no segment and not being written as one.
    pub(crate) fn waiting(&self) -> RawSize {
        let lists = self.lists();
        let RawSize { mut rows, mut bytes } = lists.raw_size;
        for batch in &lists.memory {
            rows += batch.rows.num_rows();
            bytes += batch.bytes.max(batch.held());
        }
        RawSize { rows, bytes }
    }

    /// The rows that are in no segment.
    pub(crate) fn unflushed_rows(&self) -> usize {
        let lists = self.lists();
        let batches = lists.memory.iter().chain(&lists.flushing);
        batches.fold(lists.raw_size.rows, |rows, batch| rows + batch.rows.num_rows())
    }

    /// Starts a flush. Returns all rows in memory, with the schema that they need. Queries read the batches until
    /// [`Self::end_flush`].
    pub(crate) fn begin_flush(&self) -> Result<Option<(FlushRows, Arc<Shape>)>> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        let parts = {
            let mut lists = self.lists();
            // Batches of a failed flush are still here, and come first.
            let memory = mem::take(&mut lists.memory);
            lists.flushing.extend(memory);
            lists.since = (!lists.raw.is_empty()).then(Instant::now);
            lists.flushing.clone()
        };
        // Queries make columns under the lock. They do not wait for what follows.
        let shape = {
            let held = shape;
            Arc::clone(&held)
        };
        if parts.is_empty() {
            return Ok(None);
        }
        match FlushRows::of(&parts) {
            Ok(rows) => Ok(Some((rows, shape))),
            Err(error) => {
                self.abort_flush();
                Err(StoreError::corrupt(self.memory_name(), error))
            }
        }
    }

    /// Replaces the flushed batches by their segment.
    pub(crate) fn end_flush(&self, segment: Arc<Segment>) {
        let mut lists = self.lists();
        if lists.cleared {
            // Registered just before the source was deleted.
            segment.remove_on_drop(FileRemoval::FileAndFolder);
            return;
        }
        let bytes = lists.flushing.drain(..).map(|batch| batch.held()).sum();
        self.unflushed.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_waiters();
        let mut segments = Vec::clone(&lists.segments);
        segments.push(segment);
        lists.segments = Arc::new(segments);
    }

    /// Ends a flush that failed. Its batches wait for the next one.
    pub(crate) fn abort_flush(&self) {
        let mut lists = self.lists();
        let flushing = mem::take(&mut lists.flushing);
        lists.memory.splice(0..0, flushing);
        lists.since = Some(Instant::now());
        lists.not_before = Some(Instant::now() + RETRY);
    }
}
