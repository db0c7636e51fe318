//! A source as a DataFusion table: a Parquet scan, plus the rows in memory.
//!
//! A table is a snapshot. It shows the rows that were acknowledged when it was made, however long the query takes. Both
//! scans are sorted newest first and declare that where it can be had, so that "newest 100" needs no sort and stops
//! early. It can be had where one run of each segment is read: for a source without tenants, and for a query of one
//! tenant.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::{compute::SortOptions, datatypes::SchemaRef},
    catalog::{Session, TableProvider},
    common::{DFSchema, Statistics, stats::Precision},
    datasource::{
        listing::PartitionedFile,
        object_store::ObjectStoreUrl,
        physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource},
        source::DataSourceExec,
    },
    error::{DataFusionError, Result},
    logical_expr::{Expr, TableProviderFilterPushDown, TableType},
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, conjunction, expressions::Column},
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};
use tidegate_model::{KeyPath, SourceTenancy, TextCondition};

use crate::{
    field_names::{PLACE, TIMESTAMP},
    memory::mem_batch::MemBatch,
    scan::{
        expr_adapter::AdapterFactory,
        file_groups::{Share, grouped},
        id_search::IdSearch,
        memory_scan::{MemoryScan, in_chains},
        place_order::CallRange,
        prune::{Pruning, SegmentPart},
        segment_file::segment_file,
        segment_reader::SegmentReaders,
        segment_scan::{Origin, SegmentScan},
        source_union::SourceUnion,
        trigram_reader::TextSearch,
    },
    schema::{json_pointer::push_pointer, tenant_path::TenantPath},
    source::Snapshot,
    source_info::SourceInfo,
};

/// A snapshot of a source.
#[derive(Debug)]
pub(crate) struct SourceTable {
    pub(crate) info: Arc<SourceInfo>,
    pub(crate) snapshot: Snapshot,
    /// What each query of the table demands of texts, if it does.
    texts: Option<Arc<TextCondition>>,
    rows: TableRows,
    /// Whether its reader may read some of the rows only.
    is_held: bool,
}

/// Which rows a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableRows {
    /// Those of the snapshot.
    Stored,
    /// Those that each task brings, [`NewRows`](crate::NewRows).
    Followed,
    /// Those of the snapshot that came with these calls, in the order of their places.
    Calls(CallRange),
}

impl SourceTable {
    pub(crate) fn new(info: Arc<SourceInfo>, snapshot: Snapshot) -> SourceTable {
        SourceTable::of_rows(info, snapshot, TableRows::Stored)
    }

    /// The same for a reader who may read some of the rows only; `tenant` is its value of the source's first tenant key. An index of texts is
    /// not looked up, because what it leaves out, and so how long that takes, depends on the texts of others. Fields
    /// have the types that the tenant's own values give.
    pub(crate) fn held_to(self, tenant: Option<&str>) -> SourceTable {
        let snapshot = match tenant {
            Some(tenant) => self.snapshot.of_tenant(tenant, &key_pointers(self.info.tenant.as_ref())),
            None => self.snapshot,
        };
        SourceTable { snapshot, is_held: true, ..self }
    }

    /// The name of the source.
    pub(crate) fn source(&self) -> &str {
        self.info.name.as_str()
    }

    fn origin(&self) -> Origin {
        Origin {
            source: self.source().into(),
            shape: Arc::clone(&self.snapshot.shape),
            tenant_path: Arc::new(TenantPath::of(self.info.tenant.as_ref())),
        }
    }

    pub(crate) fn of_rows(info: Arc<SourceInfo>, snapshot: Snapshot, rows: TableRows) -> SourceTable {
        SourceTable { info, snapshot, texts: None, rows, is_held: false }
    }
}

