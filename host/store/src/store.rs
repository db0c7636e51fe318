//! The store itself: opens and recovers a data folder, and ties the parts together.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::catalog::TableProvider;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    catalog::{Catalog, check_name},
    commit::{self, Writer},
    error::{Result, StoreError},
    event::{self, Ingested, Prepared},
    flush::{self, Flusher},
    now_micros,
    options::StoreOptions,
    segment,
    shape::Shape,
    source::{Source, SourceInfo},
    table::SourceTable,
};

/// Events of one call from which on normalising leaves the async thread.
const BLOCKING_EVENTS: usize = 200;

/// A log store in one folder; see the crate's documentation.
#[derive(Debug)]
pub struct Store {
    sources: Arc<Sources>,
    catalog: Catalog,
    writer: Arc<Writer>,
    flusher: Arc<Flusher>,
    options: StoreOptions,
    /// Held for as long as the store lives: no second process may write here.
    _lock: File,
}

impl Store {
    /// Opens a data folder, creating it if need be (mode 0700), and recovers what a crash left:
    /// the write-ahead log is read back into memory, files that the catalog does not know are
    /// deleted. Segment files are not opened, so a damaged one does not keep the store from
    /// starting. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has the folder; [`StoreError::Incompatible`],
    /// [`StoreError::Corrupt`], [`StoreError::Io`], [`StoreError::Sqlite`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Arc<Store>> {
        let dir = create_data_folder(dir)?;
        let lock = lock(&dir)?;
        segment::create_folder(&dir.join("segments"))?;
        let catalog = Catalog::open(&dir.join("catalog.sqlite"))?;
        let conn = catalog.connect()?;
        let sources = Arc::new(Sources::default());
        for source in load_sources(&conn, &dir, &options, &sources.unflushed)? {
            sources.insert(source);
        }
        let by_key: HashMap<i64, Arc<Source>> = sources.all().into_iter().map(|s| (s.key, s)).collect();
        let replayed = commit::replay(&conn, |key| by_key.get(&key).cloned())?;
        if replayed > 0 {
            tracing::info!(rows = replayed, "recovered from the write-ahead log");
        }

