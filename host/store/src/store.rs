//! The store itself: opens and recovers a data folder, and ties the parts together.

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use datafusion::catalog::TableProvider;
use rusqlite::Connection;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    catalog::{Catalog, schema},
    commit::Writer,
    directory::Sources,
    error::{Result, StoreError},
    flush::{self, Flusher},
    info::{Retention, SourceInfo},
    intake::{Ingested, Intake, Prepared},
    log, now_micros,
    once::{Once, RequestKey},
    options::StoreOptions,
    recover::{self, Recovered},
    retention::Dropped,
    seen::Seen,
    segment,
    shape::Shape,
    source::Source,
    stage::{create_private_folder, make_private},
    table::SourceTable,
};

/// How long the lock of another process on the folder is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(400);

/// Events of one call from which on normalising leaves the async thread.
const BLOCKING_EVENTS: usize = 200;

/// A log store in one folder; see the crate's documentation.
#[derive(Debug)]
pub struct Store {
    pub(crate) data: PathBuf,
    pub(crate) sources: Arc<Sources>,
    pub(crate) catalog: Catalog,
    pub(crate) writer: Arc<Writer>,
    flusher: Arc<Flusher>,
    pub(crate) options: StoreOptions,
    /// What the start found.
    pub(crate) recovered: Recovered,
    /// Held for as long as the store lives: no second process may write here.
    _lock: File,
}

impl Store {
    /// Opens a data folder, creating it if need be (mode 0700), and recovers what a crash left:
    /// the write-ahead log is read back into memory. Files that the catalog does not name are deleted
    /// where their rows are elsewhere for certain, and else set aside in `quarantine/`. Segments that
    /// it names are not read, so a damaged one does not keep the store from starting; whether their
    /// files are there, in their length, is in [`Self::stats`]. Blocks.
    ///
    /// # Errors
    /// [`StoreError::CatalogMissing`] where there are segments and no catalog;
    /// [`StoreError::Exposed`]; [`StoreError::Locked`] when another process has the folder; [`StoreError::Incompatible`],
    /// [`StoreError::Corrupt`], [`StoreError::Io`], [`StoreError::Sqlite`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Arc<Store>> {
        let dir = create_data_folder(dir)?;
        let lock = lock(&dir)?;
        segment::create_folder(&dir.join("segments"))?;
        let may_be_new = recover::may_be_new(&dir)?;
        let log = recover::look_at_log(&dir)?;
        let catalog = Catalog::open(&dir, may_be_new)?;
        let identity = catalog.identity()?;
        let mut conn = catalog.connect()?;
        if !options.durable {
            schema::relax(&conn)?;
            schema::relax(&catalog.lock())?;
        }
        let recovered = recover::recover(&mut conn, &dir, identity, log)?;
        let sources = Arc::new(Sources::default());
        for source in load_sources(&conn, &dir, &options, &sources.unflushed)? {
            sources.insert(source);
        }
        let by_key: HashMap<i64, Arc<Source>> = sources.all().into_iter().map(|s| (s.key, s)).collect();
        let replayed = log::replay(&conn, |key| by_key.get(&key).cloned())?;
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
            Arc::new(Writer::start(conn, dir.clone(), &options, committed)?)
        };
        let (of_flusher, of_writer) = (Arc::clone(&sources), Arc::clone(&writer));
        let flusher = Flusher::start(queue, (dir.clone(), identity), of_flusher, of_writer, options.clone())?;
        let flusher = Arc::new(flusher);
        Ok(Arc::new(Store { data: dir, sources, catalog, writer, flusher, options, recovered, _lock: lock }))
    }

    /// Stores events (JSON objects) and tells what became of them, once they are on stable
    /// storage. Every table made afterwards shows them. An event that cannot be stored is refused
    /// alone: no object, longer than [`StoreOptions::max_event_bytes`], nested deeper than
    /// [`MAX_NESTING`](crate::MAX_NESTING), or of more values than [`MAX_VALUES`](crate::MAX_VALUES). All others of a call are stored, or with an error none;
    /// after [`StoreError::Unconfirmed`], and for a caller that goes away while waiting, it is not known which.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::Overloaded`]; [`StoreError::Backlog`];
    /// [`StoreError::DiskFull`]; [`StoreError::CommitFailed`], [`StoreError::ReadOnly`] and
    /// [`StoreError::Unconfirmed`] when the disk fails;
    /// [`StoreError::Closed`].
    pub async fn ingest(&self, source: &str, events: Vec<Value>) -> Result<Ingested> {
        self.ingest_at(source, events, now_micros()).await
    }

    /// [`Self::ingest`] of events that arrive at `now`, in microseconds since 1970: the time of those
    /// that have none of their own.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub async fn ingest_at(&self, source: &str, events: Vec<Value>, now: i64) -> Result<Ingested> {
        let mut intake = self.intake(now);
        let large = events.len() >= BLOCKING_EVENTS;
        let encode = move || {
            for event in events {
                intake.add(event);
            }
            intake
        };
        let intake = if large {
            self.check_room()?;
            tokio::task::spawn_blocking(encode).await.map_err(|e| StoreError::corrupt("a batch of events", e))?
        } else {
            encode()
        };
        self.ingest_intake(source, intake).await
    }

    /// An intake for a call whose events come one by one, all at `now` (microseconds since 1970).
    pub fn intake(&self, now: i64) -> Intake {
        Intake::new(now, self.options.max_event_bytes)
    }

    /// [`Self::ingest`] of the events of an intake.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub async fn ingest_intake(&self, source: &str, intake: Intake) -> Result<Ingested> {
        self.ingest_once(source, intake, None).await
    }

    /// [`Self::ingest_intake`] of a request that may come again: for a day, one with the same key and
    /// body stores nothing and is answered as the first was. The key is kept in the transaction of
    /// the events, 50,000 of a source at least. Of a request of which nothing is stored it is not kept.
    ///
    /// # Errors
    /// As [`Self::ingest`]; [`StoreError::KeyReused`] when the key came with another body.
    pub async fn ingest_once(&self, source: &str, intake: Intake, key: Option<RequestKey>) -> Result<Ingested> {
        let source = self.find(source)?;
        if intake.events() == 0 {
            return Ok(Ingested::default());
        }
        self.check_room()?;
        source.check_backlog(self.options.max_raw_rows)?;
        let Prepared { body, rows, refused, times, now } = intake.finish();
        let mut told = Ingested { stored: 0, refused, unread_times: times.unread, future_times: times.ahead };
        if rows > 0 {
            let once = key.map(|key| Once { key, now, future_times: times.ahead });
            let stored = self.writer.ingest(source, rows, body, once).await?;
            told.stored = stored.rows;
            told.future_times = stored.future_times.unwrap_or(told.future_times);
        }
        Ok(told)
    }

    fn check_room(&self) -> Result<()> {
        let held = self.sources.unflushed.load(Ordering::Relaxed);
        let limit = self.options.max_unflushed_bytes;
        if held > limit { Err(StoreError::Overloaded { held, limit }) } else { Ok(()) }
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
        self.table_from(&source)
    }

    /// [`Self::table`] of the source with this identity, whatever its name is by now.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn table_of(&self, id: Uuid) -> Result<Arc<dyn TableProvider>> {
        let source = self.get(id)?;
        self.table_from(&source)
    }

    fn table_from(&self, source: &Source) -> Result<Arc<dyn TableProvider>> {
        let (info, snapshot) = (source.info(), source.snapshot()?);
        if source.is_deleted() {
            // What the snapshot shows may be half of it.
            return Err(self.unknown(&info.name));
        }
        Ok(Arc::new(SourceTable::new(info, snapshot)))
    }

    /// Writes everything in memory to segments.
    ///
    /// # Errors
    /// The first failure; the rows concerned stay in memory and in the write-ahead log.
    pub async fn flush(&self) -> Result<()> {
        self.flusher.flush().await
    }

    /// Drops the segments that are beyond their sources' [`Retention`], as the background does once
    /// a minute. Running queries finish first; then the files go.
    ///
    /// # Errors
    /// The first failure; the other sources are looked at all the same.
    pub async fn apply_retention(&self) -> Result<Dropped> {
        self.flusher.retain().await
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
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waits for the commit or segment at hand: the lock on the folder goes after it.
        self.flusher.stop();
        self.writer.stop();
    }
}

