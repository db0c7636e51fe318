//! An object store of one segment, which returns only bytes whose checksums are right.
//!
//! Everything that the engine reads of a segment passes here, including footer and page indexes, before a library
//! interprets it. Ranges are widened to whole blocks, read once where they share blocks, checked, and cut to what was
//! asked for.

use std::{
    fmt,
    fs::File,
    io,
    ops::Range,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

use crate::{
    data_folder::page_cache,
    objects::object_error::{ObjectError, first_of},
    read_memory::{NoMemory, ReadMemory, counted},
    scan::{kept_checksums, read_runs::runs},
    segment::{
        checksum::{
            file::check_root,
            table::{ChecksumTable, TableParse},
        },
        file_error::{Damage, EIO},
        handle::Segment,
    },
};

/// An object store with one file, which can only be read.
#[derive(Debug)]
pub(crate) struct VerifiedStore {
    pub(crate) inner: Arc<dyn ObjectStore>,
    /// The cache of footers, and of tables of checksums.
    pub(crate) cache: Arc<FileMetadataCache>,
    pub(crate) segment: Arc<Segment>,
    /// The file, once something was read of it; `None` if it could not be opened.
    file: OnceLock<Option<File>>,
    checksums: OnceLock<Arc<ChecksumTable>>,
    /// Why a read failed for a reason that may pass, in the words of the operating system.
    transient: OnceLock<String>,
    /// What is read counts here, if it is read for a statement.
    memory: Option<ReadMemory>,
    /// Why there was no memory for a read.
    no_memory: OnceLock<NoMemory>,
}

impl fmt::Display for VerifiedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.segment.id)
    }
}

/// Why the segment cannot be read, as an error of the store.
fn failed(why: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic { store: "segment", source: Box::new(why) }
}