/// The pointers of the tenant keys of a source.
fn key_pointers(tenancy: Option<&SourceTenancy>) -> Vec<String> {
    let Some(SourceTenancy::Keyed(keys)) = tenancy else { return Vec::new() };
    let pointer = |path: &KeyPath| {
        path.names().iter().fold(String::new(), |mut pointer, name| {
            push_pointer(&mut pointer, name);
            pointer
        })
    };
    keys.values().map(pointer).collect()
}

/// A table of a source for one scan of a statement. `schema` is the schema of the table, without fields of its records
/// that the statement does not read: not by themselves, and not in a record as a whole. `texts` is what the conditions
/// of the scan demand of texts: rows for which it does not hold may be left out. `None` if the table is not one of a
/// store.
pub fn narrowed(
    table: &dyn TableProvider,
    schema: SchemaRef,
    texts: Option<TextCondition>,
) -> Option<Arc<dyn TableProvider>> {
    let SourceTable { info, snapshot, rows, is_held, texts: _ } = table.downcast_ref()?;
    let snapshot = Snapshot { schema, ..snapshot.clone() };
    let (info, texts) = (Arc::clone(info), texts.filter(|_| !is_held).map(Arc::new));
    Some(Arc::new(SourceTable { info, snapshot, texts, rows: *rows, is_held: *is_held }))
}

/// A table of a source with the places of its rows: two more columns, the last ones, which order rows as they were
/// committed. Also the name of the column with the time of a row. `None` if the table is not one of a store, or the source
/// has columns of such names.
pub fn placed(table: &dyn TableProvider) -> Option<(Arc<dyn TableProvider>, &'static str)> {
    let SourceTable { info, snapshot, texts, rows, is_held } = table.downcast_ref()?;
    if *rows != TableRows::Stored || !snapshot.shape.is_placed() {
        return None;
    }
    let snapshot = Snapshot { schema: snapshot.placed_schema(), ..snapshot.clone() };
    let (info, texts) = (Arc::clone(info), texts.clone());
    Some((Arc::new(SourceTable { info, snapshot, texts, rows: *rows, is_held: *is_held }), TIMESTAMP))
}

#[async_trait]
impl TableProvider for SourceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.snapshot.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters are used twice: here to skip segments and batches in memory, and by the Parquet scan to skip row groups
    /// and pages. Neither looks at each row.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.rows {
            TableRows::Stored => self.scan_stored(state, projection, filters, limit),
            TableRows::Followed => self.scan_memory(state, Vec::new(), projection, limit),
            TableRows::Calls(calls) => {
                let schema = &self.snapshot.schema;
                let wanted = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
                let mut read = wanted.clone();
                for column in PLACE {
                    let column = schema.index_of(column)?;
                    if !read.contains(&column) {
                        read.push(column);
                    }
                }
                // A limit would count rows before they are in order.
                let scan = self.scan_stored(state, Some(&read), filters, None)?;
                calls.ordered(scan, wanted.len())
            }
        }
    }
}

impl SourceTable {
    fn scan_stored(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = &self.snapshot.schema;
        let predicate = predicate(state, schema, filters)?;
        let Snapshot { shape, memory, segments, .. } = &self.snapshot;
        let (parts, batches) = match predicate.as_ref().map(|predicate| Pruning::new(predicate, schema, shape)) {
            Some(pruning) => (pruning.segments(segments), pruning.batches(memory)),
            None => (segments.iter().map(SegmentPart::whole).collect(), memory.clone()),
        };
        let mut inputs = Vec::new();
        if !parts.is_empty() {
            let ids = IdSearch::of(filters, shape);
            inputs.push(self.scan_segments(state, parts, ids.as_ref(), projection, limit)?);
        }
        if !batches.is_empty() {
            inputs.push(self.scan_memory(state, batches, projection, limit)?);
        }
        match inputs.len() {
            0 => Ok(Arc::new(EmptyExec::new(projected(schema, projection)?))),
            _ => SourceUnion::of(inputs),
        }
    }