/// Sees to it that the data folder is there, and durably so: the folder above each one that is made
/// is synced, and the one above the data folder in any case, since it may have come from a start
/// that was cut off.
fn create_data_folder(dir: &Path) -> Result<PathBuf> {
    let finding = || StoreError::io(format!("finding {}", dir.display()));
    let absolute = std::path::absolute(dir).map_err(finding())?;
    let missing: Vec<&Path> = absolute.ancestors().take_while(|folder| !folder.is_dir()).collect();
    create_private_folder(&absolute)?;
    missing.iter().filter_map(|folder| folder.parent()).try_for_each(segment::sync_folder)?;
    let dir = fs::canonicalize(&absolute).map_err(finding())?;
    if missing.is_empty()
        && let Some(above) = dir.parent()
    {
        match segment::sync_folder(above) {
            // Somebody else's, who made the data folder in it.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    make_private(&dir)?;
    Ok(dir)
}

pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let io = || StoreError::io(format!("locking {}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io())?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A process that is just ending has it, or one that has just been started and does not know yet
            // which program it will run.
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PATIENCE / 20);
            }
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io()(error)),
        }
    }
}

fn load_sources(
    conn: &Connection,
    dir: &Path,
    options: &StoreOptions,
    unflushed: &Arc<AtomicUsize>,
) -> Result<Vec<Arc<Source>>> {
    let mut statement =
        conn.prepare("SELECT key, id, name, shape, created_at, retention_seconds, retention_bytes, seen FROM sources")?;
    let mut rows = statement.query([])?;
    let mut sources = Vec::new();
    while let Some(row) = rows.next()? {
        let key = row.get(0)?;
        let info = SourceInfo {
            id: row.get(1)?,
            name: row.get(2)?,
            created_at: row.get(4)?,
            retention: Retention::of_columns(row.get(5)?, row.get(6)?),
        };
        let shape: Shape = serde_json::from_str(row.get_ref(3)?.as_str().unwrap_or_default())
            .map_err(|e| StoreError::corrupt(format!("the schema of source `{}`", info.name), e))?;
        let folder = segment::folder(dir, info.id);
        let segments = segment::load(conn, key, &folder)?;
        let seen = Seen::of_text(row.get_ref(7)?.as_str_or_null().ok().flatten());
        let source = Source::new(info, key, shape, segments, options, Arc::clone(unflushed)).with_seen(seen);
        sources.push(Arc::new(source));
    }
    Ok(sources)
}
