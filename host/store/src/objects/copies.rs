//! Copies of segments in an object store, for readers that have no access to the data folder, and for its recovery.
//!
//! A segment is put into the store before the catalog names it, so that whoever is told its name finds it. It is deleted
//! there after its file is gone, because then no query reads it any more, and when no copy of the catalog names it
//! (`catalog_copies`).
//!
//! Calls block. They are made by the threads of the background, and end early when the store is closed.

use std::{
    fmt,
    fs::File,
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use object_store::path::Path as ObjectPath;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    objects::{
        client::{ObjectClient, RequestLimits},
        counters::add,
        io_runtime::IoRuntime,
        kept_catalogs::KeptCatalogs,
        ownership::{Before, Replacement, claim_owner, delete_objects, later_epoch, take_epoch},
        running_puts::RunningPuts,
        segment_objects::{SegmentCopy, list_segments, put_segment},
        url::StoreUrl,
    },
};

/// The time of one try to put a part.
const PUT_TIME: Duration = Duration::from_secs(60);

/// What putting copies took since the start.
#[derive(Debug, Default)]
pub(crate) struct CopyCounters {
    pub(crate) puts: AtomicU64,
    pub(crate) put_bytes: AtomicU64,
    pub(crate) failed_puts: AtomicU64,
    pub(crate) deleted: AtomicU64,
    /// Segments of the catalog that are not in the store yet.
    pub(crate) missing: AtomicU64,
    /// Whether the last attempt to put one failed.
    pub(crate) is_failing: AtomicBool,
    /// The epoch that this data folder has; 0 as long as it has none.
    pub(crate) epoch: AtomicU64,
    pub(crate) catalog_puts: AtomicU64,
    pub(crate) catalog_put_bytes: AtomicU64,
    pub(crate) failed_catalog_puts: AtomicU64,
    /// When the newest copy of this process was taken, in microseconds since 1970.
    pub(crate) catalog_copied_at: AtomicI64,
    /// Since when the catalog has what its newest copy lacks, in microseconds since 1970; 0 if it has nothing.
    pub(crate) catalog_behind_since: AtomicI64,
}

/// The copies of the segments of a store.
pub(crate) struct ObjectCopies {
    pub(super) client: Arc<ObjectClient>,
    runtime: IoRuntime,
    pub(super) data: PathBuf,
    /// The identity of the catalog.
    pub(super) catalog: Uuid,
    /// The identity of the data folder.
    pub(super) writer: Uuid,
    /// Whose epoch may come before that of this data folder.
    before: Before,
    epoch: Mutex<Option<u64>>,
    replaced: OnceLock<Replacement>,
    stop: watch::Sender<bool>,
    /// Held while a copy of the catalog is made and put.
    pub(super) putting: Mutex<()>,
    pub(super) kept: Mutex<KeptCatalogs>,
    /// Whether no thread of the background puts copies of the catalog.
    pub(super) is_manual: bool,
    /// Puts of segments that run now.
    running: RunningPuts,
    /// After this time a small put is late.
    patience: Duration,
    pub(crate) counters: CopyCounters,
}

impl fmt::Debug for ObjectCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCopies").field("client", &self.client).finish_non_exhaustive()
    }
}

impl ObjectCopies {
    /// The copies at an address for the catalog and the data folder with these identities. Asks the store who has it; if it
    /// does not answer, that is asked again before anything is put.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`], [`StoreError::Replaced`], [`StoreError::BadUrl`] if it is the data folder itself, and
    /// those of [`ObjectClient::open`].
    pub(crate) fn open(
        url: &str,
        data: &Path,
        (catalog, writer, before): (Uuid, Uuid, Before),
        is_manual: bool,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
    ) -> Result<ObjectCopies> {
        let parsed = StoreUrl::parse(url)?;
        parsed.check_apart(url, data)?;
        let runtime = IoRuntime::start().map_err(StoreError::io("starting the thread of the object store"))?;
        let limits = RequestLimits { try_time: limits.try_time.max(PUT_TIME), ..limits };
        let client = Arc::new(ObjectClient::open(&parsed, settings, limits, &runtime)?);
        let copies = ObjectCopies {
            client,
            runtime,
            data: data.to_owned(),
            catalog,
            writer,
            before,
            epoch: Mutex::default(),
            replaced: OnceLock::new(),
            stop: watch::Sender::new(false),
            putting: Mutex::default(),
            kept: Mutex::default(),
            is_manual,
            running: RunningPuts::default(),
            patience: limits.connect_time * 2,
            counters: CopyCounters::default(),
        };
        // Whoever takes over has asked for it and waits: a claim that is cut off may be known to the store alone.
        match copies.claim_within((before == Before::Own).then_some(limits.retry_time)) {
            Err(StoreError::ObjectStore { reason }) => {
                tracing::error!(reason, "the object store does not answer; segments wait until it does");
                copies.counters.is_failing.store(true, Ordering::Relaxed);
            }
            claimed => drop(claimed?),
        }
        Ok(copies)
    }

    /// Whether segments cannot be put now: the last attempt failed, or one that runs is late.
    pub(crate) fn is_failing(&self) -> bool {
        self.counters.is_failing.load(Ordering::Relaxed) || self.running.is_late()
    }