    fn scan_segments(
        &self,
        state: &dyn Session,
        parts: Vec<SegmentPart>,
        ids: Option<&IdSearch>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = &self.snapshot.schema;
        let url = ObjectStoreUrl::local_filesystem();
        let runtime = state.runtime_env();
        let readers = SegmentReaders {
            files: runtime.object_store(&url)?,
            footers: runtime.cache_manager.get_file_metadata_cache(),
            source: self.info.name.as_str().into(),
        };
        let options = state.default_table_options().parquet;
        let parquet = ParquetSource::new(Arc::clone(schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(readers));

        let rows = Precision::Exact(parts.iter().map(SegmentPart::rows).sum());
        // Rows are not counted by what the catalog says of a segment that cannot be read.
        let is_damaged = parts.iter().any(|part| part.segment.damage().is_some());
        let rows = if is_damaged { rows.to_inexact() } else { rows };
        let (groups, ordered) = grouped(parts, state.config().target_partitions());
        let groups = groups
            .into_iter()
            .map(|group| Ok(FileGroup::new(group.iter().map(|share| self.file(share, ids)).collect::<Result<_>>()?)))
            .collect::<Result<Vec<_>>>()?;
        let statistics = Statistics { num_rows: rows, ..Statistics::new_unknown(schema) };
        let config = FileScanConfigBuilder::new(url, Arc::new(parquet))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_expr_adapter(Some(Arc::new(AdapterFactory { shape: Arc::clone(&self.snapshot.shape) })))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit);
        let config = if ordered { config.with_output_ordering(vec![newest_first(schema)?]) } else { config };
        Ok(SegmentScan::exec(config.build(), self.origin()))
    }

    /// A share of a segment as a file of the scan.
    fn file(&self, share: &Share, ids: Option<&IdSearch>) -> Result<PartitionedFile> {
        let times = (share.part.min_time(), share.part.max_time());
        let file = segment_file(&share.part.segment, &self.snapshot.schema, share.rows(), times)?;
        let file = match &self.texts {
            Some(texts) => file.with_extension(TextSearch::new(Arc::clone(texts))),
            None => file,
        };
        let file = match ids {
            Some(ids) => file.with_extension(ids.clone()),
            None => file,
        };
        Ok(match share.row_groups() {
            Some(plan) => file.with_extension(plan),
            None => file,
        })
    }

    fn scan_memory(
        &self,
        state: &dyn Session,
        batches: Vec<Arc<MemBatch>>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::clone(&self.snapshot.schema);
        let order = newest_first(&schema)?;
        let chains = in_chains(batches, state.config().target_partitions());
        let rows = MemoryScan::new(chains, self.origin(), schema, projection, order, limit)?;
        let is_followed = self.rows == TableRows::Followed;
        Ok(DataSourceExec::from_data_source(if is_followed { rows.followed() } else { rows }))
    }
}

fn projected(schema: &SchemaRef, projection: Option<&Vec<usize>>) -> Result<SchemaRef> {
    Ok(match projection {
        Some(columns) => Arc::new(schema.project(columns)?),
        None => Arc::clone(schema),
    })
}

fn predicate(state: &dyn Session, schema: &SchemaRef, filters: &[Expr]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if filters.is_empty() {
        return Ok(None);
    }
    let named = DFSchema::try_from(Arc::clone(schema))?;
    let filters =
        filters.iter().map(|filter| state.create_physical_expr(filter.clone(), &named)).collect::<Result<Vec<_>>>()?;
    Ok(Some(conjunction(filters)))
}

fn newest_first(schema: &SchemaRef) -> Result<LexOrdering> {
    let column = Column::new_with_schema(TIMESTAMP, schema)?;
    let options = SortOptions { descending: true, nulls_first: false };
    LexOrdering::new([PhysicalSortExpr::new(Arc::new(column), options)])
        .ok_or_else(|| DataFusionError::Internal("an ordering of one column is empty".to_owned()))
}
