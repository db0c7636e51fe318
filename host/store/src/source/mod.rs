//! One source while the store is open: its rows in memory, its segments, and the swap between the two.
//!
//! There are two locks. `shape` is held while rows are shredded, which may take long. `lists` is held only while
//! pointers are moved, so that the writer thread can hand over committed rows at any time. What a query reads is copied
//! under `lists` at once. A row is in `raw`, in `memory`, in `flushing` or in a segment, and moves between them only
//! under that lock, so that no snapshot shows it twice or not at all. Batches are joined under neither: the joined one
//! takes the place of the others if they are still there.
//!
//! [`shredding`] makes columns of committed calls, [`flushing`] is the part that the flush thread uses, [`columnizing`] that of
//! the thread that makes columns, [`sources`] is the directory of all sources, [`column_ages`] decides which columns nothing
//! holds any more, [`feed`] keeps committed calls for followers, and [`following`] makes columns of them. [`mixed_fields`] tells of fields whose values are of several kinds.
//!
//! Uses: `sync_points`, `schema`, `overflow`, `shred`, `memory`, `segment`.

pub(crate) mod column_ages;
mod columnizing;
pub(crate) mod feed;
mod flushing;
pub(crate) mod following;
mod mixed_fields;
mod shredding;
pub(crate) mod sources;

use std::{
    collections::HashSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use tidegate_model::SourceTenancy;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    memory::{batch_builder::RawCall, call_columns::KnownShape, mem_batch::MemBatch, places::Places},
    options::StoreOptions,
    schema::{json_pointer::push_pointer, senders::Senders, shape::Shape, tenant_path::TenantPath},
    segment::handle::{FileRemoval, Segment},
    shred::{limits::ShapeLimits, misfits::Misfits},
    source::{column_ages::ColumnAges, feed::CallFeed},
    source_info::SourceInfo,
    sync_points,
};

/// The most texts in records that segments of a source have an index of. While a segment is written, each takes up to 8 KiB
/// for 2,048 rows.
const MOST_INDEXED_TEXTS: usize = 4;

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) id: Uuid,
    info: Mutex<Arc<SourceInfo>>,
    /// Set by the writer thread right after the commit that deleted the source.
    deleted: AtomicBool,
    /// The short key of the source in the catalog's tables. SQLite may assign it to another source after a deletion.
    pub(crate) key: i64,
    caps: Mutex<ShapeLimits>,
    /// The texts in records that segments have an index of.
    indexed_texts: Mutex<Arc<Vec<Vec<String>>>>,
    shape: Mutex<Arc<Shape>>,
    /// The schema as it was when it last changed, for those who do not wait for `shape`. Locked for moments, alone or after
    /// `shape`.
    latest: Mutex<Arc<Shape>>,
    overflows: AtomicBool,
    /// Fields whose values do not fit their column. Locked alone or last.
    misfits: Mutex<Misfits>,
    /// Locked alone or after `shape`.
    seen: Mutex<ColumnAges>,
    lists: Mutex<Lists>,
    /// Held while a feed is filled. Locked before `lists` and the catalog.
    filling: Mutex<()>,
    /// Bytes of rows that are in no segment, over all sources of the store.
    unflushed: Arc<AtomicUsize>,
    /// Told when rows have become columns or a segment.
    room: Notify,
    /// Held from looking for the names of a call's events until the call is stored, so that none of them comes between.
    pub(crate) naming: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Committed calls that are not shredded yet.
    raw: Vec<RawCall>,
    /// Rows and bytes in `raw`. They are counted here because summing thousands of calls after each commit would be
    /// slow.
    raw_size: RawSize,
    /// Rows that are being shredded.
    shredding: usize,
    memory: Vec<Arc<MemBatch>>,
    /// Batches that are being written as a segment.
    flushing: Vec<Arc<MemBatch>>,
    segments: Arc<Vec<Arc<Segment>>>,
    /// The source was deleted.
    cleared: bool,
    /// After a failed flush: the earliest time of the next one.
    not_before: Option<Instant>,
    /// When the oldest row outside of `flushing` arrived.
    since: Option<Instant>,
    /// No call of the source has a higher `seq`.
    last: i64,
    /// Gets each committed call too, while somebody holds it.
    feed: Weak<CallFeed>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RawSize {
    rows: usize,
    bytes: usize,
}

impl RawSize {
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }
}

/// The names of the path of the first tenant key.
fn tenant_names(tenant: Option<&SourceTenancy>) -> Option<Arc<[String]>> {
    match tenant? {
        SourceTenancy::Keyed(keys) => keys.values().next().map(|path| path.names().into()),
        SourceTenancy::Shared => None,
    }
}

