//! Rows that come newest first, with those of equal times in the opposite order of their arrival.
//!
//! Segments and batches are in the order of times. Where a scan has the places of rows among its columns, it promises the order of
//! places within equal times as well, so that a merge of its streams can stop early at a limit. Rows of one time may lie
//! in several batches and files of a stream, in any order: here they are put right. Mostly nothing is to be done, and
//! rows are handed on as they came.

use std::{cmp::Ordering, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray, UInt32Array},
        compute::{SortOptions, concat_batches, take_record_batch},
        datatypes::{Int64Type, SchemaRef, TimestampMicrosecondType},
    },
    common::internal_datafusion_err,
    error::Result,
    execution::{
        SendableRecordBatchStream,
        memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    },
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, expressions::Column, projection::ProjectionExprs},
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{Stream, StreamExt, stream};

use crate::field_names::{CALL, ROW, TIMESTAMP};

/// Where a scan has the time and the place of a row among its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TieKeys {
    pub(crate) time: usize,
    pub(crate) call: usize,
    pub(crate) row: usize,
}

/// The keys of some rows. Older segments have no places.
struct Keys<'r> {
    times: &'r TimestampMicrosecondArray,
    calls: &'r Int64Array,
    rows: &'r Int64Array,
}

impl TieKeys {
    /// Of columns by their names in the table; `None` if one of them is not handed on.
    pub(crate) fn among(columns: &ProjectionExprs) -> Option<TieKeys> {
        let at = |name: &str| {
            let is_named = |expr: &Arc<dyn PhysicalExpr>| {
                expr.downcast_ref::<Column>().is_some_and(|column| column.name() == name)
            };
            columns.iter().position(|column| is_named(&column.expr))
        };
        Some(TieKeys { time: at(TIMESTAMP)?, call: at(CALL)?, row: at(ROW)? })
    }

    /// The order of the rows, which have this schema.
    pub(crate) fn ordering(&self, schema: &SchemaRef) -> Option<LexOrdering> {
        let key = |at: usize| {
            let column = Column::new(schema.fields().get(at)?.name(), at);
            Some(PhysicalSortExpr::new(Arc::new(column), SortOptions { descending: true, nulls_first: false }))
        };
        LexOrdering::new([key(self.time)?, key(self.call)?, key(self.row)?])
    }

    fn of<'r>(&self, rows: &'r RecordBatch) -> Result<Keys<'r>> {
        let missing = || internal_datafusion_err!("a scan has no times and places where it says");
        let column = |at: usize| rows.columns().get(at);
        let number = |at: usize| column(at).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let times = column(self.time).and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        Ok(Keys {
            times: times.ok_or_else(missing)?,
            calls: number(self.call).ok_or_else(missing)?,
            rows: number(self.row).ok_or_else(missing)?,
        })
    }
}

impl Keys<'_> {
    fn time(&self, row: usize) -> i64 {
        self.times.value(row)
    }

    /// How two rows of one time are ordered: the later one first, those without a place last.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let place = |row: usize| {
            let number = |column: &Int64Array| column.is_valid(row).then(|| column.value(row));
            (number(self.calls), number(self.rows))
        };
        place(other).cmp(&place(one))
    }

    /// The number of rows before those with the time of the last one.
    fn before_last(&self) -> usize {
        let rows = self.times.len();
        let last = rows.checked_sub(1).map(|last| self.time(last));
        (0..rows).rev().find(|row| Some(self.time(*row)) != last).map_or(0, |row| row + 1)
    }

    /// The rows in their order; `None` if they are in it.
    fn order(&self) -> Option<UInt32Array> {
        let all = 1..self.times.len();
        let is_tied = |row: usize| self.time(row - 1) == self.time(row);
        if all.clone().all(|row| !is_tied(row) || self.compare(row - 1, row) != Ordering::Greater) {
            return None;
        }
        let mut order: Vec<u32> = (0..self.times.len() as u32).collect();
        for tied in order.chunk_by_mut(|one, other| self.time(*one as usize) == self.time(*other as usize)) {
            tied.sort_by(|one, other| self.compare(*one as usize, *other as usize));
        }
        Some(order.into())
    }
}

/// Rows of the last time so far, of which the next batch may have more.
struct Tied {
    keys: TieKeys,
    held: Vec<RecordBatch>,
    memory: MemoryReservation,
    left: usize,
}

/// The rows of a stream, which come newest first, with ties in order; at most `limit` of them.
pub(crate) fn in_order(
    rows: SendableRecordBatchStream,
    keys: TieKeys,
    limit: Option<usize>,
    pool: &Arc<dyn MemoryPool>,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let memory = MemoryConsumer::new("rows of one time").register(pool);
    let tied = Tied { keys, held: Vec::new(), memory, left: limit.unwrap_or(usize::MAX) };
    let ordered = ordered(rows, tied, Arc::clone(&schema));
    Box::pin(RecordBatchStreamAdapter::new(schema, ordered))
}

fn ordered(rows: SendableRecordBatchStream, tied: Tied, schema: SchemaRef) -> impl Stream<Item = Result<RecordBatch>> {
    stream::try_unfold((Some(rows), tied), move |(mut rows, mut tied)| {
        let schema = Arc::clone(&schema);
        async move {
            while tied.left > 0 {
                let next = match &mut rows {
                    Some(stream) => stream.next().await.transpose()?,
                    None => return Ok(None),
                };
                let complete = match next {
                    Some(batch) => tied.add(batch)?,
                    None => {
                        rows = None;
                        std::mem::take(&mut tied.held)
                    }
                };
                if let Some(batch) = tied.put_right(complete, &schema)? {
                    return Ok(Some((batch, (rows, tied))));
                }
            }
            Ok(None)
        }
    })
}

impl Tied {
    /// Takes the next rows, and gives those that no later ones belong between.
    fn add(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let keys = self.keys.of(&batch)?;
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let is_same = match self.held.first() {
            Some(held) => self.keys.of(held)?.time(0) == keys.time(0),
            None => true,
        };
        let before = keys.before_last();
        if is_same && before == 0 {
            // One batch is what every operator has in its hands; more than that is held.
            if !self.held.is_empty() {
                self.memory.try_grow(batch.get_array_memory_size())?;
            }
            self.held.push(batch);
            return Ok(Vec::new());
        }
        let mut complete = std::mem::take(&mut self.held);
        if before > 0 {
            complete.push(batch.slice(0, before));
        }
        let last = batch.slice(before, batch.num_rows() - before);
        self.memory.free();
        self.held.push(last);
        Ok(complete)
    }

    fn put_right(&mut self, complete: Vec<RecordBatch>, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let batch = match complete.len() {
            0 => return Ok(None),
            1 => complete.into_iter().next(),
            _ => Some(concat_batches(schema, &complete)?),
        };
        let Some(batch) = batch else { return Ok(None) };
        let batch = match self.keys.of(&batch)?.order() {
            Some(order) => take_record_batch(&batch, &order)?,
            None => batch,
        };
        let rows = batch.num_rows().min(self.left);
        self.left -= rows;
        Ok(Some(batch.slice(0, rows)))
    }
}
