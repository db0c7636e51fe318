//! Segments that are read without a catalog: by a process that does not own the data folder, from a folder or from an
//! object store.
//!
//! Whoever plans a scan has the catalog. Whoever runs it needs of each segment only its place, its length and the root of
//! its checksums, which come with the plan as a [`SegmentName`]. The file must be the one that was named: its length and
//! root are compared before anything is read of it, and every byte afterwards is checked against the table with that
//! root. So a file that was replaced, cut or damaged is an error and never another answer.

mod known_segments;
mod segment_error;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use datafusion::execution::{
    memory_pool::MemoryPool,
    runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;

use known_segments::KnownSegments;
pub use segment_error::SegmentError;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    objects::{
        block_reader::{BLOCK_BYTES, BlockReader},
        client::{RequestLimits, environment},
        counters::ObjectStats,
        url::StoreUrl,
    },
    read_memory::ReadMemory,
    scan::{
        description::SegmentName, held_segments::HeldSegments, segment_reader::COPY_ADVICE,
        verified_store::VerifiedStore,
    },
    segment::{
        checksum::file::{check_root, read_table},
        file_error::{Damage, SegmentFileError},
        handle::{Segment, SegmentPlace},
    },
};

/// Segments whose checksums are asked for at a time.
const OPENED_AT_ONCE: usize = 8;

/// Whether a text is an address that [`SegmentFiles::open`] understands. Nothing is looked up.
pub fn is_store_url(url: &str) -> bool {
    StoreUrl::parse(url).is_ok()
}

/// Where segments are read without a catalog. Nothing is written there, and no lock is taken: the process that owns the
/// segments keeps those that somebody was told to read.
#[derive(Debug)]
pub struct SegmentFiles {
    place: Place,
    known: Mutex<KnownSegments>,
}

/// A cache of segments on the disk of this machine. Its folder belongs to one process and may be deleted at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentCache {
    /// The folder. It is created if it is missing.
    pub folder: PathBuf,
    /// The most bytes that it takes on disk.
    pub bytes: u64,
}

#[derive(Debug)]
enum Place {
    /// A data folder.
    Folder(PathBuf),
    Objects(Objects),
}

#[derive(Debug)]
struct Objects {
    reader: Arc<BlockReader>,
    /// What checks a segment before anybody reads it; it keeps next to nothing.
    runtime: RuntimeEnv,
}

impl SegmentFiles {
    /// The segments of a data folder.
    ///
    /// # Errors
    /// [`StoreError::Io`] if there is no such folder.
    pub fn folder(data: &Path) -> Result<SegmentFiles> {
        let what = || format!("opening the data folder {}", data.display());
        let data = data.canonicalize().map_err(StoreError::io(what()))?;
        Ok(SegmentFiles { place: Place::Folder(data), known: Mutex::default() })
    }

    /// The segments at an address: `file:///FOLDER`, which is a data folder, or `s3://BUCKET/PREFIX`, of which blocks are
    /// kept in `cache`. For the second, the environment says what AWS documents for it (`AWS_ACCESS_KEY_ID`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL`, ...), and `AWS_ALLOW_HTTP=true` allows an endpoint without TLS.
    ///
    /// At most 16 requests run at a time, each for at most 4 MiB. What has not come after `time`, tried again meanwhile,
    /// fails. For half of that time other requests fail at once then, but for one at a time.
    ///
    /// # Errors
    /// [`StoreError::BadUrl`], [`StoreError::ObjectStore`] if the environment contradicts itself, [`StoreError::Io`], and
    /// [`StoreError::Locked`] if another process uses the cache. The store itself is not asked for anything yet.
    pub fn open(url: &str, cache: &SegmentCache, time: Duration) -> Result<SegmentFiles> {
        SegmentFiles::open_with(url, cache, environment(), RequestLimits::within(time), BLOCK_BYTES)
    }

    pub(crate) fn open_with(
        url: &str,
        cache: &SegmentCache,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
        block_bytes: u64,
    ) -> Result<SegmentFiles> {
        let url = StoreUrl::parse(url)?;
        if let StoreUrl::Folder(folder) = &url {
            return SegmentFiles::folder(folder);
        }
        let reader = BlockReader::open(&url, settings, limits, (&cache.folder, cache.bytes, block_bytes))?;
        let runtime = RuntimeEnvBuilder::new().with_metadata_cache_limit(1 << 20).build();
        let runtime = runtime.map_err(|error| StoreError::ObjectStore { reason: error.to_string() })?;
        let place = Place::Objects(Objects { reader: Arc::new(reader), runtime });
        Ok(SegmentFiles { place, known: Mutex::default() })
    }

    /// Whether segments are objects of a store, and not files of a folder.
    pub fn reads_objects(&self) -> bool {
        matches!(self.place, Place::Objects(_))
    }

    /// What reading from an object store took; all zero for a folder.
    pub fn stats(&self) -> ObjectStats {
        match &self.place {
            Place::Folder(_) => ObjectStats::default(),
            Place::Objects(objects) => objects.reader.stats(),
        }
    }

