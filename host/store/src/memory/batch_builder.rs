//! Committed calls to batches: each event is parsed and shredded, unless that was done when it came.

use std::{mem, sync::Arc};

use datafusion::error::DataFusionError;

use crate::{
    ingest::tape_reader::stored_events,
    memory::{call_columns::MadeColumns, mem_batch::MemBatch, places::Places},
    schema::{shape::Shape, tenant_path::TenantPath},
    shred::{limits::ShapeLimits, misfits::Misfits, shredder::Shredder},
};

/// The events of one committed ingest call, in the JSON of the write-ahead row. As trees they would take many times the
/// memory.
#[derive(Debug)]
pub(crate) struct RawCall {
    pub(crate) seq: i64,
    pub(crate) rows: usize,
    /// A JSON array of so many events. Shared with the feed of the source.
    pub(crate) body: Arc<Vec<u8>>,
    /// The columns, if they were made when the events came.
    pub(crate) columns: Option<MadeColumns>,
}

impl RawCall {
    /// A call of which columns are to be made.
    pub(crate) fn of_body(seq: i64, rows: usize, body: Arc<Vec<u8>>) -> RawCall {
        RawCall { seq, rows, body, columns: None }
    }

    /// Bytes that it holds in memory.
    pub(crate) fn held(&self) -> usize {
        self.body.len() + self.columns.as_ref().map_or(0, MadeColumns::held)
    }
}

/// Shreds calls of a source with this schema and this path of its tenants, and appends the batches to `memory`. Returns the schema that they need, and the fields that have had values
/// of another kind.
pub(crate) fn build(
    raw: &[RawCall],
    (shape, tenant_path): (&Arc<Shape>, &Arc<TenantPath>),
    caps: &ShapeLimits,
    memory: &mut Vec<Arc<MemBatch>>,
) -> datafusion::error::Result<(Arc<Shape>, Misfits)> {
    let mut building = BatchBuilder {
        shape: Arc::clone(shape),
        tenant_path,
        shredder: None,
        bytes: 0,
        seqs: None,
        places: Places::default(),
        misfits: Misfits::default(),
    };
    for call in raw {
        if let Some(columns) = &call.columns {
            building.end_batch(memory)?;
            if columns.are_for(&building.shape) {
                memory.extend(columns.of_call(call.seq)?);
                building.misfits.add_all(columns.misfits());
                continue;
            }
        }
        // Events are parsed one at a time. Each counts as an equal part of the bytes of its call.
        let each = call.body.len() / call.rows.max(1);
        for (row, event) in stored_events(&call.body, call.seq).enumerate() {
            let event = event.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let new = || Shredder::new(&building.shape, caps.clone());
            let shredder = building.shredder.get_or_insert_with(new);
            shredder.add(event.root());
            let is_full = shredder.is_full();
            building.bytes += each;
            let (first, _) = building.seqs.unwrap_or((call.seq, call.seq));
            building.seqs = Some((first.min(call.seq), call.seq));
            building.places.push(call.seq, row);
            if is_full {
                building.end_batch(memory)?;
            }
        }
    }
    building.end_batch(memory)?;
    Ok((building.shape, building.misfits))
}

struct BatchBuilder<'s> {
    shape: Arc<Shape>,
    tenant_path: &'s Arc<TenantPath>,
    /// The current batch; made with its first row.
    shredder: Option<Shredder>,
    bytes: usize,
    seqs: Option<(i64, i64)>,
    places: Places,
    misfits: Misfits,
}

impl BatchBuilder<'_> {
    fn end_batch(&mut self, memory: &mut Vec<Arc<MemBatch>>) -> datafusion::error::Result<()> {
        let Some(shredder) = self.shredder.take() else { return Ok(()) };
        let bytes = mem::take(&mut self.bytes);
        self.misfits.add_all(shredder.misfits());
        let (rows, grown) = shredder.finish(bytes)?;
        if let Some(grown) = grown {
            self.shape = Arc::new(grown);
        }
        let (seqs, places) = (self.seqs.take().unwrap_or_default(), mem::take(&mut self.places));
        let rows = if self.shape.is_placed() { places.put(&rows)? } else { rows };
        memory.push(Arc::new(MemBatch::new(rows, bytes, seqs, self.tenant_path)));
        Ok(())
    }
}
