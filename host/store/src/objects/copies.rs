//! Copies of segments in an object store, for readers that have no access to the data folder.
//!
//! A segment is put into the store before the catalog names it, so that whoever is told its name finds it. It is deleted
//! there after its file is gone: then no query reads it any more. The object `owner.json` says which catalog the copies belong
//! to: a store of another catalog would take them for its own leftovers and delete them.
//!
//! Calls block. They are made by the threads of the background, and end early when the store is closed.

use std::{
    fmt,
    fs::File,
    future::Future,
    io::Read,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStoreExt, PutMode, PutOptions, WriteMultipart, path::Path as ObjectPath};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    objects::{
        client::{ObjectClient, RequestLimits},
        counters::add,
        io_runtime::IoRuntime,
        object_error::ObjectError,
        url::StoreUrl,
    },
};

/// A file of more bytes is put in parts of so many.
const PART_BYTES: usize = 8 << 20;

/// Parts that are on their way at a time.
const PARTS_AT_ONCE: usize = 3;

/// Objects that are deleted at a time.
const DELETED_AT_ONCE: usize = 8;

/// The time of one try to put a part.
const PUT_TIME: Duration = Duration::from_secs(60);

/// Which catalog the copies belong to.
const OWNER: &str = "owner.json";

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    catalog: String,
}

/// A copy of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentCopy {
    pub(crate) source: Uuid,
    pub(crate) segment: Uuid,
    pub(crate) bytes: u64,
    pub(crate) written: DateTime<Utc>,
}

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
}

/// The copies of the segments of a store.
pub(crate) struct ObjectCopies {
    client: Arc<ObjectClient>,
    runtime: IoRuntime,
    catalog: Uuid,
    is_claimed: AtomicBool,
    stop: watch::Sender<bool>,
    pub(crate) counters: CopyCounters,
}

impl fmt::Debug for ObjectCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCopies").field("client", &self.client).finish_non_exhaustive()
    }
}

fn refused(what: &str, error: &object_store::Error) -> StoreError {
    tracing::warn!(what, %error, "the object store refuses");
    StoreError::ObjectStore { reason: format!("{what}: {}", ObjectError::of(error)) }
}

impl ObjectCopies {
    /// The copies at an address for the catalog with this identity. Asks the store who has it; if it does not answer, that
    /// is asked again before anything is put.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`], [`StoreError::BadUrl`] if it is the data folder itself, and those of [`ObjectClient::open`].
    pub(crate) fn open(
        url: &str,
        data: &Path,
        catalog: Uuid,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
    ) -> Result<ObjectCopies> {
        let parsed = StoreUrl::parse(url)?;
        if let StoreUrl::Folder(folder) = &parsed
            && folder.canonicalize().is_ok_and(|folder| folder.starts_with(data) || data.starts_with(folder))
        {
            let reason = "the data folder cannot have the copies of its own segments";
            return Err(StoreError::BadUrl { url: url.to_owned(), reason });
        }
        let runtime = IoRuntime::start().map_err(StoreError::io("starting the thread of the object store"))?;
        let limits = RequestLimits { try_time: limits.try_time.max(PUT_TIME), ..limits };
        let client = Arc::new(ObjectClient::open(&parsed, settings, limits, &runtime)?);
        let copies = ObjectCopies {
            client,
            runtime,
            catalog,
            is_claimed: AtomicBool::new(false),
            stop: watch::Sender::new(false),
            counters: CopyCounters::default(),
        };
        match copies.claim() {
            Err(StoreError::ObjectStore { reason }) => {
                tracing::error!(reason, "the object store does not answer; segments wait until it does");
                copies.counters.is_failing.store(true, Ordering::Relaxed);
            }
            claimed => claimed?,
        }
        Ok(copies)
    }

    /// Ends what runs and what comes.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Runs a request on the thread of the store, and waits for it.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
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

    /// Makes sure that the copies are those of this catalog.
    fn claim(&self) -> Result<()> {
        if self.is_claimed.load(Ordering::Acquire) {
            return Ok(());
        }
        let (client, catalog) = (Arc::clone(&self.client), self.catalog.to_string());
        self.run(async move {
            let object = client.prefix.clone().join(OWNER);
            let what = "asking whose segments are there";
            let mut may_put = true;
            loop {
                match client.store.get(&object).await {
                    Ok(found) => {
                        let said = found.bytes().await.map_err(|error| refused(what, &error))?;
                        let other =
                            serde_json::from_slice(&said).map_or("unreadable".to_owned(), |owner: Owner| owner.catalog);
                        return match other == catalog {
                            true => Ok(()),
                            false => Err(StoreError::OtherOwner { other, object: object.to_string() }),
                        };
                    }
                    Err(object_store::Error::NotFound { .. }) if may_put => may_put = false,
                    Err(error) => return Err(refused(what, &error)),
                }
                let owner = serde_json::to_vec(&Owner { catalog: catalog.clone() })
                    .map_err(|error| StoreError::corrupt("the owner of copies", error))?;
                // Only one of two that begin at the same time gets it; what is there is read again.
                match client.store.put_opts(&object, owner.into(), PutOptions::from(PutMode::Create)).await {
                    Ok(_)
                    | Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
                    Err(error) => return Err(refused("saying whose segments are there", &error)),
                }
            }
        })?;
        self.is_claimed.store(true, Ordering::Release);
        Ok(())
    }

