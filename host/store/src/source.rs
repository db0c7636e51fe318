//! One source while the store is open: what is in memory, what is in segments, and the swap.
//!
//! Two locks. `shape` is held while rows are shredded, which may take long; `lists` only for a few
//! pointer moves, so that the writer thread can hand over committed rows at any time. Everything a
//! query reads is copied under `lists` in one go: a row is in `raw`, in `memory`, or in a segment,
//! and moves between them only under that lock, so no snapshot sees it twice or not at all.

use std::{
    collections::HashSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    error::DataFusionError,
};
use uuid::Uuid;

use crate::{
    batch::MemBatch,
    error::{Result, StoreError},
    info::SourceInfo,
    options::StoreOptions,
    seen::Seen,
    segment::{Fate, Segment},
    shape::{Shape, push_pointer},
    shred::{Caps, Shredder},
    tree::stored,
};

/// Small batches in memory are joined up to this size, so that a query between every two ingest
/// calls does not leave hundreds of them.
const JOIN_ROWS: usize = 32 << 10;

/// Raw rows from which on the background shreds them.
const RAW_ROWS: usize = 8 << 10;

/// A source that waits less than this much is a trickle; see [`StoreOptions::flush_interval`].
const TRICKLE_ROWS: usize = 1_000;
const TRICKLE_PATIENCE: u32 = 12;

/// After a failed flush. What fails costs as much as what works, and mostly fails again.
const RETRY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) id: Uuid,
    info: Mutex<Arc<SourceInfo>>,
    /// The writer's thread sets it, right after the commit that deleted the source.
    deleted: AtomicBool,
    /// The catalog's short key. May come back for another source after a deletion.
    pub(crate) key: i64,
    caps: Mutex<Caps>,
    shape: Mutex<Arc<Shape>>,
    overflows: AtomicBool,
    /// Taken with nothing else held, or after `shape`.
    seen: Mutex<Seen>,
    lists: Mutex<Lists>,
    /// Bytes outside of segments, over all sources of the store.
    unflushed: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Committed calls, not yet columns.
    raw: Vec<Call>,
    /// Rows and bytes in `raw`, counted so that nobody walks thousands of calls after each commit.
    raw_size: Size,
    /// Rows that are being turned into columns just now.
    shredding: usize,
    memory: Vec<Arc<MemBatch>>,
    /// Being written as a segment.
    flushing: Vec<Arc<MemBatch>>,
    segments: Arc<Vec<Arc<Segment>>>,
    /// The source was deleted.
    cleared: bool,
    /// After a failed flush: when the next one may be.
    not_before: Option<Instant>,
    /// When the oldest row outside of `flushing` came.
    since: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Size {
    rows: usize,
    bytes: usize,
}

/// The events of one ingest call, as the write-ahead row has them: trees would take many times as
/// much memory.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) seq: i64,
    pub(crate) rows: usize,
    /// A JSON array of that many events.
    pub(crate) body: Vec<u8>,
}

/// What a table reads: the same rows for as long as it lives.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) shape: Arc<Shape>,
    pub(crate) schema: SchemaRef,
    pub(crate) memory: Vec<Arc<MemBatch>>,
    pub(crate) segments: Arc<Vec<Arc<Segment>>>,
}

impl Source {
    pub(crate) fn new(
        info: SourceInfo,
        key: i64,
        shape: Shape,
        segments: Vec<Arc<Segment>>,
        options: &StoreOptions,
        unflushed: Arc<AtomicUsize>,
    ) -> Source {
        Source {
            id: info.id,
            info: Mutex::new(Arc::new(info)),
            deleted: AtomicBool::new(false),
            key,
            caps: Mutex::new(Caps { fields: options.max_fields, depth: options.max_depth, reserved: Arc::default() }),
            overflows: AtomicBool::new(shape.overflows()),
            shape: Mutex::new(Arc::new(shape)),
            seen: Mutex::default(),
            lists: Mutex::new(Lists { segments: Arc::new(segments), ..Lists::default() }),
            unflushed,
        }
    }

