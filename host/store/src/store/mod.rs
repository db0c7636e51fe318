//! The public store: opening a data folder, and what callers do with it.
//!
//! [`Store`] holds the parts; its methods are in the modules below, by subject: `ingest`, `sources` (create, rename,
//! delete), `describe`, `fill_rates`, `stats`. `load` reads the sources from the catalog.
//!
//! Uses: every other module of the crate.

pub(crate) mod describe;
pub(crate) mod fill_rates;
mod follow;
mod ingest;
mod load;
mod sources;
mod stats;

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use datafusion::catalog::TableProvider;
use tidegate_model::{Audience, RowPolicy, SourceTenancy};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    background::{
        catalog_copying::CatalogCopier,
        columnizer::Columnizer,
        compaction::Compactor,
        copying::Copier,
        dropped::Dropped,
        flusher::{self, Flusher},
    },
    catalog::{Catalog, database, retention},
    clock::{AgeClock, now_micros},
    data_folder::{create::create_data_folder, lock::lock, paths, sync},
    error::{Result, StoreError},
    objects::{
        client::{RequestLimits, environment},
        copies::ObjectCopies,
        ownership::Before,
    },
    options::StoreOptions,
    recovery::start::{self, Recovered},
    scan::table::SourceTable,
    source::{Source, sources::Sources},
    store::load::load_sources,
    wal::{numbering, rows, writer::Writer},
};

/// How long the end of the store waits for a last flush, if nobody says how long.
const LAST_FLUSH: Duration = Duration::from_secs(10);

/// Where copies are kept, the thread of those of segments, and the thread of those of the catalog.
type Copying = (Arc<ObjectCopies>, Arc<Copier>, Arc<CatalogCopier>);

/// A log store in one folder; see the documentation of the crate.
#[derive(Debug)]
pub struct Store {
    pub(crate) data: PathBuf,
    pub(crate) sources: Arc<Sources>,
    pub(crate) catalog: Catalog,
    pub(crate) writer: Arc<Writer>,
    flusher: Arc<Flusher>,
    compactor: Arc<Compactor>,
    columnizer: Arc<Columnizer>,
    /// Where copies are kept, and the threads that complete them.
    pub(crate) copies: Option<Copying>,
    /// By which logs grow old.
    pub(crate) clock: Arc<AgeClock>,
    pub(crate) options: StoreOptions,
    /// What the start found.
    pub(crate) recovered: Recovered,
    /// Held as long as the store exists, so that no second process writes here.
    _lock: File,
}

/// A table of a source, and which of its rows those for whom it was made may read. The table alone has all of them: whoever
/// plans a statement over it must put the condition below everything else.
#[derive(Debug, Clone)]
pub struct AudienceTable {
    /// The rows of the source.
    pub table: Arc<dyn TableProvider>,
    /// Which of them may be read; `None`: all.
    pub policy: Option<RowPolicy>,
}

/// What an audience pins as the value of a source's first tenant key.
fn own_value<'a>(tenant: Option<&SourceTenancy>, audience: &'a Audience) -> Option<&'a str> {
    let Some(SourceTenancy::Keyed(keys)) = tenant else { return None };
    audience.pins().get(keys.keys().next()?).map(String::as_str)
}

impl Store {
    /// Opens a data folder, creates it if need be (mode 0700), and recovers what a crash left. The write-ahead log is
    /// loaded into memory. Files that the catalog does not name are deleted if their rows are certainly elsewhere, and
    /// otherwise set aside in `quarantine/`. Segments that the catalog names are not read, so that a damaged one does
    /// not prevent the start; [`Self::stats`] tells whether their files exist and have their length. Blocks.
    ///
    /// # Errors
    /// [`StoreError::CatalogMissing`] where there are segments and no catalog;
    /// [`StoreError::Exposed`]; [`StoreError::OtherOwner`], [`StoreError::Replaced`] and [`StoreError::BadUrl`] for the address of copies;
    /// [`StoreError::Locked`] when another process has the folder; [`StoreError::Incompatible`],
    /// [`StoreError::Corrupt`], [`StoreError::Io`], [`StoreError::Sqlite`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<Arc<Store>> {
        let dir = create_data_folder(dir)?;
        let lock = lock(&dir)?;
        sync::create_folder(&paths::segments_folder(&dir))?;
        let may_be_new = start::may_create_catalog(&dir)?;
        let log = start::check_wal_file(&dir)?;
        let catalog = Catalog::open(&dir, may_be_new)?;
        let identity = catalog.identity()?;
        let mut conn = catalog.connect()?;
        let of_checkpoints = catalog.connect()?;
        if !options.durable {
            database::relax(&conn)?;
            database::relax(&of_checkpoints)?;
            database::relax(&catalog.lock())?;
        }
        // SQLite opens a file for reading only where it cannot be opened for writing.
        if conn.is_readonly("main")? {
            let what = format!("opening {} for writing", dir.join(paths::CATALOG).display());
            return Err(StoreError::io(what)(io::ErrorKind::ReadOnlyFilesystem.into()));
        }
        // Before the numbers of calls go on at the wall clock.
        let clock = Arc::new(AgeClock::start(retention::kept_clock(&conn)?, retention::newest_time(&conn)?));
        let has_copies = !options.copies_url.is_empty();
        let recovered = start::recover(&mut conn, &dir, identity, log, (clock.now(), has_copies))?;
        match numbering::begin(&mut conn, now_micros()) {
            // A full disk does not prevent the start. Nothing is stored then either, so that no number is given.
            Err(StoreError::DiskFull(reason)) => tracing::warn!(reason, "the numbers of calls go on as they were"),
            other => other?,
        }
        match retention::keep_clock(&conn, clock.state()) {
            Err(StoreError::DiskFull(reason)) => tracing::warn!(reason, "the age of logs is not kept for now"),
            other => other?,
        }
        let sources = Arc::new(Sources::default());
        for source in load_sources(&conn, &dir, &options, &sources.unflushed)? {
            sources.insert(source);
        }
        let by_key: HashMap<i64, Arc<Source>> = sources.all().into_iter().map(|s| (s.key, s)).collect();
        let replayed = rows::replay(&conn, |key| by_key.get(&key).cloned())?;
        let last = rows::last_seq(&conn)?;
        sources.all().iter().for_each(|source| source.numbered_up_to(last));
        if replayed > 0 {
            tracing::info!(rows = replayed, "recovered from the write-ahead log");
        }

