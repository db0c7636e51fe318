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

/// How many rows beyond its limit a stream reads at first: mostly the rows with the last time end there.
pub(crate) const SPARE: usize = 64;

/// The rows of a stream from its beginning, again and without a bound.
type Unbounded = Box<dyn FnOnce() -> Result<SendableRecordBatchStream> + Send>;

/// Rows, newest first.
pub(crate) struct NewestFirst {
    pub(crate) rows: SendableRecordBatchStream,
    pub(crate) keys: TieKeys,
    /// How many rows are wanted.
    pub(crate) limit: Option<usize>,
    /// How many rows the stream reads if it is bounded, and the same without a bound. More are read only where rows of
    /// one time do not end before.
    pub(crate) bounded: Option<(usize, Unbounded)>,
}

/// Rows of the last time so far, of which the next batch may have more.
struct Tied {
    keys: TieKeys,
    held: Vec<RecordBatch>,
    memory: MemoryReservation,
    left: usize,
    bounded: Option<(usize, Unbounded)>,
    /// Rows that came, and of those that are to come, how many did before.
    seen: usize,
    known: usize,
}

impl NewestFirst {
    /// The same with ties in order.
    pub(crate) fn in_order(self, pool: &Arc<dyn MemoryPool>) -> SendableRecordBatchStream {
        let NewestFirst { rows, keys, limit, bounded } = self;
        let schema = rows.schema();
        let memory = MemoryConsumer::new("rows of one time").register(pool);
        let left = limit.unwrap_or(usize::MAX);
        let tied = Tied { keys, held: Vec::new(), memory, left, bounded, seen: 0, known: 0 };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), ordered(rows, tied, schema)))
    }
}

fn ordered(rows: SendableRecordBatchStream, tied: Tied, schema: SchemaRef) -> impl Stream<Item = Result<RecordBatch>> {
    stream::try_unfold((Some(rows), tied), move |(mut rows, mut tied)| {
        let schema = Arc::clone(&schema);
        async move {
            while tied.left > 0 {
                let Some(stream) = &mut rows else { return Ok(None) };
                let complete = match stream.next().await.transpose()? {
                    Some(batch) => tied.add(batch)?,
                    None => match tied.bounded.take() {
                        Some((bound, unbounded)) if tied.seen >= bound => {
                            rows = Some(unbounded()?);
                            tied.known = tied.seen;
                            continue;
                        }
                        _ => {
                            rows = None;
                            std::mem::take(&mut tied.held)
                        }
                    },
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
        let known = batch.num_rows().min(self.known);
        self.known -= known;
        self.seen += batch.num_rows() - known;
        let batch = batch.slice(known, batch.num_rows() - known);
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let keys = self.keys.of(&batch)?;
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use datafusion::{
        arrow::{array::ArrayRef, record_batch::RecordBatch},
        execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool},
    };
    use futures::TryStreamExt;
    use proptest::prelude::*;

    use super::*;

    /// A time, and a place if there is one.
    type Row = (i64, Option<i64>);

    fn batch(rows: &[Row]) -> RecordBatch {
        let times: TimestampMicrosecondArray = rows.iter().map(|(time, _)| Some(*time)).collect();
        let calls: Int64Array = rows.iter().map(|(_, place)| place.map(|place| place / 4)).collect();
        let places: Int64Array = rows.iter().map(|(_, place)| place.map(|place| place % 4)).collect();
        let columns = [("row", Arc::new(places) as ArrayRef), ("call", Arc::new(calls)), ("time", Arc::new(times))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    }

    fn stream_of(batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
        let schema = batches.first().map_or_else(|| batch(&[]).schema(), RecordBatch::schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok))))
    }

    fn rows_of(batches: &[RecordBatch]) -> Vec<Row> {
        let keys = TieKeys { time: 2, call: 1, row: 0 };
        let rows = batches.iter().flat_map(|batch| {
            let keys = keys.of(batch).unwrap();
            let row = |row: usize| {
                let place = keys.calls.is_valid(row).then(|| keys.calls.value(row) * 4 + keys.rows.value(row));
                (keys.time(row), place)
            };
            (0..batch.num_rows()).map(row).collect::<Vec<_>>()
        });
        rows.collect()
    }

    /// Reads batches of these sizes, all or up to a limit. Returns the rows, and how often the stream was read again.
    fn read(rows: &[Row], sizes: &[usize], limit: Option<usize>, bound: Option<usize>) -> (Vec<Row>, usize) {
        let (mut batches, mut rest) = (Vec::new(), rows);
        for size in sizes.iter().cycle() {
            let (first, others) = rest.split_at((*size).min(rest.len()));
            batches.push(batch(first));
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        let opened = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&opened);
        let all = batches.clone();
        let unbounded: Unbounded = Box::new(move || {
            counted.fetch_add(1, SeqCst);
            Ok(stream_of(all))
        });
        let first = bound.map_or(batches, |bound| vec![batch(rows.get(..bound).unwrap_or(rows))]);
        let keys = TieKeys { time: 2, call: 1, row: 0 };
        let bounded = bound.map(|bound| (bound, unbounded));
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let ordered = NewestFirst { rows: stream_of(first), keys, limit, bounded }.in_order(&pool);
        let ordered: Vec<RecordBatch> = futures::executor::block_on(ordered.try_collect()).unwrap();
        assert_eq!(pool.reserved(), 0);
        (rows_of(&ordered), opened.load(SeqCst))
    }

    #[test]
    fn a_bounded_stream_is_read_again_only_where_a_time_does_not_end() {
        let rows: Vec<Row> = (0..20).map(|row| (100 - row / 4, Some(row))).collect();
        for (limit, bound, again) in [(4, 5, 0), (4, 8, 0), (4, 4, 1), (5, 6, 1), (5, 9, 0), (20, 30, 0), (20, 20, 1)] {
            let (got, opened) = read(&rows, &[3], Some(limit), Some(bound));
            assert_eq!((got.len(), opened), (limit, again), "{limit} {bound}");
            assert_eq!(got, read(&rows, &[7], Some(limit), None).0);
        }
    }

    #[test]
    fn many_rows_of_one_time_count() {
        let rows: Vec<RecordBatch> = (0..100).map(|row| batch(&vec![(5, Some(row)); 1000])).collect();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let keys = TieKeys { time: 2, call: 1, row: 0 };
        let ordered = NewestFirst { rows: stream_of(rows), keys, limit: Some(1), bounded: None }.in_order(&pool);
        let ended: Result<Vec<RecordBatch>> = futures::executor::block_on(ordered.try_collect());
        assert!(ended.unwrap_err().to_string().contains("rows of one time") && pool.reserved() == 0);
    }

    proptest! {
        /// However rows of one time lie, in however many batches: the later ones come first, those without a place last.
        #[test]
        fn ties_are_in_order(
            rows in prop::collection::vec((0_i64..6, prop::option::weighted(0.9, 0_i64..40)), 0..60),
            sizes in prop::collection::vec(1_usize..9, 1..5),
            limit in prop::option::of(0_usize..70),
            spare in 0_usize..9,
        ) {
            let mut rows = rows;
            rows.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
            let mut expected = rows.clone();
            expected.sort_by_key(|row| std::cmp::Reverse(*row));
            expected.truncate(limit.unwrap_or(usize::MAX));
            prop_assert_eq!(&read(&rows, &sizes, limit, None).0, &expected);
            if let Some(limit) = limit {
                prop_assert_eq!(&read(&rows, &sizes, Some(limit), Some(limit + spare)).0, &expected);
            }
        }
    }
}
