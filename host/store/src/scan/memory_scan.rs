//! The scan of rows in memory.
//!
//! Batches keep the columns that their rows had. The columns that a query asks for are made while it runs, a slice of
//! rows at a time and only for the paths that it reads ([`slices`]). So planning costs nothing, and a query that stops
//! early has made no more than it consumed.
//!
//! Batches that follow each other in time are one partition: a query has as many partitions as it has threads, or as many
//! as batches overlap.
//!
//! Simple filters (a column compared with a value) are applied first, and nothing is made of rows that do not pass.
//! Tenants share a source, and the events of one must not slow down queries of another. The filter operator above the
//! scan stays and is decisive.

use std::{cmp::Reverse, fmt, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{
        Statistics, config::ConfigOptions, internal_datafusion_err, stats::Precision, tree_node::TreeNodeRecursion,
    },
    datasource::source::DataSource,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    logical_expr::Operator,
    physical_expr::{
        EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr,
        expressions::{BinaryExpr, IsNotNullExpr, Literal},
        projection::ProjectionExprs,
    },
    physical_expr_adapter::PhysicalExprAdapter,
    physical_plan::{
        DisplayFormatType,
        execution_plan::SchedulingType,
        filter_pushdown::{FilterPushdownPropagation, PushedDown},
        metrics::{ExecutionPlanMetricsSet, MetricBuilder},
        stream::RecordBatchStreamAdapter,
    },
};

use crate::{
    memory::mem_batch::MemBatch,
    scan::{
        chains::{Extent, chains},
        expr_adapter::{Adapter, picks},
        memory_rows::{BatchExprs, slices},
        segment_scan::Origin,
        tie_order::{NewestFirst, TieKeys},
    },
    source::feed::NewRows,
};

/// A scan with one partition for each chain of batches, newest row first.
#[derive(Debug, Clone)]
pub(crate) struct MemoryScan {
    chains: Vec<Vec<Arc<MemBatch>>>,
    origin: Origin,
    /// The schema of the table.
    table: SchemaRef,
    /// The expressions that are read, over that schema, and their schema.
    projection: ProjectionExprs,
    output: SchemaRef,
    /// The order of the rows, over the schema of the table.
    order: LexOrdering,
    fetch: Option<usize>,
    /// Rows for which one of these is not true are skipped; over the schema of the table.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The rows that were handed on, and those that a filter skipped, under the names that the scan of segments uses.
    metrics: ExecutionPlanMetricsSet,
    /// The batches are those of the task ([`NewRows`]), in the order in which their rows arrived.
    followed: bool,
}

impl MemoryScan {
    pub(crate) fn new(
        chains: Vec<Vec<Arc<MemBatch>>>,
        origin: Origin,
        table: SchemaRef,
        columns: Option<&Vec<usize>>,
        order: LexOrdering,
        fetch: Option<usize>,
    ) -> Result<MemoryScan> {
        let all: Vec<usize> = (0..table.fields().len()).collect();
        let projection = ProjectionExprs::from_indices(columns.unwrap_or(&all), &table);
        let output = Arc::new(projection.project_schema(&table)?);
        let metrics = ExecutionPlanMetricsSet::new();
        let filters = Vec::new();
        Ok(MemoryScan { chains, origin, table, projection, output, order, fetch, filters, metrics, followed: false })
    }

    /// A scan of the rows that each task brings, in one partition.
    pub(crate) fn followed(self) -> MemoryScan {
        MemoryScan { followed: true, ..self }
    }

    /// The name of the source.
    pub(crate) fn source(&self) -> &Arc<str> {
        &self.origin.source
    }

    /// The rows of its batches.
    pub(crate) fn rows(&self) -> usize {
        self.chains.iter().flatten().map(|batch| batch.rows.num_rows()).sum()
    }