    /// Forgets all that is known and on disk.
    #[cfg(test)]
    pub(crate) fn forget_all(&self) {
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        if let Place::Objects(objects) = &self.place {
            known.by_id.keys().for_each(|segment| objects.reader.forget(*segment));
        }
    }

    /// Segments by their names. Of each file, length and root of checksums are compared with the name; they stay known,
    /// and later only the length is looked at.
    ///
    /// # Errors
    /// For the first segment that cannot be read or is another one.
    pub async fn hold(&self, names: impl IntoIterator<Item = SegmentName>) -> Result<HeldSegments, SegmentError> {
        self.hold_counted(names, None).await
    }

    /// The same for a statement: what is read meanwhile counts in its memory.
    ///
    /// # Errors
    /// As [`Self::hold`], and [`SegmentError::NoMemory`].
    pub async fn hold_within(
        &self,
        names: impl IntoIterator<Item = SegmentName>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<HeldSegments, SegmentError> {
        self.hold_counted(names, Some(&ReadMemory::of(memory))).await
    }

    async fn hold_counted(
        &self,
        names: impl IntoIterator<Item = SegmentName>,
        memory: Option<&ReadMemory>,
    ) -> Result<HeldSegments, SegmentError> {
        let named: Vec<_> = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            names.into_iter().map(|name| (known.get(&name), name)).collect()
        };
        let Some(first) = named.first().map(|(_, name)| name.id) else { return Ok(HeldSegments::default()) };
        let opened = match &self.place {
            Place::Folder(data) => {
                let data = data.clone();
                let open = move || named.into_iter().map(|(known, name)| opened(&data, &name, known)).collect();
                let opened: Result<Vec<_>, _> = tokio::task::spawn_blocking(open)
                    .await
                    .map_err(|error| SegmentError::Unavailable { segment: first, reason: error.to_string() })?;
                opened?
            }
            Place::Objects(objects) => {
                let open = async |(known, name): (Option<Arc<Segment>>, SegmentName)| match known {
                    Some(known) => Ok(known),
                    None => objects.opened(&name, memory).await,
                };
                stream::iter(named).map(open).buffered(OPENED_AT_ONCE).try_collect().await?
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        opened.iter().for_each(|segment| known.insert(segment));
        Ok(HeldSegments::new(opened))
    }
}

impl Objects {
    /// The segment with this name, after the root of its checksums was compared. Length and root come with one request.
    async fn opened(&self, name: &SegmentName, memory: Option<&ReadMemory>) -> Result<Arc<Segment>, SegmentError> {
        let SegmentName { source, id, bytes, rows, checksum } = *name;
        let damaged = |reason: &str| {
            let copy = format!("segments/{source}/{}", paths::segment_file(id));
            SegmentError::Damaged { segment: id, reason: format!("its copy {copy}: {reason}; {COPY_ADVICE}") }
        };
        if checksum.is_none() {
            return Err(damaged("it has no checksums, without which an object is not read"));
        }
        let rows = usize::try_from(rows).map_err(|_| damaged("it has too many rows"))?;
        let place = SegmentPlace::Object(Arc::clone(&self.reader));
        let segment = Arc::new(Segment::of_file((source, id), place, bytes, rows, checksum));
        let cache = self.runtime.cache_manager.get_file_metadata_cache();
        let read = VerifiedStore::new(Arc::new(LocalFileSystem::new()), cache, Arc::clone(&segment));
        let read = read.counting_in(memory.cloned());
        match read.check_root().await {
            Ok(()) => Ok(segment),
            Err(_) => Err(match (segment.damage(), read.no_memory(), read.transient()) {
                (Some(reason), ..) => damaged(reason),
                (None, Some(none), _) => SegmentError::NoMemory { segment: id, reason: none.0.clone() },
                (None, None, reason) => {
                    let reason = reason.unwrap_or("the object store fails").to_owned();
                    SegmentError::Unavailable { segment: id, reason }
                }
            }),
        }
    }
}

/// The segment with this name, after its file was looked at. `known` is the same, if its checksums were compared before.
fn opened(data: &Path, name: &SegmentName, known: Option<Arc<Segment>>) -> Result<Arc<Segment>, SegmentError> {
    let SegmentName { source, id, bytes, rows, checksum } = *name;
    let path = paths::source_folder(data, source).join(paths::segment_file(id));
    let look = || -> Result<Arc<Segment>, SegmentFileError> {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        if length != bytes {
            return Err(Damage::new(format!("its file has {length} bytes, and {bytes} were named")).into());
        }
        if let Some(known) = known {
            return Ok(known);
        }
        check_root(read_table(&mut file, id)?, checksum)?;
        let rows = usize::try_from(rows).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(Arc::new(Segment::of_file((source, id), SegmentPlace::File(path.clone()), bytes, rows, checksum)))
    };
    look().map_err(|error| {
        tracing::error!(segment = %id, path = %path.display(), %error, "a segment cannot be read");
        SegmentError::of(id, &error)
    })
}
