//! Reading segment files for the scan, with errors that name the segment.
//!
//! A missing or damaged file must fail the query and say which file it was; what Parquet and the
//! object store say by themselves ("Corrupt footer") does not.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    datasource::{
        listing::PartitionedFile,
        physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory},
    },
    error::Result,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use futures::{FutureExt, future::BoxFuture};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::ParquetError,
    file::metadata::ParquetMetaData,
};

use crate::segment::Segment;

/// Readers over the session's object store and footer cache.
#[derive(Debug)]
pub(crate) struct SegmentReaders {
    pub(crate) inner: CachedParquetFileReaderFactory,
    pub(crate) source: Arc<str>,
}

/// Which segment a file of the scan is; attached to each, so that the file stays while a plan may
/// read it.
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
        let segment = file.extension::<SegmentOfFile>().map(|SegmentOfFile(segment)| Arc::clone(segment));
        let name = segment.as_ref().map_or_else(|| file.path().to_string(), |segment| segment.id.to_string());
        let label = format!("segment {name} of source `{}` cannot be read", self.source);
        let inner = self.inner.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(SegmentReader { inner, label, _segment: segment }))
    }
}

struct SegmentReader {
    inner: Box<dyn AsyncFileReader + Send>,
    label: String,
    /// Ranges are opened one by one: the file must stay until the last.
    _segment: Option<Arc<Segment>>,
}

fn named(label: &str, error: &ParquetError) -> ParquetError {
    ParquetError::General(format!("{label}: {error}"))
}

impl AsyncFileReader for SegmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let read = self.inner.get_bytes(range);
        let label = &self.label;
        async move { read.await.map_err(|error| named(label, &error)) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let read = self.inner.get_byte_ranges(ranges);
        let label = &self.label;
        async move { read.await.map_err(|error| named(label, &error)) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let read = self.inner.get_metadata(options);
        let label = &self.label;
        async move { read.await.map_err(|error| named(label, &error)) }.boxed()
    }
}
