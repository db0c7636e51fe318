//! The Parquet scan of a source's segments, which keeps the order that it declares and whose limit counts its own rows.
//!
//! DataFusion's file scan declares the order of its files, and takes part in optimizations that lose the order while
//! the operators above still rely on it. A merge of sorted streams then returns unsorted rows, and under a limit not
//! the newest ones. So the file scan is wrapped, and each change that the optimizer requests passes here:
//!
//! - The limit of a merge reaches the scan together with the statement that the order does not matter (`LimitPushdown`
//!   takes that from the nearest limit operator, and a merge with a limit is not one). Streams would then take files from
//!   one another as they become free, and whole row groups would be skipped because others already satisfy the limit. Here,
//!   a declared order is preserved.
//! - A scan with a limit accepts no filter and no other order any more. Both would change which rows the limit counts:
//!   `SELECT ... FROM (SELECT ... ORDER BY timestamp DESC LIMIT 100) ORDER BY id LIMIT 5` asks for rows of the newest
//!   hundred, but the dynamic filter of the outer limit would let the scan go on to older rows. The operators above do the
//!   work instead, over no more rows than the limit.
//! - A condition is accepted if the engine's reader applies it to the rows of every segment ([`row_conditions`]).
//! - Limits only become smaller, and the reported number of rows takes the limit into account.
//! - Files are cut by row groups instead of ranges of bytes ([`split`]).
//! - Where it is in the order of times and hands on the places of rows, those of equal times are in the order of their places.
//!
//! Two things stay as they are in DataFusion. A scan gives up its order if another is requested that it cannot provide;
//! files and row groups are then read in the most promising order, below a sort. And the files of a group follow each
//! other in time, which DataFusion verifies by their bounds.

use std::{any::Any, fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{Statistics, config::ConfigOptions, tree_node::TreeNodeRecursion},
    datasource::{
        physical_plan::{FileScanConfig, ParquetSource},
        source::{DataSource, DataSourceExec, OpenArgs},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
        expressions::{Column, DynamicFilterTracking},
        projection::ProjectionExprs,
        split_conjunction,
    },
    physical_plan::{
        DisplayFormatType, ExecutionPlan, SortOrderPushdownResult,
        execution_plan::SchedulingType,
        filter_pushdown::{FilterPushdownPropagation, PushedDown},
        metrics::ExecutionPlanMetricsSet,
    },
};

use crate::{
    read_memory::ReadMemory,
    scan::{
        condition_value,
        file_opening::FileOpening,
        row_conditions,
        split::split,
        tie_order::{NewestFirst, SPARE, TieKeys},
    },
    schema::{shape::Shape, tenant_path::TenantPath},
};

/// What source a scan reads.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Its name.
    pub(crate) source: Arc<str>,
    /// Its logical schema, by which the files are read.
    pub(crate) shape: Arc<Shape>,
    /// The path of its tenants.
    pub(crate) tenant_path: Arc<TenantPath>,
}

/// A scan of files that keeps the order and the limit that it declares.
#[derive(Debug, Clone)]
pub(crate) struct SegmentScan {
    files: FileScanConfig,
    /// Of what source, which the file scan does not tell.
    origin: Origin,
    /// The order in which files and row groups are read first, where the scan cannot provide the order that was
    /// requested: over the columns that the scan hands on. The file scan does not tell it.
    reading_order: Option<Vec<PhysicalSortExpr>>,
}

impl SegmentScan {
    /// The scan as an operator.
    pub(crate) fn exec(files: FileScanConfig, origin: Origin) -> Arc<dyn ExecutionPlan> {
        DataSourceExec::from_data_source(SegmentScan::new(files, origin, None))
    }

    /// All scans are made here, so that none can declare an order and lose it.
    pub(crate) fn new(
        mut files: FileScanConfig,
        origin: Origin,
        reading_order: Option<Vec<PhysicalSortExpr>>,
    ) -> SegmentScan {
        files.preserve_order |= !files.output_ordering.is_empty();
        SegmentScan { files, origin, reading_order }
    }

    /// The scan of files that it wraps.
    pub(crate) fn files(&self) -> &FileScanConfig {
        &self.files
    }

    /// What source it reads.
    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The order in which files and row groups are read first, if one was requested that the scan cannot provide.
    pub(crate) fn reading_order(&self) -> Option<&[PhysicalSortExpr]> {
        self.reading_order.as_deref()
    }

