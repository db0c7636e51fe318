//! Reading the files of segments for the scan, with errors that name the segment.
//!
//! A query that needs a missing or damaged file must fail, and its error must say which file it was and what to do. The
//! errors of Parquet and of the object store ("Corrupt footer") do not.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    common::{DataFusionError, internal_datafusion_err},
    datasource::{
        listing::PartitionedFile,
        physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory},
    },
    error::Result,
    execution::cache::cache_manager::FileMetadataCache,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use futures::{FutureExt, future::BoxFuture};
use object_store::ObjectStore;
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::{PageIndexPolicy, ParquetMetaData},
};
use tidegate_model::{Code, Failure};

use crate::{read_memory::ReadMemory, scan::verified_store::VerifiedStore, segment::handle::Segment};

/// Makes readers over the session's object store and footer cache.
#[derive(Debug)]
pub(crate) struct SegmentReaders {
    pub(crate) files: Arc<dyn ObjectStore>,
    pub(crate) footers: Arc<FileMetadataCache>,
    pub(crate) source: Arc<str>,
}

/// The segment of a file in the scan. It is attached to the file, so that the file is kept as long as a plan may read
/// it.
#[derive(Debug, Clone)]
pub(crate) struct SegmentOfFile(pub(crate) Arc<Segment>);

impl ParquetFileReaderFactory for SegmentReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let Some(SegmentOfFile(segment)) = file.extension::<SegmentOfFile>() else {
            return Err(internal_datafusion_err!("a file of the scan is no segment"));
        };
        let (files, footers) = (Arc::clone(&self.files), Arc::clone(&self.footers));
        let store = VerifiedStore::new(files, Arc::clone(&footers), Arc::clone(segment));
        let store = Arc::new(store.counting_in(file.extension::<ReadMemory>().cloned()));
        let checked = CachedParquetFileReaderFactory::new(Arc::clone(&store) as Arc<dyn ObjectStore>, footers);
        let inner = checked.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(SegmentReader { inner, store, source: Arc::clone(&self.source) }))
    }
}

/// Reads one file. `store` holds the segment: ranges are opened one by one, and the file must exist until the last.
struct SegmentReader {
    inner: Box<dyn AsyncFileReader + Send>,
    store: Arc<VerifiedStore>,
    source: Arc<str>,
}

/// What to do about the damaged copy of a segment.
pub(crate) const COPY_ADVICE: &str = "whoever runs the server finds all damaged copies with `tidegate verify --copies`; a copy that \
    is deleted is put again within an hour";

/// The failure of a statement that needs a segment which cannot be read.
fn named(store: &VerifiedStore, source: &str, error: &ParquetError) -> ParquetError {
    if let Some(no_memory) = store.no_memory() {
        return ParquetError::External(Box::new(DataFusionError::ResourcesExhausted(no_memory.0.clone())));
    }
    let segment = &store.segment;
    let name = segment.object_name();
    let copy = name.as_ref().map_or(String::new(), |name| format!(" from its copy {name}"));
    let what = format!("segment {} of source `{source}` cannot be read{copy}", segment.id);
    if let Some(refused) = store.transient() {
        let message = format!("{what} now: {refused}; try again later");
        return ParquetError::External(Box::new(Failure::new(Code::DataUnavailable, message)));
    }
    if segment.damage().is_none() {
        // All checksums are right, but the content cannot be parsed.
        tracing::error!(segment = %segment.id, %error, "a segment cannot be read");
        segment.note_damage("its contents are not those of a segment");
    }
    let reason = segment.damage().unwrap_or_default();
    let advice = match name {
        None => {
            "whoever runs the server finds all damage with `tidegate verify`, and `tidegate repair` sets damaged segments aside, so \
             that the rest can be read"
        }
        Some(_) => COPY_ADVICE,
    };
    let message = format!("{what}: {reason}; {advice}");
    ParquetError::External(Box::new(Failure::new(Code::DataDamaged, message).about(&*segment.id.to_string())))
}

impl AsyncFileReader for SegmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let read = self.inner.get_bytes(range);
        let (store, source) = (&self.store, &self.source);
        async move { read.await.map_err(|error| named(store, source, &error)) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let read = self.inner.get_byte_ranges(ranges);
        let (store, source) = (&self.store, &self.source);
        async move { read.await.map_err(|error| named(store, source, &error)) }.boxed()
    }

    /// With the index of pages, whether it was asked for or not: a scan with a limit then reads the pages of these rows
    /// instead of whole row groups.
    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
            let (store, source) = (&self.store, &self.source);
            let footer = self.inner.get_metadata(Some(&options)).await;
            let footer = footer.and_then(|footer| {
                let is_whole = usize::try_from(footer.file_metadata().num_rows()) == Ok(store.segment.rows);
                is_whole.then_some(footer).ok_or_else(|| ParquetError::General("it has other rows".to_owned()))
            });
            footer.map_err(|error| named(store, source, &error))
        }
        .boxed()
    }
}
