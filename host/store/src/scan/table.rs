//! A source as a DataFusion table: a Parquet scan, plus the rows in memory.
//!
//! A table is a snapshot. It shows the rows that were acknowledged when it was made, however long the query takes. Both
//! scans are sorted newest first and declare that where it can be had, so that "newest 100" needs no sort and stops
//! early. It can be had where one run of each segment is read: for a source without projects, and for a query of one
//! project.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::{compute::SortOptions, datatypes::SchemaRef},
    catalog::{Session, TableProvider},
    common::{DFSchema, Statistics, stats::Precision},
    datasource::{
        listing::PartitionedFile,
        object_store::ObjectStoreUrl,
        physical_plan::{
            FileGroup, FileScanConfigBuilder, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
        source::DataSourceExec,
    },
    error::{DataFusionError, Result},
    logical_expr::{Expr, TableProviderFilterPushDown, TableType},
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, conjunction, expressions::Column},
    physical_plan::{ExecutionPlan, empty::EmptyExec},
    scalar::ScalarValue,
};
use object_store::{ObjectMeta, path::Path as ObjectPath};

use crate::{
    field_names::TIMESTAMP,
    scan::{
        expr_adapter::AdapterFactory,
        memory_scan::MemoryScan,
        prune::{SegmentPart, prune},
        segment_reader::{SegmentOfFile, SegmentReaders},
        segment_scan::SegmentScan,
        source_union::SourceUnion,
    },
    source::Snapshot,
    source_info::SourceInfo,
};

/// The most groups of overlapping files that are merged in order. With more groups the scan gives up the order instead
/// of opening hundreds of files at once.
const MAX_ORDERED_GROUPS: usize = 32;

/// A snapshot of a source.
#[derive(Debug)]
pub(crate) struct SourceTable {
    info: Arc<SourceInfo>,
    pub(crate) snapshot: Snapshot,
}

impl SourceTable {
    pub(crate) fn new(info: Arc<SourceInfo>, snapshot: Snapshot) -> SourceTable {
        SourceTable { info, snapshot }
    }
}

/// A table of a source with fewer fields in its records, for a statement that reads no other fields, and no record as a
/// whole that has other fields. `schema` is the schema of the table without those fields. `None` if the table is not
/// one of a store.
pub fn narrowed(table: &dyn TableProvider, schema: SchemaRef) -> Option<Arc<dyn TableProvider>> {
    let SourceTable { info, snapshot } = table.downcast_ref()?;
    let snapshot = Snapshot { schema, ..snapshot.clone() };
    Some(Arc::new(SourceTable::new(Arc::clone(info), snapshot)))
}

#[async_trait]
impl TableProvider for SourceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.snapshot.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Filters are used three times: here to skip segments, and by the Parquet scan to skip row groups and pages. None
    /// of these looks at each row.
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
        let schema = &self.snapshot.schema;
        let predicate = predicate(state, schema, filters)?;
        let parts = match predicate {
            Some(predicate) => prune(&self.snapshot.segments, &predicate, schema, &self.snapshot.shape),
            None => self.snapshot.segments.iter().map(SegmentPart::whole).collect(),
        };
        let mut inputs = Vec::new();
        if !parts.is_empty() {
            inputs.push(self.scan_segments(state, parts, projection, limit)?);
        }
        if !self.snapshot.memory.is_empty() {
            inputs.push(self.scan_memory(projection, limit)?);
        }
        match inputs.len() {
            0 => Ok(Arc::new(EmptyExec::new(projected(schema, projection)?))),
            _ => SourceUnion::of(inputs),
        }
    }
}

