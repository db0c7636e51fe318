//! One source while the store is open: what is in memory, what is in segments, and the swap.
//!
//! Two locks. `shape` is held while rows are shredded, which may take long; `lists` only for a few
//! pointer moves, so that the writer thread can hand over committed rows at any time. Everything a
//! query reads is copied under `lists` in one go: a row is in `raw`, in `memory`, or in a segment,
//! and moves between them only under that lock, so no snapshot sees it twice or not at all.

pub(crate) mod column_ages;
mod flushing;
pub(crate) mod sources;

use std::{
    collections::HashSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    memory::{
        batch_builder::{RawCall, build},
        mem_batch::MemBatch,
    },
    options::StoreOptions,
    schema::{json_pointer::push_pointer, shape::Shape},
    segment::handle::{FileRemoval, Segment},
    shred::limits::ShapeLimits,
    source::column_ages::ColumnAges,
    source_info::SourceInfo,
};

/// Raw rows from which on the background shreds them.
const RAW_ROWS: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) id: Uuid,
    info: Mutex<Arc<SourceInfo>>,
    /// The writer's thread sets it, right after the commit that deleted the source.
    deleted: AtomicBool,
    /// The catalog's short key. May come back for another source after a deletion.
    pub(crate) key: i64,
    caps: Mutex<ShapeLimits>,
    shape: Mutex<Arc<Shape>>,
    overflows: AtomicBool,
    /// Taken with nothing else held, or after `shape`.
    seen: Mutex<ColumnAges>,
    lists: Mutex<Lists>,
    /// Bytes outside of segments, over all sources of the store.
    unflushed: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Committed calls, not yet columns.
    raw: Vec<RawCall>,
    /// Rows and bytes in `raw`, counted so that nobody walks thousands of calls after each commit.
    raw_size: RawSize,
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
pub(crate) struct RawSize {
    rows: usize,
    bytes: usize,
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
            caps: Mutex::new(ShapeLimits {
                fields: options.max_fields,
                depth: options.max_depth,
                reserved: Arc::default(),
            }),
            overflows: AtomicBool::new(shape.overflows()),
            shape: Mutex::new(Arc::new(shape)),
            seen: Mutex::default(),
            lists: Mutex::new(Lists { segments: Arc::new(segments), ..Lists::default() }),
            unflushed,
        }
    }

    /// With what the catalog remembers of its columns.
    pub(crate) fn with_seen(self, seen: ColumnAges) -> Source {
        Source { seen: Mutex::new(seen), ..self }
    }

    fn seen(&self) -> MutexGuard<'_, ColumnAges> {
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
    pub(crate) fn push(&self, call: RawCall) {
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

    fn caps(&self) -> MutexGuard<'_, ShapeLimits> {
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
            segment.remove_on_drop(FileRemoval::File);
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
            segment.remove_on_drop(FileRemoval::FileAndFolder);
        }
        *lists = Lists { cleared: true, ..Lists::default() };
    }
}