    /// Rows for which one of these is not true are skipped.
    pub(crate) fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// The rows of batches, as they lie there.
    fn rows_of(
        &self,
        chain: Vec<Arc<MemBatch>>,
        partition: usize,
        context: &TaskContext,
        fetch: Option<usize>,
    ) -> SendableRecordBatchStream {
        // The session knows how wide the rows of the statement are.
        let step = context.session_config().batch_size().max(1);
        let scan = self.clone();
        let skipped = MetricBuilder::new(&self.metrics).counter("pushdown_rows_pruned", partition);
        let mut known: Option<Arc<BatchExprs>> = None;
        let of_batches = chain.into_iter().flat_map(move |batch| {
            // Batches of one source mostly have the same columns.
            let (exprs, failed) = match known.take().filter(|exprs| exprs.fits(&batch.rows)) {
                Some(exprs) => (Some(exprs), None),
                None => match scan.exprs(batch.rows.schema()) {
                    Ok(exprs) => (Some(Arc::new(exprs)), None),
                    Err(error) => (None, Some(Err(error))),
                },
            };
            known.clone_from(&exprs);
            let skipped = skipped.clone();
            let slices =
                exprs.into_iter().flat_map(move |exprs| slices(Arc::clone(&batch), exprs, step, skipped.clone()));
            failed.into_iter().chain(slices)
        });
        let mut left = fetch.unwrap_or(usize::MAX);
        let handed_on = MetricBuilder::new(&self.metrics).output_rows(partition);
        let limited = of_batches.map_while(move |slice| {
            if left == 0 {
                return None;
            }
            Some(slice.map(|slice| {
                let slice = slice.slice(0, slice.num_rows().min(left));
                left -= slice.num_rows();
                handed_on.add(slice.num_rows());
                slice
            }))
        });
        // A slice of which no row passes makes no batch.
        let some = limited.filter(|slice| !slice.as_ref().is_ok_and(|slice| slice.num_rows() == 0));
        let stream = futures::stream::iter(some);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), stream))
    }

    /// Filters and projection over the columns of batches.
    fn exprs(&self, columns: SchemaRef) -> Result<BatchExprs> {
        let adapter = Adapter::new(Arc::clone(&self.origin.shape), Arc::clone(&self.table), Arc::clone(&columns));
        let exprs = self.projection.expr_iter().map(|expr| adapter.rewrite(expr)).collect::<Result<Vec<_>>>()?;
        let filters = self.filters.iter().map(|filter| adapter.rewrite(Arc::clone(filter)));
        BatchExprs::new(columns, filters.collect::<Result<Vec<_>>>()?, exprs, Arc::clone(&self.output))
    }
}

/// Whether a filter only compares stored values with constants. Such a filter is cheap and cannot fail.
fn is_simple(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let is_operand = |expr: &Arc<dyn PhysicalExpr>| picks(expr) || expr.downcast_ref::<Literal>().is_some();
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And | Operator::Or => is_simple(binary.left()) && is_simple(binary.right()),
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                is_operand(binary.left()) && is_operand(binary.right())
            }
            _ => false,
        };
    }
    filter.downcast_ref::<IsNotNullExpr>().is_some_and(|expr| picks(expr.arg()))
}

/// Batches in chains: the rows of each are sorted, newest first, from one batch to the next too.
pub(crate) fn in_chains(mut batches: Vec<Arc<MemBatch>>, parallel: usize) -> Vec<Vec<Arc<MemBatch>>> {
    batches.sort_by_key(|batch| (Reverse(batch.max_time), Reverse(batch.min_time)));
    let extent =
        |batch: &MemBatch| Extent { newest: batch.max_time, oldest: batch.min_time, rows: batch.rows.num_rows() };
    let alone = || batches.iter().map(|batch| vec![Arc::clone(batch)]).collect();
    let with_extent = batches.iter().map(|batch| (Arc::clone(batch), extent(batch)));
    chains(with_extent, parallel.max(1), batches.len()).unwrap_or_else(alone)
}

