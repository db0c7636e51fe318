//! Columns of a call that are made while its events arrive, of the values that were just parsed.
//!
//! Which columns a source has is decided under its lock, in the order of commits. A call that comes in does not know its
//! place in that order. So its columns are made for the schema as it is then, and are used if the schema is still the same
//! when the call's turn comes, and if its events bring nothing new. Both are so for nearly all calls. Of the others columns are
//! made later, of the JSON in the write-ahead log.

use std::{mem, sync::Arc};

use datafusion::error::Result;

use crate::{
    ingest::tape::Item,
    memory::{mem_batch::MemBatch, places::Places},
    schema::shape::Shape,
    shred::{limits::ShapeLimits, misfits::Misfits, shredder::Shredder},
};

/// The schema of a source at some time, with its bounds.
#[derive(Debug, Clone)]
pub(crate) struct KnownShape {
    pub(crate) shape: Arc<Shape>,
    pub(crate) limits: ShapeLimits,
}

/// Makes columns of the events of a call.
#[derive(Debug)]
pub(crate) struct CallColumns {
    known: KnownShape,
    /// The current batch; made with its first row.
    shredder: Option<Shredder>,
    /// Of the current batch.
    places: Places,
    bytes: usize,
    rows: usize,
    batches: Vec<Arc<MemBatch>>,
    misfits: Misfits,
    held: usize,
}

/// The columns of a call.
#[derive(Debug)]
pub(crate) struct MadeColumns {
    /// The schema that they belong to.
    shape: Arc<Shape>,
    batches: Vec<Arc<MemBatch>>,
    misfits: Misfits,
    held: usize,
}

impl CallColumns {
    pub(crate) fn new(known: KnownShape) -> CallColumns {
        CallColumns {
            known,
            shredder: None,
            places: Places::default(),
            bytes: 0,
            rows: 0,
            batches: Vec::new(),
            misfits: Misfits::default(),
            held: 0,
        }
    }

    /// Adds the next event of the call, which has so many bytes as JSON. Returns none where the columns would need another
    /// schema.
    pub(crate) fn add(mut self, event: Item<'_>, bytes: usize) -> Option<CallColumns> {
        let new = || Shredder::new(&self.known.shape, self.known.limits.clone());
        let shredder = self.shredder.get_or_insert_with(new);
        shredder.add(event);
        if shredder.has_grown() {
            return None;
        }
        let is_full = shredder.is_full();
        self.places.push(0, self.rows);
        self.rows += 1;
        self.bytes += bytes;
        if is_full {
            self.end_batch().ok()?
        }
        Some(self)
    }

    fn end_batch(&mut self) -> Result<()> {
        let Some(shredder) = self.shredder.take() else { return Ok(()) };
        let bytes = mem::take(&mut self.bytes);
        self.misfits.add_all(shredder.misfits());
        let (rows, _) = shredder.finish(bytes)?;
        let places = mem::take(&mut self.places);
        let rows = if self.known.shape.is_placed() { places.put(&rows)? } else { rows };
        let batch = MemBatch::new(rows, bytes, (0, 0))?;
        self.held += batch.held();
        self.batches.push(Arc::new(batch));
        Ok(())
    }

    /// Bytes that the columns hold in memory. Of a batch that is not ended it is an estimate.
    pub(crate) fn held(&self) -> usize {
        // Texts and views of them, in builders that have room for as much again.
        self.held + self.bytes.saturating_mul(4)
    }

    /// The columns of all events so far; none if they cannot be made.
    pub(crate) fn finish(mut self) -> Option<MadeColumns> {
        self.end_batch().ok()?;
        let CallColumns { known, batches, misfits, held, .. } = self;
        Some(MadeColumns { shape: known.shape, batches, misfits, held })
    }
}

impl MadeColumns {
    /// Bytes that the columns hold in memory.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The batches, as those of the call with this number, if the schema is still the same.
    pub(crate) fn of_call(&self, seq: i64, shape: &Arc<Shape>) -> Option<Result<(Vec<Arc<MemBatch>>, &Misfits)>> {
        if !Arc::ptr_eq(&self.shape, shape) {
            return None;
        }
        let batches = self.batches.iter().map(|batch| Ok(Arc::new(batch.of_call(seq)?))).collect::<Result<_>>();
        Some(batches.map(|batches| (batches, &self.misfits)))
    }
}