impl SourceTable {
    fn scan_segments(
        &self,
        state: &dyn Session,
        parts: Vec<SegmentPart>,
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

        let rows = parts.iter().map(SegmentPart::rows).sum();
        let (groups, ordered) = group(runs_apart(parts), state.config().target_partitions());
        let groups = groups
            .into_iter()
            .map(|group| Ok(FileGroup::new(group.iter().map(|part| self.file(part)).collect::<Result<_>>()?)))
            .collect::<Result<Vec<_>>>()?;
        let statistics = Statistics { num_rows: Precision::Exact(rows), ..Statistics::new_unknown(schema) };
        let config = FileScanConfigBuilder::new(url, Arc::new(parquet))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_expr_adapter(Some(Arc::new(AdapterFactory { shape: Arc::clone(&self.snapshot.shape) })))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit);
        let config = if ordered { config.with_output_ordering(vec![newest_first(schema)?]) } else { config };
        Ok(SegmentScan::exec(config.build()))
    }

    /// A part of a segment as a file of the scan, with the bounds of its times. The planner proves from them that the
    /// files of a group follow each other.
    fn file(&self, part: &SegmentPart) -> Result<PartitionedFile> {
        let schema = &self.snapshot.schema;
        let segment = &part.segment;
        let meta = ObjectMeta {
            location: ObjectPath::from_absolute_path(&segment.path)?,
            // Segments never change, so that the footer cache may use any constant.
            last_modified: chrono::DateTime::UNIX_EPOCH,
            size: segment.bytes,
            e_tag: None,
            version: None,
        };
        let mut statistics = Statistics::new_unknown(schema);
        statistics.num_rows = Precision::Exact(part.rows());
        if let Some(time) = statistics.column_statistics.get_mut(schema.index_of(TIMESTAMP)?) {
            let bound = |at| Precision::Exact(ScalarValue::TimestampMicrosecond(Some(at), None));
            time.min_value = bound(part.min_time());
            time.max_value = bound(part.max_time());
            time.null_count = Precision::Exact(0);
        }
        let file = PartitionedFile::new_from_meta(meta)
            .with_extension(SegmentOfFile(Arc::clone(segment)))
            .with_statistics(Arc::new(statistics));
        Ok(match row_groups(part) {
            Some(plan) => file.with_extension(plan),
            None => file,
        })
    }

    fn scan_memory(&self, projection: Option<&Vec<usize>>, limit: Option<usize>) -> Result<Arc<dyn ExecutionPlan>> {
        let Snapshot { memory, shape, schema, .. } = &self.snapshot;
        let order = newest_first(schema)?;
        let rows = MemoryScan::new(memory.clone(), Arc::clone(shape), Arc::clone(schema), projection, order, limit)?;
        Ok(DataSourceExec::from_data_source(rows))
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

/// The row groups that are read of a segment; `None` for all of them.
fn row_groups(part: &SegmentPart) -> Option<ParquetAccessPlan> {
    let runs = &part.segment.runs;
    if runs.len() == part.runs.len() {
        return None;
    }
    let access = runs.iter().enumerate().flat_map(|(place, run)| {
        let is_read = part.runs.contains(&place);
        let access = if is_read { RowGroupAccess::Scan } else { RowGroupAccess::Skip };
        std::iter::repeat_n(access, run.groups)
    });
    Some(ParquetAccessPlan::new(access.collect()))
}

/// Each run as a part of its own, if there are few. Then each part is in order. A file is opened for each part, so that
/// a scan which reads many runs of each segment is faster without the order.
fn runs_apart(parts: Vec<SegmentPart>) -> Vec<SegmentPart> {
    let runs: usize = parts.iter().map(|part| part.runs.len()).sum();
    if runs > MAX_ORDERED_GROUPS.max(2 * parts.len()) {
        return parts;
    }
    let apart = parts.into_iter().flat_map(|SegmentPart { segment, runs }| {
        runs.into_iter().map(move |run| SegmentPart { segment: Arc::clone(&segment), runs: vec![run] })
    });
    apart.collect()
}

/// Groups of files such that reading the files of a group one after the other is in order, and whether that was
/// possible. At least `parallel` groups if there are as many files.
fn group(mut parts: Vec<SegmentPart>, parallel: usize) -> (Vec<Vec<SegmentPart>>, bool) {
    let parallel = parallel.max(1);
    parts.sort_by_key(|part| (std::cmp::Reverse(part.max_time()), std::cmp::Reverse(part.min_time())));
    let ordered = parts.iter().all(|part| part.runs.len() == 1).then(|| chains(&parts, parallel)).flatten();
    let is_ordered = ordered.is_some();
    let groups = ordered.unwrap_or_else(|| {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); parallel.min(parts.len())];
        for (part, turn) in (0..parts.len()).zip((0..groups.len()).cycle()) {
            if let Some(group) = groups.get_mut(turn) {
                group.push(part);
            }
        }
        groups
    });
    let mut parts: Vec<Option<SegmentPart>> = parts.into_iter().map(Some).collect();
    let taken = groups.into_iter().map(|group| {
        group.into_iter().filter_map(|part| parts.get_mut(part).and_then(Option::take)).collect::<Vec<_>>()
    });
    (taken.collect(), is_ordered)
}

/// Parts by their numbers, in groups in which they follow each other. `parts` are sorted by their newest row. `None` if
/// too many groups would have to be merged.
fn chains(parts: &[SegmentPart], parallel: usize) -> Option<Vec<Vec<usize>>> {
    // Of each group: its parts, and the oldest time of the last one.
    let mut groups: Vec<(Vec<usize>, i64)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let (newest, oldest) = (part.max_time(), part.min_time());
        let is_full = groups.len() == MAX_ORDERED_GROUPS.max(parallel);
        // The smallest group that this part can follow, unless there are fewer groups than cores.
        let place = if groups.len() < parallel {
            None
        } else {
            groups.iter_mut().filter(|(_, end)| *end >= newest).min_by_key(|(group, _)| group.len())
        };
        match place {
            Some((group, end)) => {
                group.push(number);
                *end = oldest;
            }
            None if is_full => return None,
            None => groups.push((vec![number], oldest)),
        }
    }
    Some(groups.into_iter().map(|(group, _)| group).collect())
}
