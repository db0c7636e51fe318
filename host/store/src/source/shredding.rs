//! Making columns of committed calls, and holding back senders whose calls come faster than that.
//!
//! Uses: `memory`, `shred`, `source`.

use std::{
    mem,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::{
    error::{Result, StoreError},
    memory::batch_builder::build,
    schema::shape::Shape,
    source::{Snapshot, Source},
};

/// With so many raw rows, ingest waits until they are shredded: the next query of the source has to wait for all of them.
const PACE_ROWS: usize = 16 << 10;

/// How long a call waits at most for room. Beyond that the hard limits decide.
const PACE_PATIENCE: Duration = Duration::from_secs(2);

/// How often a waiting call looks for room that another source made.
const PACE_LOOK: Duration = Duration::from_millis(20);

impl Source {
    /// What a query reads. Makes columns of the calls that have none yet.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        self.sort()?;
        let lists = self.lists();
        let memory = lists.flushing.iter().chain(&lists.memory).cloned().collect();
        let segments = Arc::clone(&lists.segments);
        let position = lists.raw.first().map_or(lists.last, |call| call.seq - 1);
        drop(lists);
        let shape = Arc::clone(&shape);
        let source_shape = Arc::clone(&shape);
        Ok(Snapshot { schema: shape.schema(), shape, source_shape, memory, segments, source: self.id, position })
    }

    /// Shreds the raw calls. The caller holds the lock of the schema, so that whoever finds `raw` empty also finds the
    /// rows in `memory`.
    pub(super) fn shred(&self, shape: &mut Arc<Shape>) -> Result<()> {
        let (raw, size) = {
            let mut lists = self.lists();
            if lists.raw.is_empty() {
                return Ok(());
            }
            lists.shredding = lists.raw_size.rows;
            (mem::take(&mut lists.raw), mem::take(&mut lists.raw_size))
        };
        let caps = self.caps().clone();
        let mut batches = Vec::new();
        let built = build(&raw, shape, &caps, &mut batches);
        let mut lists = self.lists();
        lists.shredding = 0;
        self.room.notify_waiters();
        match built {
            Ok((grown, misfits)) => {
                self.count_misfits(&misfits);
                if grown.overflows() && !self.overflows.swap(true, Ordering::Relaxed) {
                    let (source, fields, most) = (&self.info().name, grown.count(), self.caps().fields);
                    tracing::warn!(source, fields, most, "events have fields without a column of their own");
                }
                self.set_shape(shape, grown);
                // From now on the rows count as what their columns take.
                let held: usize = batches.iter().map(|batch| batch.held()).sum();
                self.unflushed.fetch_add(held, Ordering::Relaxed);
                self.unflushed.fetch_sub(size.bytes, Ordering::Relaxed);
                lists.memory.append(&mut batches);
                Ok(())
            }
            Err(error) => {
                // Acknowledged rows must not be lost: they return to where they were, in their order.
                let newer = mem::replace(&mut lists.raw, raw);
                lists.raw.extend(newer);
                lists.raw_size.rows += size.rows;
                lists.raw_size.bytes += size.bytes;
                Err(StoreError::corrupt(self.memory_name(), error))
            }
        }
    }

    /// Waits while rows arrive faster than they become columns or segments: until fewer than [`PACE_ROWS`] wait to be
    /// shredded and less than `bytes` of all sources is in no segment, or for two seconds.
    pub(crate) async fn pace(&self, bytes: usize) {
        let is_late = || {
            let lists = self.lists();
            lists.raw_size.rows + lists.shredding >= PACE_ROWS || self.unflushed.load(Ordering::Relaxed) >= bytes
        };
        let began = Instant::now();
        while is_late() && began.elapsed() < PACE_PATIENCE {
            let _ = tokio::time::timeout(PACE_LOOK, self.room.notified()).await;
        }
    }

    /// Fails while more rows wait to be shredded than may: they arrive faster than they can be shredded.
    pub(crate) fn check_backlog(&self, limit: usize) -> Result<()> {
        let lists = self.lists();
        let rows = lists.raw_size.rows + lists.shredding;
        if rows > limit { Err(StoreError::Backlog { rows, limit }) } else { Ok(()) }
    }

    /// What an error calls the rows in memory.
    pub(super) fn memory_name(&self) -> String {
        format!("the memory of source `{}`", self.info().name)
    }
}