    /// Ends what runs and what comes.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Runs a request on the thread of the store, and waits for it.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (to, from) = mpsc::sync_channel(1);
        let mut stop = self.stop.subscribe();
        self.runtime.handle().spawn(async move {
            let done = tokio::select! {
                done = work => done,
                _ = stop.wait_for(|stop| *stop) => Err(StoreError::Closed),
            };
            // Whoever called waits.
            let _ = to.send(done);
        });
        from.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Makes sure that the copies are those of this catalog and of this data folder, and returns the epoch that it has.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`], [`StoreError::Replaced`], [`StoreError::ObjectStore`].
    pub(crate) fn claim(&self) -> Result<u64> {
        self.claim_within(None)
    }

    /// The same with a bound, where somebody waits for it: it is several requests.
    fn claim_within(&self, limit: Option<Duration>) -> Result<u64> {
        self.check_replaced()?;
        // Of several threads one takes the epoch.
        let mut taken = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(epoch) = *taken {
            return Ok(epoch);
        }
        let (client, catalog, writer, before) = (Arc::clone(&self.client), self.catalog, self.writer, self.before);
        let epoch = self.run(async move {
            let claimed = async {
                claim_owner(&client, catalog, writer).await?;
                take_epoch(&client, writer, before).await
            };
            let Some(limit) = limit else { return claimed.await };
            let late = |_| StoreError::ObjectStore { reason: format!("no claim of the copies within {limit:?}") };
            tokio::time::timeout(limit, claimed).await.map_err(late)?
        })?;
        let epoch = epoch.map_err(|other| self.be_replaced(other))?;
        tracing::info!(epoch, "the copies in the object store are this data folder's");
        self.counters.epoch.store(epoch, Ordering::Relaxed);
        *taken = Some(epoch);
        Ok(epoch)
    }

    /// Whether this data folder has an epoch.
    pub(crate) fn has_epoch(&self) -> bool {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Fails if it is known that another data folder has the catalog now. Asks nobody.
    pub(crate) fn check_replaced(&self) -> Result<()> {
        self.replaced.get().map_or(Ok(()), |replaced| Err(replaced.error()))
    }

    /// Asks the store whether another data folder has the catalog now.
    ///
    /// # Errors
    /// [`StoreError::Replaced`] if so, from then on always; and those of [`Self::claim`].
    pub(crate) fn check_epoch(&self) -> Result<()> {
        let (client, epoch) = (Arc::clone(&self.client), self.claim()?);
        let after = self.run(async move { later_epoch(&client, epoch).await })?;
        after.map_or(Ok(()), |other| Err(self.be_replaced(other)))
    }

    fn be_replaced(&self, by: Replacement) -> StoreError {
        let error = by.error();
        if self.replaced.set(by).is_ok() {
            tracing::error!(%error, "this server takes no more events, and changes nothing in the object store any more");
        }
        error
    }

    /// Puts the file of a segment, and compares the length of what is there then.
    ///
    /// # Errors
    /// [`StoreError::ObjectStore`], [`StoreError::OtherOwner`], [`StoreError::Replaced`], [`StoreError::Io`];
    /// [`StoreError::Closed`] after [`Self::stop`].
    pub(crate) fn put(&self, source: Uuid, segment: Uuid, path: &Path, bytes: u64) -> Result<()> {
        let put = || self.claim().and_then(|_| self.try_to_put(source, segment, path, bytes));
        let put = self.running.run(bytes, self.patience, put);
        match &put {
            Ok(()) => {
                add(&self.counters.puts, 1);
                add(&self.counters.put_bytes, bytes);
            }
            Err(StoreError::Closed) => return put,
            Err(_) => add(&self.counters.failed_puts, 1),
        }
        self.counters.is_failing.store(put.is_err(), Ordering::Relaxed);
        put
    }

    fn try_to_put(&self, source: Uuid, segment: Uuid, path: &Path, bytes: u64) -> Result<()> {
        let file = File::open(path).map_err(StoreError::io(format!("reading segment {}", path.display())))?;
        let client = Arc::clone(&self.client);
        self.run(async move { put_segment(&client, (source, segment), file, bytes).await })
    }

    /// All copies. Objects with other names than those of segments are left out.
    ///
    /// # Errors
    /// As of [`Self::put`].
    pub(crate) fn list(&self) -> Result<Vec<SegmentCopy>> {
        self.claim()?;
        self.list_in(self.client.folder())
    }

    fn list_in(&self, folder: ObjectPath) -> Result<Vec<SegmentCopy>> {
        let client = Arc::clone(&self.client);
        self.run(async move { list_segments(&client, &folder).await })
    }

    /// Deletes the copies of segments, given by segment and source; where both are the same, of a whole source. Whoever
    /// calls makes sure that no copy of the catalog names them.
    ///
    /// # Errors
    /// As of [`Self::put`]. Some may be deleted.
    pub(crate) fn delete_segments(&self, dropped: &[(Uuid, Uuid)]) -> Result<()> {
        self.claim()?;
        let mut objects = Vec::new();
        for (segment, source) in dropped {
            if segment != source {
                objects.push(self.client.place(*source, *segment));
                continue;
            }
            let copies = self.list_in(self.client.folder().join(source.to_string()))?;
            objects.extend(copies.iter().map(|copy| self.client.place(copy.source, copy.segment)));
        }
        let (client, count) = (Arc::clone(&self.client), objects.len());
        self.run(async move { delete_objects(&client, objects, "deleting segments").await })?;
        add(&self.counters.deleted, count as u64);
        Ok(())
    }
}
