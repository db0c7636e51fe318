//! Leaving out what cannot have a text that a condition demands, by the index of trigrams of each segment.
//!
//! The index is read when the scan opens a segment, not while the query is planned: a query that stops early asks for
//! few segments, and the streams of a scan read their indexes in parallel. What is left out is no part of the answer,
//! because the scan's own filter looks at all rows that are left.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{internal_datafusion_err, tree_node::TreeNodeRecursion},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileScanConfig, FileSource, ParquetSource},
        table_schema::TableSchema,
    },
    error::Result,
    physical_expr::{PhysicalExpr, projection::ProjectionExprs},
    physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder},
};
use datafusion_datasource::{
    file_stream::FileOpener,
    morsel::{MorselPlan, MorselPlanner, Morselizer},
};
use object_store::ObjectStore;

use crate::scan::trigram_reader::{IndexReader, TextSearch};

/// A scan of files whose conditions on texts are looked up in the indexes. It lives from the opening of a stream to its
/// end: the optimizer never sees it.
#[derive(Clone)]
pub(crate) struct TextPruning {
    inner: Arc<dyn FileSource>,
}

impl TextPruning {
    /// The same scan with the indexes, if a condition demands a text.
    pub(crate) fn of(files: &FileScanConfig) -> Option<FileScanConfig> {
        let of_file = |file: &PartitionedFile| file.extension::<TextSearch>().is_some();
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
        if file.extension::<TextSearch>().is_none() {
            return self.inner.plan_file(file);
        }
        let (inner, index) = (Arc::clone(&self.inner), self.index.clone());
        Ok(Box::new(PruningPlanner { inner, index, file }))
    }
}

/// Reads the index of a file first, and then plans what is left of the file.
#[derive(Debug)]
struct PruningPlanner {
    inner: Arc<dyn Morselizer>,
    index: IndexReader,
    file: PartitionedFile,
}

impl MorselPlanner for PruningPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let PruningPlanner { inner, index, file } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move {
            match index.pruned(file).await? {
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

impl fmt::Debug for TextPruning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextPruning").field("files", &self.inner.file_type()).finish()
    }
}
