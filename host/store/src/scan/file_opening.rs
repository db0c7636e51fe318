//! What the scan does with a segment before the engine's reader opens it.
//!
//! - Row groups that have none of the ids that a condition demands are left out ([`id_search`](super::id_search)), and
//!   granules that have none of the texts ([`trigram_reader`](super::trigram_reader)). What is left out is no part of the
//!   answer, because the scan's own filter looks at all rows that are left.
//! - The reader is given the Arrow schema ([`file_schemas`](super::file_schemas)), which it would decode.
//! - What is known of the file is taken off it where conditions do not change while the scan runs: the engine would make
//!   its statistics and a predicate over them for each file, and leave out what was left out when the scan was planned.
//! - A file on which the reader would lose a condition is refused ([`row_conditions`](super::row_conditions)).
//! - Rows that are only counted by the value of a column are counted without making them ([`counting`](super::counting)).
//!
//! Where a file has its filters and indexes stays with its segment, so that the footer of a file without matches is not
//! needed again.
//!
//! Indexes are read when the scan opens a segment, not while the query is planned: a query that stops early asks for
//! few segments, and the streams of a scan read their indexes in parallel.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{exec_err, internal_datafusion_err, internal_err, tree_node::TreeNodeRecursion},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileScanConfig, FileSource, ParquetSource, parquet::ParquetAccessPlan},
        table_schema::TableSchema,
    },
    error::Result,
    execution::cache::cache_manager::FileMetadataCache,
    physical_expr::{PhysicalExpr, expressions::DynamicFilterTracking, projection::ProjectionExprs},
    physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder},
};
use datafusion_datasource::{
    file_stream::FileOpener,
    morsel::{MorselPlan, MorselPlanner, Morselizer},
};
use object_store::ObjectStore;
use parquet::arrow::async_reader::AsyncFileReader;

use crate::{
    read_memory::ReadMemory,
    scan::{
        counting::{CountedFile, Counting},
        file_schemas::FileSchemas,
        id_search::IdSearch,
        row_conditions::ConditionPaths,
        segment_reader::SegmentOfFile,
        trigram_reader::{IndexReader, TextSearch},
    },
    segment::search_places::SearchPlaces,
};

/// A scan of files that are prepared before they are opened. It lives from the opening of a stream to its end: the
/// optimizer never sees it.
#[derive(Clone)]
pub(crate) struct FileOpening {
    inner: Arc<dyn FileSource>,
    schemas: FileSchemas,
    memory: ReadMemory,
    /// The schema of what is counted, if rows are.
    counted: Option<SchemaRef>,
}

impl FileOpening {
    /// The same scan with files that are prepared, in the memory of its statement. `cache` is that of footers. With a schema of
    /// its one column and counts, rows are counted by its value where they can be: some batches have that schema then, others
    /// that of the scan.
    pub(crate) fn of(
        files: &FileScanConfig,
        cache: Arc<FileMetadataCache>,
        memory: ReadMemory,
        counted: Option<SchemaRef>,
    ) -> FileScanConfig {
        let of_file = |file: &PartitionedFile| file.extension::<IdSearch>().is_some();
        let has_ids = files.file_groups.iter().any(|group| group.files().iter().any(of_file));
        let inner = match files.file_source.downcast_ref::<ParquetSource>() {
            // The filters of ids were looked up already.
            Some(source) if has_ids => Arc::new(source.clone().with_bloom_filter_on_read(false)),
            _ => Arc::clone(&files.file_source),
        };
        let mut scan = files.clone();
        scan.file_source = Arc::new(FileOpening { inner, schemas: FileSchemas { cache }, memory, counted });
        scan
    }
}