    /// With what the catalog remembers of its columns.
    pub(crate) fn with_seen(self, seen: Seen) -> Source {
        Source { seen: Mutex::new(seen), ..self }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a segment with these columns is made at `at`, where the source is half full; what the catalog
    /// is to remember of all of them.
    pub(crate) fn note_segment(&self, shape: &Shape, columns: &Schema, at: i64) -> Option<String> {
        let mut seen = self.seen();
        if shape.count().saturating_mul(2) > self.caps().fields {
            seen.note(shape, columns, at);
        }
        seen.to_text()
    }

    /// Gives up the columns that no segment and nothing in memory has any more; the shape, if it has shrunk.
    pub(crate) fn forget_columns(&self) -> Result<Option<Arc<Shape>>> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        let lists = self.lists();
        let oldest = lists.segments.iter().map(|segment| segment.created_at).min().unwrap_or(i64::MAX);
        let memory = lists.memory.iter().chain(&lists.flushing).map(|batch| batch.rows.schema_ref().as_ref());
        let shrunk = self.seen().shrink(&shape, memory, oldest).map(Arc::new);
        drop(lists);
        if let Some(shrunk) = &shrunk {
            *shape = Arc::clone(shrunk);
        }
        Ok(shrunk)
    }

    /// Name and limits as they are now.
    pub(crate) fn info(&self) -> Arc<SourceInfo> {
        Arc::clone(&self.info.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what callers see; the directory calls it, under its lock.
    pub(crate) fn change_info(&self, change: impl FnOnce(&mut SourceInfo)) -> Arc<SourceInfo> {
        let mut info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut info));
        Arc::clone(&info)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Fails once the source is deleted.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_deleted() {
            return Err(StoreError::UnknownSource { name: self.info().name.clone(), known: Vec::new() });
        }
        Ok(())
    }

    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self) -> MutexGuard<'_, Arc<Shape>> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a committed call; from here on queries see it.
    pub(crate) fn push(&self, call: Call) {
        let mut lists = self.lists();
        lists.since.get_or_insert_with(Instant::now);
        lists.raw_size.rows += call.rows;
        lists.raw_size.bytes += call.body.len();
        self.unflushed.fetch_add(call.body.len(), Ordering::Relaxed);
        lists.raw.push(call);
    }

    /// Sees to it that these fields, and the records that they are in, have a column in any case, as long as
    /// they are not too many.
    pub(crate) fn reserve(&self, paths: impl IntoIterator<Item = Vec<String>>) {
        let mut caps = self.caps();
        let most = caps.fields / 2;
        let known = Arc::make_mut(&mut caps.reserved);
        for path in paths {
            let mut pointer = String::new();
            for key in path {
                push_pointer(&mut pointer, &key);
                if known.len() < most {
                    known.insert(pointer.clone());
                }
            }
        }
    }

    fn caps(&self) -> MutexGuard<'_, Caps> {
        self.caps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some event has had fields without a column; does not wait for rows that become columns.
    pub(crate) fn overflows(&self) -> bool {
        self.overflows.load(Ordering::Relaxed)
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        let lists = self.lists();
        let memory = lists.flushing.iter().chain(&lists.memory).cloned().collect();
        let segments = Arc::clone(&lists.segments);
        drop(lists);
        let shape = Arc::clone(&shape);
        Ok(Snapshot { schema: shape.schema(), shape, memory, segments })
    }

    /// Turns what is raw into columns. The caller holds the shape, so whoever finds `raw` empty
    /// also finds the rows in `memory`.
    fn shred(&self, shape: &mut Arc<Shape>) -> Result<()> {
        let (raw, size, mut memory) = {
            let mut lists = self.lists();
            if lists.raw.is_empty() {
                return Ok(());
            }
            lists.shredding = lists.raw_size.rows;
            (mem::take(&mut lists.raw), mem::take(&mut lists.raw_size), lists.memory.clone())
        };
        let before: usize = memory.iter().map(|batch| batch.held()).sum();
        let caps = self.caps().clone();
        let built = build(&raw, shape, &caps, &mut memory);
        let mut lists = self.lists();
        lists.shredding = 0;
        match built {
            Ok(grown) => {
                if grown.overflows() && !self.overflows.swap(true, Ordering::Relaxed) {
                    let (source, fields, most) = (&self.info().name, grown.count(), self.caps().fields);
                    tracing::warn!(source, fields, most, "events have fields without a column of their own");
                }
                *shape = grown;
                // From here on they are counted as what their columns take.
                let after: usize = memory.iter().map(|batch| batch.held()).sum();
                self.unflushed.fetch_add(after, Ordering::Relaxed);
                self.unflushed.fetch_sub(before + size.bytes, Ordering::Relaxed);
                lists.memory = memory;
                Ok(())
            }
            Err(error) => {
                // Acknowledged rows must not get lost: they stay where they were, in their order.
                let newer = mem::replace(&mut lists.raw, raw);
                lists.raw.extend(newer);
                lists.raw_size.rows += size.rows;
                lists.raw_size.bytes += size.bytes;
                Err(StoreError::Corrupt {
                    what: format!("the memory of source `{}`", self.info().name),
                    reason: error.to_string(),
                })
            }
        }
    }

    /// Whether it is time for a segment.
    pub(crate) fn is_due(&self, options: &StoreOptions) -> bool {
        let lists = self.lists();
        if lists.not_before.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let Size { mut rows, mut bytes } = lists.raw_size;
        for batch in &lists.memory {
            rows += batch.rows.num_rows();
            bytes += batch.bytes.max(batch.held());
        }
        let age = lists.since.map_or(Duration::ZERO, |since| since.elapsed());
        let patience = if rows < TRICKLE_ROWS { TRICKLE_PATIENCE } else { 1 };
        rows > 0
            && (rows >= options.flush_rows
                || bytes >= options.flush_bytes
                || age >= options.flush_interval.saturating_mul(patience))
    }

    /// Whether so much is raw that the next query would notice the shredding.
    pub(crate) fn is_raw(&self) -> bool {
        self.lists().raw_size.rows >= RAW_ROWS
    }

    /// Fails while more rows are raw than may be: they come faster than they become columns.
    pub(crate) fn check_backlog(&self, limit: usize) -> Result<()> {
        let lists = self.lists();
        let rows = lists.raw_size.rows + lists.shredding;
        if rows > limit { Err(StoreError::Backlog { rows, limit }) } else { Ok(()) }
    }

    /// Shreds ahead of the next query.
    pub(crate) fn settle(&self) -> Result<()> {
        self.shred(&mut self.shape())
    }

    /// Starts a flush: everything in memory as one batch, with the shape that it needs. Queries go
    /// on reading the old batches until [`Self::end_flush`].
    pub(crate) fn begin_flush(&self) -> Result<Option<(Arc<MemBatch>, Arc<Shape>)>> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        let parts = {
            let mut lists = self.lists();
            // A failed flush left its batches here: they go first.
            let memory = mem::take(&mut lists.memory);
            lists.flushing.extend(memory);
            lists.since = (!lists.raw.is_empty()).then(Instant::now);
            lists.flushing.clone()
        };
        let shape = Arc::clone(&shape);
        match parts.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((Arc::clone(one), shape))),
            many => match MemBatch::join(many) {
                Ok(joined) => Ok(Some((Arc::new(joined), shape))),
                Err(error) => {
                    self.abort_flush();
                    Err(StoreError::corrupt(format!("the memory of source `{}`", self.info().name), error))
                }
            },
        }
    }

    /// Swaps the flushed batches for their segment.
    pub(crate) fn end_flush(&self, segment: Arc<Segment>) {
        let mut lists = self.lists();
        if lists.cleared {
            // Registered just before the source was deleted.
            segment.doom(Fate::GoneWithFolder);
            return;
        }
        let bytes = lists.flushing.drain(..).map(|batch| batch.held()).sum();
        self.unflushed.fetch_sub(bytes, Ordering::Relaxed);
        let mut segments = Vec::clone(&lists.segments);
        segments.push(segment);
        lists.segments = Arc::new(segments);
    }

    pub(crate) fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.lists().segments)
    }

    /// Lets go of segments that the catalog has forgotten.
    pub(crate) fn drop_segments(&self, ids: &HashSet<Uuid>) {
        let mut lists = self.lists();
        let (gone, kept) = lists.segments.iter().cloned().partition(|segment| ids.contains(&segment.id));
        lists.segments = Arc::new(kept);
        drop(lists);
        let gone: Vec<Arc<Segment>> = gone;
        for segment in gone {
            segment.doom(Fate::Gone);
        }
    }

    /// Lets go of everything, after the source was deleted: no more rows come in.
    pub(crate) fn clear(&self) {
        // Nobody is in the middle of turning raw rows into columns.
        let _shape = self.shape();
        let mut lists = self.lists();
        let raw = mem::take(&mut lists.raw_size).bytes;
        let rest: usize = lists.memory.iter().chain(&lists.flushing).map(|batch| batch.held()).sum();
        self.unflushed.fetch_sub(raw + rest, Ordering::Relaxed);
        for segment in lists.segments.iter() {
            segment.doom(Fate::GoneWithFolder);
        }
        *lists = Lists { cleared: true, ..Lists::default() };
    }

    /// The flush failed: its batches wait for the next one.
    pub(crate) fn abort_flush(&self) {
        let mut lists = self.lists();
        let flushing = mem::take(&mut lists.flushing);
        lists.memory.splice(0..0, flushing);
        lists.since = Some(Instant::now());
        lists.not_before = Some(Instant::now() + RETRY);
    }
}