impl DataSource for MemoryScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.followed {
            let rows = context.session_config().get_extension::<NewRows>();
            let arrived = rows.map(|rows| rows.batches().to_vec()).unwrap_or_default();
            let scan = MemoryScan { metrics: self.metrics(), ..self.clone() };
            return Ok(scan.rows_of(arrived, partition, &context, self.fetch));
        }
        let Some(chain) = self.chains.get(partition).cloned() else {
            return Err(internal_datafusion_err!("memory has no partition {partition}"));
        };
        Ok(match TieKeys::among(&self.projection) {
            Some(keys) => {
                // The limit counts rows in their order.
                let rows = self.rows_of(chain, partition, &context, None);
                NewestFirst { rows, keys, limit: self.fetch, bounded: None }.in_order(context.memory_pool())
            }
            None => self.rows_of(chain, partition, &context, self.fetch),
        })
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return writeln!(f, "format=memory");
        }
        write!(f, "memory, partitions={}, projection=[{}]", self.chains.len(), self.projection)?;
        if !self.filters.is_empty() {
            let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }

    /// A followed scan runs again and again, and its operator adds to this set at every run, even after its state was
    /// reset. So it gets a new set each time, which nobody reads, and none that grows.
    fn metrics(&self) -> ExecutionPlanMetricsSet {
        if self.followed { ExecutionPlanMetricsSet::new() } else { self.metrics.clone() }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(if self.followed { 1 } else { self.chains.len() })
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        if self.followed {
            return EquivalenceProperties::new(Arc::clone(&self.output));
        }
        let table = EquivalenceProperties::new_with_orderings(Arc::clone(&self.table), [self.order.clone()]);
        let mut properties = match self.projection.projection_mapping(&self.table) {
            Ok(mapping) => table.project(&mapping, Arc::clone(&self.output)),
            // Then no property is declared.
            Err(_) => EquivalenceProperties::new(Arc::clone(&self.output)),
        };
        let ordering = TieKeys::among(&self.projection).and_then(|keys| keys.ordering(&self.output));
        properties.add_orderings(ordering);
        properties
    }

    fn scheduling_type(&self) -> SchedulingType {
        // `DataSourceExec` makes the scan cooperative.
        SchedulingType::NonCooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        if self.followed {
            return Ok(Arc::new(Statistics::new_unknown(&self.output)));
        }
        let rows = |chain: &Vec<Arc<MemBatch>>| {
            let rows: usize = chain.iter().map(|batch| batch.rows.num_rows()).sum();
            rows.min(self.fetch.unwrap_or(usize::MAX))
        };
        let rows = match partition {
            Some(partition) => self.chains.get(partition).map_or(0, rows),
            None => self.chains.iter().map(rows).sum(),
        };
        let rows = Precision::Exact(rows);
        let num_rows = if self.filters.is_empty() { rows } else { rows.to_inexact() };
        Ok(Arc::new(Statistics { num_rows, ..Statistics::new_unknown(&self.output) }))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let fetch = match (self.fetch, fetch) {
            (Some(own), Some(fetch)) => Some(own.min(fetch)),
            (_, fetch) => fetch,
        };
        Some(Arc::new(MemoryScan { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// Accepts projections that only select. Expressions that compute stay above, where they are evaluated once.
    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        if !projection.iter().all(|expr| picks(&expr.expr)) {
            return Ok(None);
        }
        let projection = self.projection.try_merge(projection)?;
        let output = Arc::new(projection.project_schema(&self.table)?);
        Ok(Some(Arc::new(MemoryScan { projection, output, ..self.clone() })))
    }

    /// Accepts simple filters, but reports them as not accepted: the filter operator above stays, as it does for
    /// segments.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let refused = vec![PushedDown::No; filters.len()];
        let mut pushed: FilterPushdownPropagation<Arc<dyn DataSource>> =
            FilterPushdownPropagation::with_parent_pushdown_result(refused);
        // A limit counts rows before any filter.
        if self.fetch.is_none() {
            let simple = filters.iter().filter(|filter| is_simple(filter));
            let simple = simple.map(|filter| self.projection.unproject_expr(filter)).collect::<Result<Vec<_>>>()?;
            let filters: Vec<_> = self
                .filters
                .iter()
                .cloned()
                .chain(simple.into_iter().filter(|new| !self.filters.contains(new)))
                .collect();
            if filters.len() > self.filters.len() {
                let rows: Arc<dyn DataSource> = Arc::new(MemoryScan { filters, ..self.clone() });
                pushed.updated_node = Some(rows);
            }
        }
        Ok(pushed)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for expr in self.projection.iter() {
            recursion = f(&expr.expr)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests;