        let copies = match options.copies_url.as_str() {
            "" => None,
            url => {
                let (is_restored, is_manual) = (catalog.is_restored()?, options.manual_flush);
                let before = if is_restored && options.take_over { Before::Any } else { Before::Own };
                let (of, limits) = ((identity, catalog.writer()?, before), RequestLimits::default());
                let opened = ObjectCopies::open(url, &dir, of, is_manual, environment(), limits);
                let copies = opened.map_err(|error| match error {
                    StoreError::Replaced { epoch, since } if is_restored => {
                        StoreError::NotAskedToTakeOver { epoch, since }
                    }
                    other => other,
                })?;
                if is_restored && copies.has_epoch() {
                    catalog.has_taken_over()?;
                }
                Some(Arc::new(copies))
            }
        };

        let (queue, waker) = flusher::queue();
        let columnizer = Arc::new(Columnizer::start(Arc::clone(&sources), waker.clone(), options.clone())?);
        columnizer.wake_after_recovery();
        let writer = {
            let (sources, limits, columnizer) = (Arc::clone(&sources), options.clone(), Arc::clone(&columnizer));
            let committed = move || {
                let is_pressed = sources.unflushed.load(Ordering::Relaxed) >= limits.pace_bytes() / 2;
                let sources = sources.all();
                columnizer.wake();
                if is_pressed || sources.iter().any(|source| source.is_due(&limits)) {
                    waker.wake();
                }
            };
            Arc::new(Writer::start(conn, of_checkpoints, (dir.clone(), identity), &options, committed)?)
        };
        let (of_flusher, of_writer) = (Arc::clone(&sources), Arc::clone(&writer));
        let (identified, of_clock) = ((dir.clone(), identity), (Arc::clone(&clock), options.clone()));
        let flusher = Flusher::start(queue, identified, of_flusher, of_writer, copies.clone(), of_clock)?;
        let flusher = Arc::new(flusher);
        let (of_compactor, of_writer) = (Arc::clone(&sources), Arc::clone(&writer));
        let identified = (dir.clone(), identity);
        let compactor = Compactor::start(identified, of_compactor, of_writer, copies.clone(), options.clone())?;
        let compactor = Arc::new(compactor);
        let copies = match copies {
            None => None,
            Some(copies) => {
                let (sources, of_copier) = (Arc::clone(&sources), Arc::clone(&copies));
                let copier = Copier::start(dir.clone(), sources, of_copier, options.manual_flush)?;
                let (of_copier, writer) = (Arc::clone(&copies), Arc::clone(&writer));
                let of_catalog = CatalogCopier::start(dir.clone(), of_copier, writer, options.manual_flush)?;
                Some((copies, Arc::new(copier), Arc::new(of_catalog)))
            }
        };
        Ok(Arc::new(Store {
            data: dir,
            sources,
            catalog,
            writer,
            flusher,
            columnizer,
            compactor,
            copies,
            clock,
            options,
            recovered,
            _lock: lock,
        }))
    }

    /// A snapshot of the source with the rows of all tenants: everything that is acknowledged by now. Shreds what is still JSON in
    /// memory, which may take some milliseconds.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`].
    pub fn table(&self, source: &str) -> Result<Arc<dyn TableProvider>> {
        let source = self.find(source)?;
        Ok(Arc::new(self.table_from(&source)?))
    }

    /// [`Self::table`] of the source with this identity, whatever its name is, with the rows of it that an audience may
    /// read. This is the only way to a table for what is done on behalf of a caller.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`]; [`StoreError::NotOfTenant`] if the source cannot tell which rows are those of the
    /// audience.
    pub fn table_for(&self, id: Uuid, audience: &Audience) -> Result<AudienceTable> {
        let source = self.get(id)?;
        let info = source.info();
        let policy = SourceTenancy::policy(info.tenant.as_ref(), audience, |name| self.is_tenant_key(name));
        let policy = policy.map_err(|why| StoreError::NotOfTenant { source_name: info.name.clone(), why })?;
        let mut table = self.table_from(&source)?;
        if policy.is_some() {
            table = table.held_to(own_value(info.tenant.as_ref(), audience));
        }
        Ok(AudienceTable { table: Arc::new(table), policy })
    }

    fn table_from(&self, source: &Source) -> Result<SourceTable> {
        let (info, snapshot) = (source.info(), source.snapshot()?);
        if source.is_deleted() {
            // The snapshot may show only a part of the rows.
            return Err(self.unknown(&info.name));
        }
        Ok(SourceTable::new(info, snapshot))
    }

    /// Resolves when the thread that stores events has done all that was asked of it before. It does not resolve while that
    /// thread hangs.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub async fn answers(&self) -> Result<()> {
        self.writer.answers().await
    }

    /// Writes everything in memory to segments.
    ///
    /// # Errors
    /// The first failure. Its rows stay in memory and in the write-ahead log.
    pub async fn flush(&self) -> Result<()> {
        self.flusher.flush().await
    }

    /// Drops the segments that are beyond the [`Retention`] of their sources, as the background does once a minute.
    /// Files are deleted when the queries that read them have ended.
    ///
    /// # Errors
    /// The first failure. The other sources are handled all the same.
    pub async fn apply_retention(&self) -> Result<Dropped> {
        self.flusher.retain().await
    }

    /// Merges small segments of all sources into large ones, at once and as far as possible. The background does the same
    /// by and by, when there are enough of them. What is in memory stays there.
    ///
    /// # Errors
    /// The first failure; the segments concerned stay as they were. The other sources are handled all the same.
    pub async fn compact(&self) -> Result<()> {
        self.compactor.compact().await
    }

    /// Compaction in the background stands still for the most part while this says that the processors are needed for
    /// queries. Only the first call counts.
    pub fn give_way_to(&self, is_busy: impl Fn() -> bool + Send + Sync + 'static) {
        self.compactor.give_way_to(Box::new(is_busy));
    }

    /// [`Self::close_within`] ten seconds.
    ///
    /// # Errors
    /// As of that.
    pub async fn close(&self) -> Result<()> {
        self.close_within(LAST_FLUSH).await
    }

    /// Writes what is in memory to segments if they are copied to an object store, for as long as `time`, and says how many
    /// events are on this disk only in the end.
    async fn flush_last(&self, time: Duration) {
        let Some((copies, ..)) = self.copies.as_ref().filter(|_| !self.options.manual_flush) else { return };
        let done = match copies.check_replaced() {
            Ok(()) => timeout(time, self.flush()).await.unwrap_or(Err(StoreError::Closed)),
            replaced => replaced,
        };
        let events: usize = self.sources.all().iter().map(|source| source.unflushed_rows()).sum();
        if events > 0 {
            let reason = match done {
                Err(StoreError::Closed) | Ok(()) => "there was no time for it".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(
                events,
                reason,
                "events are on the disk of this server only, and not in the object store: the next start here goes on with them"
            );
        }
    }

    /// Stops the background threads. With copies in an object store, what is in memory is flushed before, within `time`. Else,
    /// what is acknowledged but not flushed stays in the write-ahead log. Tables made before remain readable; ingest fails from
    /// now on.
    ///
    /// # Errors
    /// None today; later versions may report a failed last write.
    pub async fn close_within(&self, time: Duration) -> Result<()> {
        self.flush_last(time).await;
        let (flusher, compactor, writer) =
            (Arc::clone(&self.flusher), Arc::clone(&self.compactor), Arc::clone(&self.writer));
        let columnizer = Arc::clone(&self.columnizer);
        let copies = self.copies.clone();
        tokio::task::spawn_blocking(move || {
            stop_copies(copies.as_ref());
            compactor.stop();
            columnizer.stop();
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

/// Ends what waits for the object store, so that no other thread does.
fn stop_copies(copies: Option<&Copying>) {
    if let Some((copies, copier, of_catalog)) = copies {
        of_catalog.finish();
        copies.stop();
        copier.stop();
        of_catalog.stop();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waits for the current commit or segment. The lock on the folder is released afterwards.
        stop_copies(self.copies.as_ref());
        self.compactor.stop();
        self.columnizer.stop();
        self.flusher.stop();
        self.writer.stop();
    }
}