/// Turns calls into columns, behind the batches that are there; returns the shape that they need.
fn build(
    raw: &[Call],
    shape: &Arc<Shape>,
    caps: &Caps,
    memory: &mut Vec<Arc<MemBatch>>,
) -> datafusion::error::Result<Arc<Shape>> {
    let mut building = Building { shape: Arc::clone(shape), shredder: None, bytes: 0, seqs: None };
    for call in raw {
        // Each event is read when its turn comes, and has its part of the call's bytes.
        let each = call.body.len() / call.rows.max(1);
        for event in stored(&call.body, call.seq) {
            let event = event.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let new = || Shredder::new(&building.shape, caps.clone());
            let shredder = building.shredder.get_or_insert_with(new);
            shredder.add(&event);
            let is_full = shredder.is_full();
            building.bytes += each;
            let (first, _) = building.seqs.unwrap_or((call.seq, call.seq));
            building.seqs = Some((first.min(call.seq), call.seq));
            if is_full {
                building.end_batch(memory)?;
            }
        }
    }
    building.end_batch(memory)?;
    Ok(building.shape)
}

struct Building {
    shape: Arc<Shape>,
    /// The batch at hand; made with its first row.
    shredder: Option<Shredder>,
    bytes: usize,
    seqs: Option<(i64, i64)>,
}

impl Building {
    fn end_batch(&mut self, memory: &mut Vec<Arc<MemBatch>>) -> datafusion::error::Result<()> {
        let Some(shredder) = self.shredder.take() else { return Ok(()) };
        let bytes = mem::take(&mut self.bytes);
        let (rows, grown) = shredder.finish(bytes)?;
        if let Some(grown) = grown {
            self.shape = Arc::new(grown);
        }
        let seqs = self.seqs.take().unwrap_or_default();
        memory.push(Arc::new(MemBatch::new(rows, bytes, seqs)?));
        while let [.., left, right] = memory.as_slice()
            && let (left_rows, right_rows) = (left.rows.num_rows(), right.rows.num_rows())
            && left_rows <= 2 * right_rows
            && left_rows + right_rows <= JOIN_ROWS
        {
            let joined = Arc::new(MemBatch::join(&[Arc::clone(left), Arc::clone(right)])?);
            memory.truncate(memory.len() - 2);
            memory.push(joined);
        }
        Ok(())
    }
}