    /// Puts the file of a segment, and compares the length of what is there then.
    ///
    /// # Errors
    /// [`StoreError::ObjectStore`], [`StoreError::OtherOwner`], [`StoreError::Io`]; [`StoreError::Closed`] after [`Self::stop`].
    pub(crate) fn put(&self, source: Uuid, segment: Uuid, path: &Path, bytes: u64) -> Result<()> {
        let put = self.claim().and_then(|()| self.try_to_put(source, segment, path, bytes));
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
        let reading = format!("reading segment {}", path.display());
        let file = File::open(path).map_err(StoreError::io(reading.clone()))?;
        let client = Arc::clone(&self.client);
        self.run(async move {
            let object = client.place(source, segment);
            let what = format!("putting segment {segment}");
            let failed = |error: object_store::Error| refused(&what, &error);
            let reading = || StoreError::io(reading.clone());
            let mut parts = Parts { file };
            match parts.next().map_err(reading())? {
                Some(first) if (first.len() as u64) < bytes => {
                    let upload = client.store.put_multipart(&object).await.map_err(failed)?;
                    let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
                    let mut next = Some(first);
                    let written = loop {
                        let Some(part) = next else { break Ok(()) };
                        upload.put(part);
                        if let Err(error) = upload.wait_for_capacity(PARTS_AT_ONCE).await {
                            break Err(failed(error));
                        }
                        match parts.next().map_err(reading()) {
                            Ok(part) => next = part,
                            Err(error) => break Err(error),
                        }
                    };
                    match written {
                        Ok(()) => drop(upload.finish().await.map_err(failed)?),
                        Err(error) => {
                            // Otherwise the parts stay until the store deletes them by a rule of its own.
                            let _ = upload.abort().await;
                            return Err(error);
                        }
                    }
                }
                first => drop(client.store.put(&object, first.unwrap_or_default().into()).await.map_err(failed)?),
            }
            let found = client.store.head(&object).await.map_err(failed)?.size;
            if found != bytes {
                let _ = client.store.delete(&object).await;
                let reason = format!("segment {segment} has {found} bytes there, and should have {bytes}");
                return Err(StoreError::ObjectStore { reason });
            }
            Ok(())
        })
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
        self.run(async move {
            let all = client.folder();
            let listed = client.store.list(Some(&folder)).try_filter_map(|object| {
                let copy = named(&all, &object.location).map(|(source, segment)| SegmentCopy {
                    source,
                    segment,
                    bytes: object.size,
                    written: object.last_modified,
                });
                futures::future::ready(Ok(copy))
            });
            listed.try_collect().await.map_err(|error| refused("listing segments", &error))
        })
    }

    /// Deletes the copies of segments, given by segment and source; where both are the same, of a whole source.
    ///
    /// # Errors
    /// As of [`Self::put`]. Some may be deleted.
    pub(crate) fn delete(&self, dropped: &[(Uuid, Uuid)]) -> Result<()> {
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
        self.run(async move {
            let delete = async |object: ObjectPath| match client.store.delete(&object).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(refused("deleting segments", &error)),
            };
            stream::iter(objects).map(delete).buffer_unordered(DELETED_AT_ONCE).try_collect::<()>().await
        })?;
        add(&self.counters.deleted, count as u64);
        Ok(())
    }
}

/// A file in parts.
struct Parts {
    file: File,
}

impl Parts {
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let mut part = Vec::new();
        Read::by_ref(&mut self.file).take(PART_BYTES as u64).read_to_end(&mut part)?;
        Ok((!part.is_empty()).then(|| part.into()))
    }
}

/// The source and the segment of an object that has a name as [`ObjectClient::place`] gives it.
fn named(folder: &ObjectPath, object: &ObjectPath) -> Option<(Uuid, Uuid)> {
    let parts: Vec<_> = object.prefix_match(folder)?.collect();
    let [source, file] = parts.as_slice() else { return None };
    let (source, segment) = (source.as_ref(), file.as_ref().strip_suffix(".parquet")?);
    let ids = (Uuid::parse_str(source).ok()?, Uuid::parse_str(segment).ok()?);
    (ids.0.to_string() == source && ids.1.to_string() == segment).then_some(ids)
}
