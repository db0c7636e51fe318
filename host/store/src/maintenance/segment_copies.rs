//! Segments that are fetched from their copies in an object store into a data folder.

use std::{
    fs::{self, File},
    future::Future,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::path::Path as ObjectPath;
use rusqlite::{Connection, OptionalExtension};

use crate::{
    data_folder::{
        paths,
        sync::{create_folder, sync_folder},
    },
    error::{Result, StoreError},
    maintenance::listed_segment::ListedSegment,
    objects::{
        client::{ObjectClient, RequestLimits},
        io_runtime::IoRuntime,
        object_error::ObjectError,
        ownership::{owner, owner_object},
        url::StoreUrl,
    },
    segment::footer,
};

/// Segments that are fetched at a time.
const FETCHED_AT_ONCE: usize = 8;

/// Bytes of an object that are asked for at once. So much of each segment that is being fetched is in memory.
const PART_BYTES: u64 = 4 << 20;

/// How often a segment is fetched whose checksums are wrong.
const ATTEMPTS: usize = 2;

/// How often progress is told.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// The copies at an address, for maintenance. Calls block; nothing is changed there unless it is said so.
pub(crate) struct SegmentCopies {
    pub(crate) client: Arc<ObjectClient>,
    runtime: IoRuntime,
}

impl SegmentCopies {
    /// # Errors
    /// [`StoreError::BadUrl`], also if it is the data folder itself, and those of [`ObjectClient::open`].
    pub(crate) fn open(
        url: &str,
        data: &Path,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
    ) -> Result<SegmentCopies> {
        let parsed = StoreUrl::parse(url)?;
        parsed.check_apart(url, data)?;
        let runtime = IoRuntime::start().map_err(StoreError::io("starting the thread of the object store"))?;
        let client = Arc::new(ObjectClient::open(&parsed, settings, limits, &runtime)?);
        Ok(SegmentCopies { client, runtime })
    }

    /// Makes sure that the copies are those of a catalog.
    ///
    /// # Errors
    /// [`StoreError::OtherOwner`]; [`StoreError::ObjectStore`], also if nobody has copies there.
    pub(crate) fn check_owner(&self, conn: &Connection) -> Result<()> {
        let sql = "SELECT value FROM meta WHERE key = 'catalog_id'";
        let catalog: Option<String> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
        let other = match self.run(|client| async move { owner(&client).await })? {
            Some(Ok(owner)) if Some(owner.to_string()) == catalog => return Ok(()),
            Some(Ok(other)) => other.to_string(),
            Some(Err(other)) => other,
            None => return Err(StoreError::ObjectStore { reason: "there are no copies at this address".to_owned() }),
        };
        Err(StoreError::OtherOwner { other, object: owner_object(&self.client).to_string() })
    }

    /// Runs requests on the thread of the store, and waits for them.
    pub(crate) fn run<T, F>(&self, work: impl FnOnce(Arc<ObjectClient>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (to, from) = mpsc::sync_channel(1);
        let work = work(Arc::clone(&self.client));
        self.runtime.handle().spawn(async move {
            // Whoever called waits.
            let _ = to.send(work.await);
        });
        from.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Fetches segments to where a data folder has them, several at a time. One that is there is left as it is. Returns
    /// those that cannot be had, with the reason: their objects are missing or damaged. A call that is cut off can be repeated.
    ///
    /// # Errors
    /// [`StoreError::ObjectStore`] if the store does not answer; [`StoreError::Io`].
    pub(crate) fn fetch(&self, data: &Path, segments: Vec<ListedSegment>) -> Result<Vec<(ListedSegment, String)>> {
        let mut folders: Vec<PathBuf> =
            segments.iter().map(|segment| paths::source_folder(data, segment.source)).collect();
        folders.sort();
        folders.dedup();
        create_folder(&paths::segments_folder(data))?;
        folders.iter().try_for_each(|folder| create_folder(folder))?;
        let (all, owned) = (segments.len(), data.to_owned());
        let lost = self.run(move |client| async move {
            let fetch = |segment: ListedSegment| {
                let (client, data) = (Arc::clone(&client), owned.clone());
                async move { fetch_one(&client, &data, &segment).await.map(|lost| (segment, lost)) }
            };
            let mut fetched = stream::iter(segments).map(fetch).buffer_unordered(FETCHED_AT_ONCE);
            let (mut lost, mut done, mut told) = (Vec::new(), 0, Instant::now());
            while let Some(next) = fetched.next().await {
                let (segment, reason) = next?;
                lost.extend(reason.map(|reason| (segment, reason)));
                done += 1;
                if told.elapsed() >= TELL_INTERVAL {
                    tracing::info!(segments = done, of = all, "fetching segments from the object store");
                    told = Instant::now();
                }
            }
            Ok(lost)
        })?;
        folders.iter().try_for_each(|folder| sync_folder(folder))?;
        Ok(lost)
    }
}

impl SegmentCopies {
    /// Fetches a segment in the place of its damaged or missing file. Returns why that cannot be; then nothing is changed.
    ///
    /// # Errors
    /// As of [`Self::fetch`].
    pub(crate) fn replace(&self, data: &Path, segment: &ListedSegment) -> Result<Option<String>> {
        let folder = paths::source_folder(data, segment.source);
        create_folder(&folder)?;
        let (data, segment) = (data.to_owned(), segment.clone());
        let lost = self.run(move |client| async move { replace_one(&client, &data, &segment).await })?;
        sync_folder(&folder)?;
        Ok(lost)
    }

    /// Fetches segments of which only the length is known, and checks nothing else. One that cannot be had is left out, which
    /// the log says.
    ///
    /// # Errors
    /// As of [`Self::fetch`].
    pub(crate) fn fetch_unchecked(&self, data: &Path, segments: Vec<ListedSegment>) -> Result<()> {
        for segment in segments {
            let path = segment.path(data);
            if fs::metadata(&path).is_ok_and(|file| file.len() == segment.bytes) {
                continue;
            }
            create_folder(&paths::source_folder(data, segment.source))?;
            let part = path.with_extension("tmp");
            let (of, to) = (segment.clone(), part.clone());
            match self.run(move |client| async move { download(&client, &of, &to).await })? {
                Ok(()) => fs::rename(&part, &path).map_err(StoreError::io(format!("naming {}", path.display())))?,
                Err(reason) => tracing::warn!(segment = %segment.id, reason, "an object cannot be fetched"),
            }
            sync_folder(&paths::source_folder(data, segment.source))?;
        }
        Ok(())
    }
}

/// Fetches a segment unless it is there; returns why that cannot be.
async fn fetch_one(client: &ObjectClient, data: &Path, segment: &ListedSegment) -> Result<Option<String>> {
    match look(&segment.path(data), segment, Extent::Ends).await? {
        Ok(()) => Ok(None),
        Err(_) => replace_one(client, data, segment).await,
    }
}

/// Fetches a segment, in the place of what is there; returns why that cannot be. Then nothing is changed.
async fn replace_one(client: &ObjectClient, data: &Path, segment: &ListedSegment) -> Result<Option<String>> {
    let path = segment.path(data);
    let part = path.with_extension("tmp");
    let mut reason = String::new();
    for _ in 0..ATTEMPTS {
        if let Err(lost) = download(client, segment, &part).await? {
            reason = lost;
            break;
        }
        match look(&part, segment, Extent::Whole).await? {
            Ok(()) => {
                let renamed = fs::rename(&part, &path);
                renamed.map_err(StoreError::io(format!("naming {}", path.display())))?;
                return Ok(None);
            }
            Err(wrong) => reason = format!("its object is damaged: {wrong}"),
        }
    }
    let _ = fs::remove_file(&part);
    Ok(Some(reason))
}

/// How much of a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Its footer and the table of its checksums, as is enough for a file that was complete before it got its name.
    Ends,
    Whole,
}

/// Compares a file with what the catalog says of a segment. The inner error says what is wrong.
async fn look(path: &Path, segment: &ListedSegment, extent: Extent) -> Result<Result<(), String>> {
    let (path, id, root) = (path.to_owned(), segment.id, segment.checksum);
    let (bytes, rows) = (segment.bytes, segment.rows);
    let read = move || match extent {
        Extent::Ends => footer::read(&path, id, root),
        Extent::Whole => footer::check(&path, id, root),
    };
    Ok(match blocking(read).await? {
        Ok(footer) if footer.size != bytes => Err(format!("it has {} bytes, the catalog says {bytes}", footer.size)),
        Ok(footer) if footer.rows != rows => Err(format!("it has {} rows, the catalog says {rows}", footer.rows)),
        Ok(_) => Ok(()),
        Err(refused) if refused.is_damage() => Err(refused.reason()),
        Err(refused) => {
            let what = format!("reading segment {id}");
            return Err(StoreError::io(what)(std::io::Error::other(refused.to_string())));
        }
    })
}

/// Writes an object to a file, durably. The inner error says why the object cannot be had.
async fn download(client: &ObjectClient, segment: &ListedSegment, to: &Path) -> Result<Result<(), String>> {
    let writing = format!("writing {}", to.display());
    let object: ObjectPath = client.place(segment.source, segment.id);
    let path = to.to_owned();
    let mut file = blocking(move || File::create(path)).await?.map_err(StoreError::io(writing.clone()))?;
    let mut position = 0;
    while position < segment.bytes {
        let end = (position + PART_BYTES).min(segment.bytes);
        let part: Bytes = match client.read(&object, segment.bytes, position..end).await {
            Ok(part) => part,
            Err(error @ ObjectError::Refused(_)) => {
                return Err(StoreError::ObjectStore { reason: format!("reading segment {}: {error}", segment.id) });
            }
            Err(error) => return Ok(Err(error.to_string())),
        };
        let write = move || file.write_all(&part).map(|()| file);
        file = blocking(write).await?.map_err(StoreError::io(writing.clone()))?;
        position = end;
    }
    blocking(move || file.sync_all()).await?.map_err(StoreError::io(writing))?;
    Ok(Ok(()))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::corrupt("work on a file", error))
}