    /// Whether its rows may be counted by the value of its one column: it has no limit, and no condition changes while it
    /// runs.
    pub(crate) fn is_countable(&self) -> bool {
        !self.changes_while_it_runs() && self.files.limit.is_none()
    }

    /// Whether operators change its condition.
    fn changes_while_it_runs(&self) -> bool {
        let condition = self.files.file_source.filter();
        condition.is_some_and(|condition| DynamicFilterTracking::classify(&condition).contains_dynamic_filter())
    }

    /// Whether all of its rows pass a filter over its columns, because it has the filter itself and applies it to each row.
    pub(crate) fn has_filter(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<bool> {
        // Otherwise it only leaves out row groups and pages by its filters.
        let parquet = self.files.file_source.downcast_ref::<ParquetSource>();
        if !parquet.is_some_and(|parquet| parquet.table_parquet_options().global.pushdown_filters) {
            return Ok(false);
        }
        let (Some(own), Some(columns)) = (self.files.file_source.filter(), self.files.file_source.projection()) else {
            return Ok(false);
        };
        let own = split_conjunction(&own);
        for part in split_conjunction(filter) {
            let part = columns.unproject_expr(part)?;
            if !own.iter().any(|own| own.as_ref() == part.as_ref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The scan of one of its columns.
    pub(crate) fn only_column(&self, column: usize) -> Result<Option<Arc<dyn DataSource>>> {
        let columns = ProjectionExprs::from_indices(&[column], self.files.projected_schema()?.as_ref());
        self.try_swapping_with_projection(&columns)
    }

    /// The place of the column that is the one value at which a filter over its columns looks; `None` if there is not one value.
    pub(crate) fn value_of(&self, filter: &Arc<dyn PhysicalExpr>) -> Result<Option<usize>> {
        let Some(columns) = self.files.file_source.projection() else { return Ok(None) };
        let value = condition_value::value_of(&columns.unproject_expr(filter)?, &self.origin.tenant_path)?;
        Ok(value.and_then(|value| columns.iter().position(|column| column.expr.as_ref() == value.as_ref())))
    }

    /// The scan, which has no columns, with the one value at which its conditions look; `None` if there is not one value.
    pub(crate) fn with_value_of_conditions(&self) -> Result<Option<SegmentScan>> {
        let files = condition_value::with_value(&self.files, &self.origin.tenant_path)?;
        Ok(files.map(|files| SegmentScan::new(files, self.origin.clone(), None)))
    }

    /// Opens the scan with its rows counted where they can be: batches of this schema, the column and how many rows have the
    /// value, are among those of rows.
    pub(crate) fn open_counted(&self, args: OpenArgs, output: &SchemaRef) -> Result<SendableRecordBatchStream> {
        self.opening(&self.files, &args, Some(output)).open_with_args(args)
    }

    fn opening(&self, files: &FileScanConfig, args: &OpenArgs, counted: Option<&SchemaRef>) -> FileScanConfig {
        let cache = args.context.runtime_env().cache_manager.get_file_metadata_cache();
        let memory = ReadMemory::of(args.context.memory_pool());
        FileOpening::of(files, cache, memory, counted.map(Arc::clone))
    }

    /// Where it has the times and places of rows, if it is in the order of times.
    fn tie_keys(&self, properties: &EquivalenceProperties) -> Option<TieKeys> {
        let keys = TieKeys::among(self.files.file_source.projection()?)?;
        let ordered = properties.output_ordering()?;
        let first = ordered.first().expr.downcast_ref::<Column>()?.index();
        (first == keys.time).then_some(keys)
    }

    /// Wraps what DataFusion made of the file scan; `None` if it is not a file scan.
    fn again(
        &self,
        source: &Arc<dyn DataSource>,
        reading_order: Option<&[PhysicalSortExpr]>,
    ) -> Option<Arc<dyn DataSource>> {
        let files = source.downcast_ref::<FileScanConfig>()?;
        Some(self.with_files(files.clone(), reading_order))
    }

    fn with_files(&self, files: FileScanConfig, reading_order: Option<&[PhysicalSortExpr]>) -> Arc<dyn DataSource> {
        Arc::new(SegmentScan::new(files, self.origin.clone(), reading_order.map(<[_]>::to_vec)))
    }
}

impl DataSource for SegmentScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let Some(keys) = self.tie_keys(&self.files.eq_properties()) else {
            return self.opening(&self.files, &args, None).open_with_args(args);
        };
        // The limit counts rows in their order, which the files do not know. So a few more are read, and all where these do
        // not say what the last rows are; then they must be the same.
        let limit = self.files.limit;
        let read = limit.map(|limit| limit.saturating_add(SPARE)).filter(|_| !self.changes_while_it_runs());
        let mut files = self.files.clone();
        files.limit = read;
        let rows = self.opening(&files, &args, None).open_with_args(args.clone())?;
        let pool = Arc::clone(args.context.memory_pool());
        let bounded = read.map(|read| {
            files.limit = None;
            let scan = self.clone();
            let unbounded = move || scan.opening(&files, &args, None).open_with_args(args);
            (read, Box::new(unbounded) as _)
        });
        Ok(NewestFirst { rows, keys, limit, bounded }.in_order(&pool))
    }

    /// `None` for a scan that preserves an order: each stream reads the files of its own group.
    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.files.create_sibling_state(config)
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DataSource::fmt_as(&self.files, format, f)
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        // Without a limit: it would hold for each of other partitions.
        if output_ordering.is_none()
            && self.files.limit.is_none()
            && let Some(groups) = split(&self.files.file_groups, target_partitions)
        {
            let mut files = self.files.clone();
            files.file_groups = groups;
            // Nobody relies on an order, so who is done first takes the next piece.
            files.output_ordering.clear();
            files.preserve_order = false;
            return Ok(Some(self.with_files(files, self.reading_order())));
        }
        let source = self.files.repartitioned(target_partitions, repartition_file_min_size, output_ordering)?;
        Ok(source.as_ref().and_then(|source| self.again(source, None)))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.files.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let mut properties = self.files.eq_properties();
        let ordering = self.tie_keys(&properties).and_then(|keys| keys.ordering(properties.schema()));
        properties.add_orderings(ordering);
        properties
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.files.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = self.files.partition_statistics(partition)?;
        // The limit holds for each partition.
        let partitions = if partition.is_some() { 1 } else { self.files.file_groups.len() };
        match self.files.limit.map(|limit| limit.saturating_mul(partitions)) {
            Some(limit) => Ok(Arc::new(Arc::unwrap_or_clone(statistics).with_fetch(Some(limit), 0, 1)?)),
            None => Ok(statistics),
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let mut files = self.files.clone();
        files.limit = match (files.limit, limit) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (_, limit) => limit,
        };
        Some(self.with_files(files, self.reading_order()))
    }

    fn fetch(&self) -> Option<usize> {
        self.files.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        DataSource::metrics(&self.files)
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let source = self.files.try_swapping_with_projection(projection)?;
        Ok(source.as_ref().and_then(|source| self.again(source, None)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let refused = vec![PushedDown::No; filters.len()];
        if self.files.limit.is_some() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(refused));
        }
        // The others stay above.
        let columns = self.files.file_source.projection();
        let is_applied = |filter: &Arc<dyn PhysicalExpr>| {
            let of_table = columns.map_or_else(|| Ok(Arc::clone(filter)), |columns| columns.unproject_expr(filter))?;
            Ok(row_conditions::is_applied(&of_table, &self.origin.shape))
        };
        let applied = filters.iter().map(is_applied).collect::<Result<Vec<bool>>>()?;
        let taken = filters.into_iter().zip(&applied).filter(|(_, applied)| **applied).map(|(filter, _)| filter);
        let pushed = self.files.try_pushdown_filters(taken.collect(), config)?;
        let mut of_taken = pushed.filters.into_iter();
        let told = applied.iter().map(|applied| applied.then(|| of_taken.next()).flatten().unwrap_or(PushedDown::No));
        let filters = told.collect();
        match pushed.updated_node.as_ref().map(|node| self.again(node, self.reading_order())) {
            None => Ok(FilterPushdownPropagation { filters, updated_node: None }),
            Some(Some(scan)) => Ok(FilterPushdownPropagation { filters, updated_node: Some(scan) }),
            Some(None) => Ok(FilterPushdownPropagation::with_parent_pushdown_result(refused)),
        }
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        if self.files.limit.is_some() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let pushed = self.files.try_pushdown_sort(order)?;
        // Read in the order that was asked for, and the sort above stays.
        let reading = matches!(pushed, SortOrderPushdownResult::Inexact { .. }).then_some(order);
        let pushed = pushed.try_map(|source| self.again(&source, reading).ok_or(()));
        Ok(pushed.unwrap_or(SortOrderPushdownResult::Unsupported))
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        let mut files = self.files.clone();
        files.preserve_order = preserve_order;
        Some(self.with_files(files, self.reading_order()))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.files.apply_expressions(f)
    }
}
