//! Making a scan of segments again from its description.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{
        Statistics,
        config::{ConfigOptions, TableOptions, TableParquetOptions},
        exec_err, plan_err,
    },
    datasource::{
        listing::{FileRange, PartitionedFile},
        object_store::ObjectStoreUrl,
        physical_plan::{
            FileGroup, FileScanConfigBuilder, FileSource, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
        source::DataSourceExec,
    },
    error::Result,
    execution::TaskContext,
    physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr},
    physical_plan::{ExecutionPlan, SortOrderPushdownResult},
};
use tidegate_model::TextCondition;

use crate::{
    scan::{
        description::{DescribedSchema, FileDescription, ScanDescription},
        expr_adapter::AdapterFactory,
        held_segments::HeldSegments,
        id_search::IdSearch,
        segment_file::segment_file,
        segment_reader::SegmentReaders,
        segment_scan::{Origin, SegmentScan},
        source_union::SourceUnion,
        trigram_reader::TextSearch,
    },
    schema::{senders::Senders, shape::Shape},
};

/// Whether an operator is the union of the scans of one source.
pub fn is_source_union(plan: &dyn ExecutionPlan) -> bool {
    plan.name() == SourceUnion::NAME
}

/// The union of scans of one source, which are over the same columns. A single one is returned unchanged.
///
/// # Errors
/// If there is none, or if their columns differ.
pub fn source_union(scans: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    SourceUnion::of(scans)
}

/// The options of reading Parquet files that a scan takes from its session.
pub(crate) fn parquet_options(options: &ConfigOptions) -> TableParquetOptions {
    TableOptions::default_from_session_config(options).parquet
}

impl ScanDescription {
    /// The scan, over segments that are held. `task` gives the options, the files and the cache of footers.
    ///
    /// # Errors
    /// If a segment is not held or is another one, or if the description contradicts itself.
    pub fn scan(self, held: &HeldSegments, task: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok(DescribedSchema { fields, tenant_path }) = serde_json::from_slice(&self.shape) else {
            return plan_err!("the schema of source `{}` cannot be read", self.source);
        };
        let shape = Arc::new(Shape { fields: fields.into_owned(), senders: Senders::default() });
        let tenant_path = Arc::new(tenant_path.into_owned());
        if self.reading_order.is_some() && !self.orders.is_empty() {
            return plan_err!("a scan that promises an order cannot be read in another one");
        }
        let texts = self.texts.clone().map(Arc::new);
        let ids = match &self.ids {
            None => None,
            Some(ids) => match IdSearch::of_ids(ids.clone(), &shape) {
                None => return plan_err!("a scan demands ids that its segments have no filters of, or too many"),
                search => search,
            },
        };
        let mut searches = HashMap::new();
        let partitions = self.partitions.iter();
        let groups = partitions.map(|files| self.group(files, held, texts.as_ref(), ids.as_ref(), &mut searches));
        let groups = groups.collect::<Result<_>>()?;
        let url = ObjectStoreUrl::local_filesystem();
        let runtime = task.runtime_env();
        let readers = SegmentReaders {
            files: runtime.object_store(&url)?,
            footers: runtime.cache_manager.get_file_metadata_cache(),
            source: Arc::clone(&self.source),
        };
        let parquet = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(parquet_options(task.session_config().options()))
            .with_parquet_file_reader_factory(Arc::new(readers));
        let parquet = match &self.predicate {
            Some(predicate) => parquet.with_predicate(Arc::clone(predicate)),
            None => parquet,
        };
        let Some(mut source) = parquet.try_pushdown_projection(&self.projection)? else {
            return plan_err!("a scan of segments takes no projection");
        };
        if let Some(order) = &self.reading_order {
            // As a scan that has the order backwards: then it can always be read so.
            let backwards = LexOrdering::new(order.iter().map(PhysicalSortExpr::reverse));
            let columns = Arc::new(self.projection.project_schema(&self.schema)?);
            let columns = EquivalenceProperties::new_with_orderings(columns, backwards);
            match source.try_pushdown_sort(order, &columns)? {
                SortOrderPushdownResult::Inexact { inner } => source = inner,
                _ => return plan_err!("a scan cannot be read in an order"),
            }
        }
        let statistics = Statistics { num_rows: self.rows, ..Statistics::new_unknown(&self.schema) };
        let mut files = FileScanConfigBuilder::new(url, source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_expr_adapter(Some(Arc::new(AdapterFactory { shape: Arc::clone(&shape) })))
            .with_output_ordering(self.orders)
            .with_limit(self.limit)
            .build();
        files.preserve_order = self.preserves_order;
        let origin = Origin { source: self.source, shape, tenant_path };
        Ok(DataSourceExec::from_data_source(SegmentScan::new(files, origin, self.reading_order)))
    }

    /// The files of a partition. `searches` has a file of each segment of which there is one.
    fn group(
        &self,
        files: &[FileDescription],
        held: &HeldSegments,
        texts: Option<&Arc<TextCondition>>,
        ids: Option<&IdSearch>,
        searches: &mut HashMap<usize, PartitionedFile>,
    ) -> Result<FileGroup> {
        let file = |file: &FileDescription| {
            let Some(name) = self.segments.get(file.segment) else {
                return plan_err!("a scan reads a segment that it does not name");
            };
            let Some(segment) = held.get(name) else {
                return exec_err!("segment {} of source `{}` is not held", name.id, self.source);
            };
            let mut made = segment_file(segment, &self.schema, file.rows, file.times)?;
            made.range = file.range.map(|(start, end)| FileRange { start, end });
            // All pieces of a file share what its index says, so that it is read once.
            let made = match (texts, searches.get(&file.segment)) {
                (None, _) => made,
                (Some(_), Some(other)) => PartitionedFile { extensions: other.extensions.clone(), ..made },
                (Some(texts), None) => {
                    let made = made.with_extension(TextSearch::new(Arc::clone(texts)));
                    searches.insert(file.segment, made.clone());
                    made
                }
            };
            let made = match ids {
                Some(ids) => made.with_extension(ids.clone()),
                None => made,
            };
            let Some(row_groups) = &file.row_groups else { return Ok(made) };
            let known: usize = segment.runs.iter().map(|run| run.groups).sum();
            // Of a segment that was held without a catalog that is not known yet: its reader compares them.
            if segment.has_runs && known != row_groups.len() {
                return plan_err!("segment {} has other row groups", name.id);
            }
            let access = |is_read: &bool| if *is_read { RowGroupAccess::Scan } else { RowGroupAccess::Skip };
            Ok(made.with_extension(ParquetAccessPlan::new(row_groups.iter().map(access).collect())))
        };
        Ok(FileGroup::new(files.iter().map(file).collect::<Result<_>>()?))
    }
}