/// The schema of a source that knows its tenants by a key: by another one, nothing is known of who has sent what.
fn known_by(shape: Shape, key: Option<&[String]>) -> Shape {
    if shape.senders.are_by(key) { shape } else { Shape { senders: Senders::by(key), ..shape } }
}

/// What a table reads. It stays the same for as long as the table exists.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) shape: Arc<Shape>,
    /// That of the source, of which `shape` is what the reader sees.
    pub(crate) source_shape: Arc<Shape>,
    pub(crate) schema: SchemaRef,
    pub(crate) memory: Vec<Arc<MemBatch>>,
    pub(crate) segments: Arc<Vec<Arc<Segment>>>,
    pub(crate) source: Uuid,
    /// The rows of all calls up to this `seq` are in the snapshot, and no others.
    pub(crate) position: i64,
}

impl Snapshot {
    /// The same with the types that a tenant reads, by its value of the source's first tenant key.
    pub(crate) fn of_tenant(self, tenant: &str, keys: &[String]) -> Snapshot {
        match self.shape.of_tenant(tenant, keys) {
            Some(shape) => Snapshot { schema: shape.schema(), shape: Arc::new(shape), ..self },
            None => self,
        }
    }

    /// The columns, and those with the places of rows after them.
    pub(crate) fn placed_schema(&self) -> SchemaRef {
        let fields: Vec<FieldRef> = self.schema.fields().iter().cloned().chain(Places::fields()).collect();
        Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()))
    }
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
        // The catalog may have the schema from before the key changed.
        let tenant = tenant_names(info.tenant.as_ref());
        let shape = Arc::new(known_by(shape, tenant.as_deref()));
        let source = Source {
            id: info.id,
            deleted: AtomicBool::new(false),
            key,
            caps: Mutex::new(ShapeLimits {
                fields: options.max_fields,
                depth: options.max_depth,
                reserved: Arc::default(),
                tenant,
            }),
            info: Mutex::new(Arc::new(info)),
            indexed_texts: Mutex::default(),
            overflows: AtomicBool::new(shape.overflows()),
            misfits: Mutex::default(),
            latest: Mutex::new(Arc::clone(&shape)),
            shape: Mutex::new(shape),
            seen: Mutex::default(),
            lists: Mutex::new(Lists { segments: Arc::new(segments), ..Lists::default() }),
            filling: Mutex::default(),
            unflushed,
            room: Notify::new(),
            naming: Arc::default(),
        };
        source.reserve_tenants();
        source
    }

    /// With the ages of its columns as the catalog has them.
    pub(crate) fn with_seen(self, seen: ColumnAges) -> Source {
        let seen = if self.is_half_full(&self.shape()) { seen } else { ColumnAges::default() };
        Source { seen: Mutex::new(seen), ..self }
    }

    /// Whether more than half of the bound on fields is used, so that the ages of columns are recorded.
    fn is_half_full(&self, shape: &Shape) -> bool {
        shape.count().saturating_mul(2) > self.caps().fields
    }

    fn seen(&self) -> MutexGuard<'_, ColumnAges> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a segment with these columns was made at `at`, if half of the bound on fields is used. Returns the
    /// ages of all columns for the catalog. From a segment on that is not recorded, nothing is known of any column.
    pub(crate) fn note_segment(&self, shape: &Shape, columns: &Schema, at: i64) -> Option<String> {
        let mut seen = self.seen();
        if self.is_half_full(shape) {
            seen.note(shape, columns, at);
        } else {
            *seen = ColumnAges::default();
        }
        seen.to_text()
    }

    /// Removes the columns from the schema that no segment and no batch in memory has, if half of the bound on fields is
    /// used. Returns the schema if it has shrunk.
    pub(crate) fn forget_columns(&self) -> Result<Option<Arc<Shape>>> {
        let mut shape = self.shape();
        self.shred(&mut shape)?;
        if !self.is_half_full(&shape) {
            return Ok(None);
        }
        let lists = self.lists();
        let oldest = lists.segments.iter().map(|segment| segment.created_at).min().unwrap_or(i64::MAX);
        let memory = lists.memory.iter().chain(&lists.flushing).map(|batch| batch.rows.schema_ref().as_ref());
        let shrunk = self.seen().shrink(&shape, memory, oldest).map(Arc::new);
        drop(lists);
        if let Some(shrunk) = &shrunk {
            self.set_shape(&mut shape, Arc::clone(shrunk));
        }
        Ok(shrunk)
    }

    /// Name and limits as they are now.
    pub(crate) fn info(&self) -> Arc<SourceInfo> {
        Arc::clone(&self.info.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the information for callers. Only [`sources`] calls it, under its lock.
    pub(crate) fn change_info(&self, change: impl FnOnce(&mut SourceInfo)) -> Arc<SourceInfo> {
        let mut info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut info));
        Arc::clone(&info)
    }

    /// Has the source look for its tenants where it says now. Who sent what was known by the key before, so it is forgotten.
    pub(crate) fn look_for_tenants(&self, tenant: Option<&SourceTenancy>) {
        let mut shape = self.shape();
        let key = tenant_names(tenant);
        let known = known_by(shape.as_ref().clone(), key.as_deref());
        self.caps().tenant = key;
        self.set_shape(&mut shape, Arc::new(known));
    }

    /// By which path the rows of a tenant are put together from now on.
    pub(crate) fn tenant_path(&self) -> Arc<TenantPath> {
        Arc::new(TenantPath::of(self.info().tenant.as_ref()))
    }

    /// Sets whose the rows are. The field of the tenants gets a column with its first value. Only [`sources`] calls it, under
    /// its lock.
    pub(crate) fn set_tenant(&self, tenant: Option<SourceTenancy>) -> Arc<SourceInfo> {
        let info = self.change_info(|info| info.tenant = tenant);
        self.reserve_tenants();
        info
    }

    fn reserve_tenants(&self) {
        let path = self.tenant_path();
        // `project` always gets a column.
        if !path.is_default() {
            self.reserve([path.names().to_vec()]);
        }
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
        sync_points::lock(&self.lists)
    }

    fn set_shape(&self, shape: &mut Arc<Shape>, to: Arc<Shape>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&to);
        *shape = to;
    }

    /// The schema for columns that are made before their turn. Does not wait for rows that are being shredded.
    pub(crate) fn known_shape(&self) -> KnownShape {
        let shape = Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner));
        KnownShape { shape, limits: self.caps().clone(), tenant_path: self.tenant_path() }
    }

    fn shape(&self) -> MutexGuard<'_, Arc<Shape>> {
        sync_points::lock_long(&self.shape)
    }

    /// Takes over a committed call. From now on queries see it.
    pub(crate) fn push(&self, call: RawCall) {
        let mut lists = self.lists();
        lists.since.get_or_insert_with(Instant::now);
        lists.raw_size.rows += call.rows;
        lists.raw_size.bytes += call.held();
        self.unflushed.fetch_add(call.held(), Ordering::Relaxed);
        lists.last = lists.last.max(call.seq);
        if let Some(feed) = lists.feed.upgrade() {
            feed.push(&call);
        }
        lists.raw.push(call);
    }

    /// Reserves columns for these fields and for the records that contain them, up to half of the bound on fields.
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

    /// Adds texts in records to those that segments have an index of, as long as there is room.
    pub(crate) fn index_texts(&self, paths: impl IntoIterator<Item = Vec<String>>) {
        let mut known = self.indexed_texts.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            if known.len() < MOST_INDEXED_TEXTS && path.len() > 1 && !known.contains(&path) {
                Arc::make_mut(&mut known).push(path);
            }
        }
    }

    /// The texts in records that segments have an index of.
    pub(crate) fn indexed_texts(&self) -> Arc<Vec<Vec<String>>> {
        Arc::clone(&self.indexed_texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn caps(&self) -> MutexGuard<'_, ShapeLimits> {
        self.caps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some event has had fields without a column. Does not wait for rows that are being shredded.
    pub(crate) fn overflows(&self) -> bool {
        self.overflows.load(Ordering::Relaxed)
    }

    pub(crate) fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.lists().segments)
    }

    /// The schema as it is now.
    pub(crate) fn current_shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape())
    }

    /// Puts a segment in the place of those whose rows it has.
    pub(crate) fn replace_segments(&self, replaced: &HashSet<Uuid>, by: Arc<Segment>) {
        let mut lists = self.lists();
        if lists.cleared {
            // Registered just before the source was deleted.
            by.remove_on_drop(FileRemoval::FileAndFolder);
            return;
        }
        let (gone, mut kept): (Vec<_>, Vec<_>) =
            lists.segments.iter().cloned().partition(|segment| replaced.contains(&segment.id));
        kept.push(by);
        lists.segments = Arc::new(kept);
        drop(lists);
        for segment in gone {
            segment.remove_on_drop(FileRemoval::File);
        }
    }

    /// Removes segments that the catalog no longer names.
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

    /// Removes everything after the source was deleted. No more rows arrive.
    pub(crate) fn clear(&self) {
        // While this lock is held, no shredding is in progress.
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