impl VerifiedStore {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, cache: Arc<FileMetadataCache>, segment: Arc<Segment>) -> Self {
        VerifiedStore {
            inner,
            cache,
            segment,
            file: OnceLock::new(),
            checksums: OnceLock::new(),
            transient: OnceLock::new(),
            memory: None,
            no_memory: OnceLock::new(),
        }
    }

    /// The same, which counts what is read in the memory of a statement, from before it is read until it is dropped.
    pub(crate) fn counting_in(self, memory: Option<ReadMemory>) -> Self {
        VerifiedStore { memory, ..self }
    }

    /// Why there was no memory for a read, if that made it fail.
    pub(crate) fn no_memory(&self) -> Option<&NoMemory> {
        self.no_memory.get()
    }

    /// Why a read failed for a reason that may pass; `None` if the segment is damaged.
    pub(crate) fn transient(&self) -> Option<&str> {
        self.transient.get().map(String::as_str)
    }

    /// Records why the segment cannot be read.
    fn note(&self, error: &Error) {
        if let Some(none) = first_of::<NoMemory>(error) {
            // The segment is as it should be. Blocks have more than what is wanted of them: who has it in a folder may read
            // it with less memory.
            match first_of::<ObjectError>(error) {
                Some(_) => drop(self.transient.set("there is no memory for the blocks of its object".to_owned())),
                None => drop(self.no_memory.set(none.clone())),
            }
            return;
        }
        if let Some(wrong) = first_of::<Damage>(error) {
            self.segment.note_damage(&wrong.0);
        } else if let Some(refused) = first_of::<ObjectError>(error) {
            match refused.is_damage() {
                true => self.segment.note_damage(&refused.to_string()),
                false => drop(self.transient.set(refused.to_string())),
            }
        } else if matches!(error, Error::NotFound { .. }) {
            self.segment.note_damage("its file is missing");
        } else if let Some(io) = first_of::<io::Error>(error) {
            match io.kind() {
                io::ErrorKind::UnexpectedEof => self.segment.note_damage("its file is shorter than the catalog says"),
                _ if io.raw_os_error() == Some(EIO) => self.segment.note_damage("the disk cannot read it"),
                _ => drop(self.transient.set(io.to_string())),
            }
        } else {
            // The local file system refuses one thing by itself: a range beyond the end.
            self.segment.note_damage("its file is shorter than the catalog says");
        }
        let object = self.segment.object_name();
        tracing::error!(segment = %self.segment.id, object, %error, "a segment cannot be read");
    }

    /// The table of checksums; `None` for a segment of a version without checksums.
    async fn checksums(&self, location: &Path) -> Result<Option<Arc<ChecksumTable>>> {
        if self.segment.checksum.is_none() {
            return Ok(None);
        }
        if let Some(checksums) = self.checksums.get() {
            return Ok(Some(Arc::clone(checksums)));
        }
        let checksums = match kept_checksums::get(self.cache.as_ref(), location, &self.segment) {
            Some(checksums) => checksums,
            None => {
                let checksums = Arc::new(self.read_table(location).await?);
                kept_checksums::put(self.cache.as_ref(), location, &checksums);
                checksums
            }
        };
        Ok(Some(Arc::clone(self.checksums.get_or_init(|| checksums))))
    }

    /// Compares the root of the checksums in the file with that of the segment, and keeps them.
    ///
    /// # Errors
    /// Why it cannot be read now, as [`Self::transient`] says it, or else is damaged, as the segment says.
    pub(crate) async fn check_root(&self) -> Result<()> {
        let location = self.segment.location()?;
        // Reads of nothing read the table first.
        self.get_ranges(&location, &[]).await.map(drop)
    }

    async fn read_table(&self, location: &Path) -> Result<ChecksumTable> {
        let size = self.segment.bytes;
        let mut from = ChecksumTable::guess(size);
        loop {
            let end = self.read(location, from..size).await?;
            let found = match ChecksumTable::parse(&end, size, self.segment.id).map_err(failed)? {
                TableParse::NeedsFrom(earlier) if earlier < from => {
                    from = earlier;
                    continue;
                }
                TableParse::Complete(checksums) => Some(checksums),
                TableParse::NeedsFrom(_) | TableParse::Absent => None,
            };
            let found = check_root(found, self.segment.checksum).map_err(failed)?;
            return found.ok_or_else(|| failed(Damage("the table of its checksums is missing".to_owned())));
        }
    }

    /// Bytes that are not checked yet. They count in the memory of the statement before they are read.
    async fn unchecked(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let Some(memory) = &self.memory else { return self.uncounted(location, ranges).await };
        let hold = |range: &Range<u64>| memory.hold(range.end.saturating_sub(range.start));
        let held = ranges.iter().map(hold).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let read = self.uncounted(location, ranges).await?;
        Ok(read.into_iter().zip(held).map(|(bytes, held)| counted(bytes, held)).collect())
    }

    async fn uncounted(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some((reader, object)) = self.segment.object() {
            return reader.ranges(&object, ranges, self.memory.as_ref()).await.map_err(failed);
        }
        let file = self.file.get_or_init(|| File::open(self.segment.path()?).ok());
        match file.as_ref().and_then(|file| page_cache::read(file, ranges)) {
            Some(read) => Ok(read),
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    async fn read(&self, location: &Path, range: Range<u64>) -> Result<Bytes> {
        let read = self.unchecked(location, std::slice::from_ref(&range)).await?;
        let whole = read.into_iter().next().filter(|bytes| bytes.len() as u64 == range.end - range.start);
        whole.ok_or_else(|| failed(Damage("its file is shorter than the catalog says".to_owned())))
    }

    async fn ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let Some(checksums) = self.checksums(location).await? else {
            return self.unchecked(location, ranges).await;
        };
        let runs = runs(&checksums, ranges);
        let read = self.unchecked(location, &runs).await?;
        for (run, bytes) in runs.iter().zip(&read) {
            if bytes.len() as u64 != run.end - run.start {
                return Err(failed(Damage("its file is shorter than the catalog says".to_owned())));
            }
            checksums.check(run.start, bytes).map_err(failed)?;
        }
        ranges
            .iter()
            .map(|range| {
                let last = runs.partition_point(|run| run.start <= range.start).checked_sub(1);
                let run = last.and_then(|last| Some((runs.get(last)?, read.get(last)?)));
                run.and_then(|(run, bytes)| {
                    let at = |position: u64| usize::try_from(position - run.start).ok();
                    let (start, end) = (at(range.start)?, at(range.end)?);
                    (start <= end && end <= bytes.len()).then(|| bytes.slice(start..end))
                })
                .ok_or_else(|| failed(Damage(format!("bytes {} to {} are not in it", range.start, range.end))))
            })
            .collect()
    }
}

#[async_trait]
impl ObjectStore for VerifiedStore {
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut read = self.ranges(location, ranges).await;
        if let Err(error) = &read
            && first_of::<Damage>(error).is_some()
            && let Some((reader, object)) = self.segment.object()
        {
            // What is kept on disk may be damaged, and the object whole.
            reader.forget(object.segment);
            read = self.ranges(location, ranges).await;
        }
        if let Err(error) = &read {
            self.note(error);
        }
        read
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(GetRange::Bounded(range)) = options.range else {
            return Err(Error::NotImplemented {
                operation: "reading a segment other than by ranges".to_owned(),
                implementer: self.to_string(),
            });
        };
        let bytes = self.get_ranges(location, std::slice::from_ref(&range)).await?.into_iter().next();
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: self.segment.bytes,
            e_tag: None,
            version: None,
        };
        let payload = GetResultPayload::Stream(stream::iter(bytes.map(Ok)).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(self.read_only("writing"))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(self.read_only("writing"))
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(self.read_only("deleting"))]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(self.read_only("listing"))]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(self.read_only("listing"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(self.read_only("copying"))
    }
}

impl VerifiedStore {
    fn read_only(&self, operation: &str) -> Error {
        Error::NotImplemented { operation: operation.to_owned(), implementer: self.to_string() }
    }
}
