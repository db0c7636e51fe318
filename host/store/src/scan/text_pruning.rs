//! Leaving out what cannot have a text that a condition demands, by the index of trigrams of each segment.
//!
//! The index is read when the scan opens a segment, not while the query is planned: a query that stops early asks for
//! few segments, and the streams of a scan read their indexes in parallel. What is left out is no part of the answer,
//! because the scan's own filter looks at all rows that are left.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    common::{internal_datafusion_err, tree_node::TreeNodeRecursion},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileScanConfig, FileSource, ParquetFileReaderFactory, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
        table_schema::TableSchema,
    },
    error::Result,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs},
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder},
};
use datafusion_datasource::{
    file_stream::FileOpener,
    morsel::{MorselPlan, MorselPlanner, Morselizer},
};
use object_store::ObjectStore;
use parquet::{
    arrow::{
        arrow_reader::{RowSelection, RowSelector},
        async_reader::AsyncFileReader,
    },
    file::metadata::ParquetMetaData,
};
use tidegate_model::TextCondition;

use crate::{
    scan::segment_reader::SegmentOfFile,
    segment::{
        file_error::Damage,
        trigram::{
            GRANULE_ROWS,
            directory::{INDEX_KEY, IndexPlace, Layout, VERSION, chunk_range},
            search::{self, Search},
        },
    },
};

/// A scan of files whose conditions on texts are looked up in the indexes. It lives from the opening of a stream to its
/// end: the optimizer never sees it.
#[derive(Clone)]
pub(crate) struct TextPruning {
    inner: Arc<dyn FileSource>,
}

impl TextPruning {
    /// The same scan with the indexes, if a condition demands a text.
    pub(crate) fn of(files: &FileScanConfig) -> Option<FileScanConfig> {
        let of_file = |file: &PartitionedFile| file.extension::<SegmentOfFile>().is_some_and(|of| of.texts.is_some());
        let is_demanded = files.file_groups.iter().any(|group| group.files().iter().any(of_file));
        is_demanded.then(|| {
            let mut scan = files.clone();
            scan.file_source = Arc::new(TextPruning { inner: Arc::clone(&files.file_source) });
            scan
        })
    }
}

impl FileSource for TextPruning {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let readers = self.inner.downcast_ref::<ParquetSource>().and_then(ParquetSource::parquet_file_reader_factory);
        let readers = readers.ok_or_else(|| internal_datafusion_err!("a scan of segments has no readers"))?;
        let metrics = self.inner.metrics().clone();
        let skipped = MetricBuilder::new(&metrics).counter("granules_without_text", partition);
        let read = MetricBuilder::new(&metrics).counter("granules_with_text", partition);
        let inner = self.inner.create_morselizer(object_store, base_config, partition)?.into();
        let readers = Arc::clone(readers);
        Ok(Box::new(PruningMorselizer { inner, index: IndexReader { readers, partition, metrics, skipped, read } }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(TextPruning { inner: self.inner.with_batch_size(batch_size) })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

/// Makes the planners of files.
#[derive(Debug)]
struct PruningMorselizer {
    inner: Arc<dyn Morselizer>,
    index: IndexReader,
}

impl Morselizer for PruningMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let texts = file.extension::<SegmentOfFile>().and_then(|of| of.texts.clone());
        match texts {
            None => self.inner.plan_file(file),
            Some(texts) => {
                let (inner, index) = (Arc::clone(&self.inner), self.index.clone());
                Ok(Box::new(PruningPlanner { inner, index, file, texts }))
            }
        }
    }
}

/// Reads the index of a file first, and then plans what is left of the file.
#[derive(Debug)]
struct PruningPlanner {
    inner: Arc<dyn Morselizer>,
    index: IndexReader,
    file: PartitionedFile,
    texts: Arc<TextCondition>,
}

impl MorselPlanner for PruningPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let PruningPlanner { inner, index, file, texts } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move {
            match index.pruned(file, &texts).await? {
                Some(file) => inner.plan_file(file),
                None => Ok(Box::new(NothingToRead) as Box<dyn MorselPlanner>),
            }
        })))
    }
}

/// The planner of a file of which nothing is read.
#[derive(Debug)]
struct NothingToRead;

impl MorselPlanner for NothingToRead {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(None)
    }
}

/// Reads indexes.
#[derive(Debug, Clone)]
struct IndexReader {
    readers: Arc<dyn ParquetFileReaderFactory>,
    partition: usize,
    metrics: ExecutionPlanMetricsSet,
    /// Granules that were left out, and those that were not.
    skipped: Count,
    read: Count,
}