impl FileSource for FileOpening {
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
        let inner = self.inner.create_morselizer(object_store, base_config, partition)?;
        let index = IndexReader { readers: Arc::clone(readers), partition, metrics, skipped, read };
        let filter = self.inner.filter();
        let is_static =
            filter.as_ref().is_none_or(|filter| !DynamicFilterTracking::classify(filter).contains_dynamic_filter());
        let (schemas, memory) = (self.schemas.clone(), self.memory.clone());
        let counting = self.counting(base_config, partition).map(Arc::new);
        let conditions = ConditionPaths::of(filter.as_ref());
        let table = Arc::clone(self.inner.table_schema().file_schema());
        let preparation = Preparation { inner, index, schemas, memory, is_static, conditions, table, counting };
        let preparation = Arc::new(preparation);
        Ok(Box::new(PreparingMorselizer(preparation)))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(FileOpening { inner: self.inner.with_batch_size(batch_size), ..self.clone() })
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

impl FileOpening {
    /// What is counted, if the scan has one value and its rows are counted.
    fn counting(&self, scan: &FileScanConfig, partition: usize) -> Option<Counting> {
        let output = Arc::clone(self.counted.as_ref()?);
        let mut values = self.inner.projection()?.iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        Some(Counting {
            adapters: Arc::clone(scan.expr_adapter_factory.as_ref()?),
            table: Arc::clone(self.inner.table_schema().file_schema()),
            condition: self.inner.filter(),
            value: Arc::clone(&value.expr),
            output,
            rows: MetricBuilder::new(self.inner.metrics()).counter("rows_counted", partition),
        })
    }
}

/// Prepares files, and has them planned.
#[derive(Debug)]
struct Preparation {
    inner: Box<dyn Morselizer>,
    index: IndexReader,
    schemas: FileSchemas,
    /// What is read of files counts here.
    memory: ReadMemory,
    /// Whether the conditions stay the same while the scan runs.
    is_static: bool,
    /// What the conditions look at, and the schema over which they are.
    conditions: ConditionPaths,
    table: SchemaRef,
    counting: Option<Arc<Counting>>,
}

impl Preparation {
    async fn prepared(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        // A search is a condition, so that its rows are looked at.
        if let Some(counting) = self.counting.as_ref().filter(|_| !is_searched(&file)) {
            let mut reader = self.reader(&file)?;
            let schema = match self.schemas.get(&file) {
                Some(schema) => schema,
                None => self.schemas.read(&file, &reader.get_metadata(None).await?)?,
            };
            if let Some(countable) = counting.countable(&schema)? {
                let footer = reader.get_metadata(None).await?;
                if let Some((counted, rest)) = counting.split(&file, countable, footer, reader) {
                    let rest = match rest {
                        Some(access) => Some(self.prepared_rows(file.with_extension(access)).await?),
                        None => None,
                    };
                    return Ok(Box::new(CountedFile { counted, rest }));
                }
            }
        }
        self.prepared_rows(file).await
    }

    /// Whether something may be counted of a file with this schema.
    fn counts(&self, schema: &SchemaRef) -> Result<bool> {
        match &self.counting {
            Some(counting) => Ok(counting.countable(schema)?.is_some()),
            None => Ok(false),
        }
    }

    fn reader(&self, file: &PartitionedFile) -> Result<Box<dyn AsyncFileReader + Send>> {
        self.index.readers.create_reader(self.index.partition, file.clone(), None, &self.index.metrics)
    }

    async fn prepared_rows(&self, mut file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let mut reader = self.reader(&file)?;
        let Some(SegmentOfFile(segment)) = file.extension::<SegmentOfFile>().cloned() else {
            return internal_err!("a file of the scan is no segment");
        };
        let places = match segment.search_places.get() {
            Some(places) => places,
            None => {
                let footer = reader.get_metadata(None).await?;
                segment.search_places.get_or_init(|| SearchPlaces::of_footer(&footer, segment.bytes))
            }
        };
        if let Some(access) = file.extension::<ParquetAccessPlan>()
            && access.len() != places.rows.len()
        {
            return exec_err!("a file of the scan has other row groups than its plan");
        }
        if let Some(ids) = file.extension::<IdSearch>() {
            match ids.pruned(reader.as_mut(), places, file.extension::<ParquetAccessPlan>()).await? {
                Some(access) => file = file.with_extension(access),
                None => return Ok(Box::new(NothingToRead)),
            }
        }
        let Some(file) = self.index.pruned(file, reader.as_mut(), places).await? else {
            return Ok(Box::new(NothingToRead));
        };
        let schema = match self.schemas.get(&file) {
            Some(schema) => schema,
            None => self.schemas.read(&file, &reader.get_metadata(None).await?)?,
        };
        self.planned(file, schema)
    }

    /// The planner of a file with this schema, whose rows are read.
    fn planned(&self, file: PartitionedFile, schema: SchemaRef) -> Result<Box<dyn MorselPlanner>> {
        self.conditions.check(&self.table, &schema)?;
        let mut file = file.with_arrow_schema(schema);
        if self.is_static {
            file.statistics = None;
        }
        self.inner.plan_file(file)
    }
}

/// Whether a file is searched for ids or texts before it is read.
fn is_searched(file: &PartitionedFile) -> bool {
    file.extension::<TextSearch>().is_some() || file.extension::<IdSearch>().is_some()
}

/// Makes the planners of files.
#[derive(Debug)]
struct PreparingMorselizer(Arc<Preparation>);

impl Morselizer for PreparingMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let PreparingMorselizer(preparation) = self;
        let file = file.with_extension(preparation.memory.clone());
        if !is_searched(&file)
            && let Some(schema) = preparation.schemas.get(&file)
            && !preparation.counts(&schema)?
        {
            return preparation.planned(file, schema);
        }
        Ok(Box::new(PreparingPlanner { preparation: Arc::clone(preparation), file }))
    }
}

/// Reads of a file what prepares it, and then plans what is left of the file.
#[derive(Debug)]
struct PreparingPlanner {
    preparation: Arc<Preparation>,
    file: PartitionedFile,
}

impl MorselPlanner for PreparingPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let PreparingPlanner { preparation, file } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move { preparation.prepared(file).await })))
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

impl fmt::Debug for FileOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOpening").field("files", &self.inner.file_type()).finish()
    }
}