        let (queue, waker) = flush::queue();
        let writer = {
            let (sources, limits) = (Arc::clone(&sources), options.clone());
            let committed = move || {
                if sources.all().iter().any(|source| source.is_raw() || source.is_due(&limits)) {
                    waker.wake();
                }
            };
            Arc::new(Writer::start(conn, &options, committed)?)
        };
        let flusher = Flusher::start(queue, dir, Arc::clone(&sources), Arc::clone(&writer), options.clone())?;
        let flusher = Arc::new(flusher);
        Ok(Arc::new(Store { sources, catalog, writer, flusher, options, _lock: lock }))
    }

    /// Creates a source. Blocks for one commit.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; [`StoreError::InvalidName`] unless the name has 1 to 255 bytes and
    /// no control characters.
    pub fn create_source(&self, name: &str) -> Result<SourceInfo> {
        let (source, created) = self.add_source(name)?;
        if created { Ok(source) } else { Err(StoreError::Exists(name.to_owned())) }
    }

    /// The source with this name, created if there is none. Blocks for one commit if so.
    ///
    /// # Errors
    /// [`StoreError::InvalidName`] as in [`Self::create_source`].
    pub fn ensure_source(&self, name: &str) -> Result<SourceInfo> {
        match self.sources.find(name) {
            Some(source) => Ok(source.info.clone()),
            None => Ok(self.add_source(name)?.0),
        }
    }

    fn add_source(&self, name: &str) -> Result<(SourceInfo, bool)> {
        check_name(name)?;
        let mut conn = self.catalog.lock();
        if let Some(source) = self.sources.find(name) {
            return Ok((source.info.clone(), false));
        }
        let info = SourceInfo { id: Uuid::new_v4(), name: name.to_owned(), created_at: now_micros() };
        let shape = Shape::default();
        let json = serde_json::to_string(&shape).map_err(|e| StoreError::corrupt("a shape", e))?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let key = tx
            .query_row(
                "INSERT INTO sources (id, name, shape, created_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING RETURNING key",
                params![info.id, info.name, json, info.created_at],
                |row| row.get(0),
            )
            .optional()?
            .ok_or_else(|| StoreError::Exists(name.to_owned()))?;
        tx.commit()?;
        let unflushed = Arc::clone(&self.sources.unflushed);
        let source = Source::new(info.clone(), key, shape, Vec::new(), &self.options, unflushed);
        self.sources.insert(Arc::new(source));
        Ok((info, true))
    }

    /// All sources by name.
    pub fn sources(&self) -> Vec<SourceInfo> {
        let mut infos: Vec<SourceInfo> = self.sources.all().iter().map(|s| s.info.clone()).collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// The source with this name or, failing that, this UUID.
    pub fn source(&self, name_or_id: &str) -> Option<SourceInfo> {
        if let Some(source) = self.sources.find(name_or_id) {
            return Some(source.info.clone());
        }
        let id = Uuid::parse_str(name_or_id).ok()?;
        self.sources.all().iter().find(|s| s.info.id == id).map(|s| s.info.clone())
    }

    /// Stores events (JSON objects) and tells what became of them, once they are on stable
    /// storage. Every table made afterwards shows them. An event that cannot be stored is refused
    /// alone: no object, longer than [`StoreOptions::max_event_bytes`], or nested deeper than
    /// [`MAX_NESTING`](crate::MAX_NESTING). All others of a call are stored, or with an error none;
    /// a caller that goes away while waiting does not know which.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::Overloaded`];
    /// [`StoreError::CommitFailed`] and [`StoreError::ReadOnly`] when the disk fails;
    /// [`StoreError::Closed`].
    pub async fn ingest(&self, source: &str, events: Vec<Value>) -> Result<Ingested> {
        let source = self.find(source)?;
        if events.is_empty() {
            return Ok(Ingested::default());
        }
        let held = self.sources.unflushed.load(Ordering::Relaxed);
        let limit = self.options.max_unflushed_bytes;
        if held > limit {
            return Err(StoreError::Overloaded { held, limit });
        }
        let large = events.len() >= BLOCKING_EVENTS;
        let max_bytes = self.options.max_event_bytes;
        let prepare = move || event::prepare(events, now_micros(), max_bytes);
        let prepared = if large {
            tokio::task::spawn_blocking(prepare).await.map_err(|e| StoreError::corrupt("a batch of events", e))??
        } else {
            prepare()?
        };
        let Prepared { events, body, refused } = prepared;
        let stored = if events.is_empty() { 0 } else { self.writer.ingest(source, events, body).await? };
        Ok(Ingested { stored, refused })
    }

    /// Bytes that one event may have as JSON.
    pub fn max_event_bytes(&self) -> usize {
        self.options.max_event_bytes
    }

    /// A snapshot of the source, for queries: what is acknowledged by now. Turns what is still
    /// JSON in memory into columns, which may take some milliseconds.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn table(&self, source: &str) -> Result<Arc<dyn TableProvider>> {
        let source = self.find(source)?;
        Ok(Arc::new(SourceTable::new(source.info.clone(), source.snapshot()?)))
    }

    /// Writes everything in memory to segments.
    ///
    /// # Errors
    /// The first failure; the rows concerned stay in memory and in the write-ahead log.
    pub async fn flush(&self) -> Result<()> {
        self.flusher.flush().await
    }

    /// Stops background work cleanly; what is acknowledged but not flushed stays in the
    /// write-ahead log. Tables made before remain readable, ingest fails from here on.
    ///
    /// # Errors
    /// None today; later versions may report a failed last write.
    pub async fn close(&self) -> Result<()> {
        let (flusher, writer) = (Arc::clone(&self.flusher), Arc::clone(&self.writer));
        tokio::task::spawn_blocking(move || {
            flusher.stop();
            writer.stop();
        })
        .await
        .map_err(|e| StoreError::corrupt("closing the store", e))
    }

    /// Endpoints, tokens and settings.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn find(&self, name: &str) -> Result<Arc<Source>> {
        self.sources.find(name).ok_or_else(|| StoreError::UnknownSource {
            name: name.to_owned(),
            known: self.sources().into_iter().map(|info| info.name).collect(),
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waits for the commit or segment at hand: the lock on the folder goes after it.
        self.flusher.stop();
        self.writer.stop();
    }
}

/// The sources by name.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    by_name: RwLock<HashMap<String, Arc<Source>>>,
    /// Bytes outside of segments.
    unflushed: Arc<AtomicUsize>,
}

impl Sources {
    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn find(&self, name: &str) -> Option<Arc<Source>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn insert(&self, source: Arc<Source>) {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(source.info.name.clone(), source);
    }
}

fn create_data_folder(dir: &Path) -> Result<PathBuf> {
    if !dir.is_dir() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir).map_err(StoreError::io(format!("creating {}", dir.display())))?;
    }
    fs::canonicalize(dir).map_err(StoreError::io(format!("finding {}", dir.display())))
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let io = || StoreError::io(format!("locking {}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io())?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(io()(error)),
    }
}

fn load_sources(
    conn: &Connection,
    dir: &Path,
    options: &StoreOptions,
    unflushed: &Arc<AtomicUsize>,
) -> Result<Vec<Arc<Source>>> {
    let mut statement = conn.prepare("SELECT key, id, name, shape, created_at FROM sources")?;
    let mut rows = statement.query([])?;
    let mut sources = Vec::new();
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        let info = SourceInfo { id: row.get(1)?, name: row.get(2)?, created_at: row.get(4)? };
        let shape: Shape = serde_json::from_str(row.get_ref(3)?.as_str().unwrap_or_default())
            .map_err(|e| StoreError::corrupt(format!("the schema of source `{}`", info.name), e))?;
        let folder = segment::folder(dir, info.id);
        let segments = segment::load(conn, key, &folder)?;
        let swept = segment::sweep(&folder, &segments)?;
        if swept > 0 {
            tracing::info!(source = info.name, files = swept, "deleted files of an unfinished flush");
        }
        sources.push(Arc::new(Source::new(info, key, shape, segments, options, Arc::clone(unflushed))));
    }
    Ok(sources)
}