impl IndexReader {
    /// The file with the rows that may have the texts; `None` if there are none.
    async fn pruned(&self, file: PartitionedFile, texts: &TextCondition) -> Result<Option<PartitionedFile>> {
        let mut reader = self.readers.create_reader(self.partition, file.clone(), None, &self.metrics)?;
        let metadata = reader.get_metadata(None).await?;
        let rows: Vec<usize> =
            metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect();
        let granules = granules_of(&rows);
        let mut may_have = vec![true; granules];
        for place in places(&metadata, &file, granules) {
            if let (Some(search), Some(layout)) = (Search::of(texts, &place.column), Layout::of(place.granules)) {
                match look_up(reader.as_mut(), &search, &place, &layout).await? {
                    Ok(found) => may_have.iter_mut().zip(found).for_each(|(may_have, found)| *may_have &= found),
                    // Its bytes are those that were written. Without the index the answer is the same.
                    Err(error) => tracing::warn!(file = %file.object_meta.location, %error, "an index is not used"),
                }
            }
        }
        let before = file.extension::<ParquetAccessPlan>().map(ParquetAccessPlan::inner);
        let (access, read, skipped) = access(&rows, before, &may_have);
        self.read.add(read);
        self.skipped.add(skipped);
        Ok((read > 0).then(|| file.with_extension(ParquetAccessPlan::new(access))))
    }
}

/// The number of granules of a file with row groups of so many rows.
fn granules_of(groups: &[usize]) -> usize {
    groups.iter().map(|rows| rows.div_ceil(GRANULE_ROWS)).sum()
}

/// The indexes of a file that fit to its row groups.
fn places(metadata: &ParquetMetaData, file: &PartitionedFile, granules: usize) -> Vec<IndexPlace> {
    let said = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let said = said.filter(|said| said.key == INDEX_KEY).filter_map(|said| said.value.as_deref());
    let places = said.filter_map(|said| serde_json::from_str::<Vec<IndexPlace>>(said).ok()).flatten();
    let fits = |place: &IndexPlace| {
        let end = place.start.checked_add(place.bytes);
        place.version == VERSION
            && place.granules == granules
            && end.is_some_and(|end| end <= file.object_meta.size)
            && Layout::of(granules).is_some_and(|layout| layout.directory_bytes() as u64 <= place.bytes)
    };
    places.filter(fits).collect()
}

/// Whether each granule may have the texts, or why the index cannot tell.
async fn look_up(
    reader: &mut (dyn AsyncFileReader + Send),
    search: &Search,
    place: &IndexPlace,
    layout: &Layout,
) -> Result<std::result::Result<Vec<bool>, Damage>> {
    let directory = reader.get_bytes(place.start..place.start + layout.directory_bytes() as u64).await?;
    let numbers = search::chunks(search, layout);
    let ranges = numbers.iter().map(|chunk| chunk_range(place, layout, &directory, *chunk));
    let ranges: Vec<Range<u64>> = match ranges.collect() {
        Ok(ranges) => ranges,
        Err(damage) => return Ok(Err(damage)),
    };
    let chunks: BTreeMap<usize, Bytes> = numbers.into_iter().zip(reader.get_byte_ranges(ranges).await?).collect();
    Ok(search::granules(search, place, layout, &chunks))
}

/// What is read of each row group, and how many granules are read and left out of those that would be read otherwise.
fn access(rows: &[usize], before: Option<&[RowGroupAccess]>, may_have: &[bool]) -> (Vec<RowGroupAccess>, usize, usize) {
    let (mut read, mut skipped, mut first) = (0, 0, 0);
    let groups = rows.iter().enumerate().map(|(number, rows)| {
        let end = first + rows.div_ceil(GRANULE_ROWS);
        let granules = may_have.get(first..end).unwrap_or_default();
        first = end;
        let before = before.map_or(Some(&RowGroupAccess::Scan), |before| before.get(number));
        let Some(before) = before.filter(|before| before.should_scan()) else { return RowGroupAccess::Skip };
        let found = granules.iter().filter(|may_have| **may_have).count();
        (read, skipped) = (read + found, skipped + granules.len() - found);
        match before {
            _ if found == granules.len() => before.clone(),
            _ if found == 0 => RowGroupAccess::Skip,
            RowGroupAccess::Selection(selection) => {
                RowGroupAccess::Selection(selection.intersection(&selected(*rows, granules)))
            }
            _ => RowGroupAccess::Selection(selected(*rows, granules)),
        }
    });
    (groups.collect(), read, skipped)
}

/// The rows of the granules of a row group.
fn selected(rows: usize, granules: &[bool]) -> RowSelection {
    let mut left = rows;
    let selectors = granules.iter().map(|may_have| {
        let rows = left.min(GRANULE_ROWS);
        left -= rows;
        if *may_have { RowSelector::select(rows) } else { RowSelector::skip(rows) }
    });
    selectors.collect::<Vec<_>>().into()
}

impl fmt::Debug for TextPruning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPruning").field("files", &self.inner.file_type()).finish()
    }
}
