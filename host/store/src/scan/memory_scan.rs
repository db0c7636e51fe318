//! The scan of rows in memory.
//!
//! Batches keep the columns that their rows had. The columns that a query asks for are made while it runs, a slice of
//! rows at a time and only for the paths that it reads. So planning costs nothing, and a query that stops early has
//! made no more than it consumed.
//!
//! Simple filters (a column compared with a value) are applied first, and nothing is made of rows that do not pass.
//! Tenants share a source, and the events of one must not slow down queries of another. The filter operator above the
//! scan stays and is decisive.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{AsArray, RecordBatch, RecordBatchOptions},
        compute::filter_record_batch,
        datatypes::SchemaRef,
    },
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
use futures::StreamExt;

use crate::{
    memory::mem_batch::MemBatch,
    scan::expr_adapter::{Adapter, picks},
    schema::shape::Shape,
    source::feed::NewRows,
};

/// A scan with one partition for each batch, newest row first.
#[derive(Debug, Clone)]
pub(crate) struct MemoryScan {
    batches: Vec<Arc<MemBatch>>,
    shape: Arc<Shape>,
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
        batches: Vec<Arc<MemBatch>>,
        shape: Arc<Shape>,
        table: SchemaRef,
        columns: Option<&Vec<usize>>,
        order: LexOrdering,
        fetch: Option<usize>,
    ) -> Result<MemoryScan> {
        let all: Vec<usize> = (0..table.fields().len()).collect();
        let projection = ProjectionExprs::from_indices(columns.unwrap_or(&all), &table);
        let output = Arc::new(projection.project_schema(&table)?);
        Ok(MemoryScan {
            batches,
            shape,
            table,
            projection,
            output,
            order,
            fetch,
            filters: Vec::new(),
            metrics: ExecutionPlanMetricsSet::new(),
            followed: false,
        })
    }

    /// A scan of the rows that each task brings, in one partition.
    pub(crate) fn followed(self) -> MemoryScan {
        MemoryScan { followed: true, ..self }
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

/// The rows of a slice for which all filters are true. A filter that fails is left to the filter operator above.
fn passing(slice: RecordBatch, filters: &[Arc<dyn PhysicalExpr>]) -> Result<RecordBatch> {
    let mut slice = slice;
    for filter in filters {
        if slice.num_rows() == 0 {
            break;
        }
        let Ok(passes) = filter.evaluate(&slice).and_then(|passes| passes.into_array(slice.num_rows())) else {
            continue;
        };
        let Some(passes) = passes.as_boolean_opt() else { continue };
        if passes.true_count() < slice.num_rows() {
            slice = filter_record_batch(&slice, passes)?;
        }
    }
    Ok(slice)
}

impl DataSource for MemoryScan {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.followed {
            let rows = context.session_config().get_extension::<NewRows>();
            let batches = rows.map(|rows| rows.batches().to_vec()).unwrap_or_default();
            // The scan runs again and again: its own counts would grow with each run.
            let metrics = ExecutionPlanMetricsSet::new();
            let each = MemoryScan { followed: false, batches, metrics, ..self.clone() };
            let parts = (0..each.batches.len()).map(|part| each.open(part, Arc::clone(&context)));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let rows = futures::stream::iter(parts).flatten();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), rows)));
        }
        let Some(batch) = self.batches.get(partition).map(Arc::clone) else {
            return Err(internal_datafusion_err!("memory has no partition {partition}"));
        };
        let adapter = Adapter::new(Arc::clone(&self.shape), Arc::clone(&self.table), batch.rows.schema());
        let exprs = self.projection.expr_iter().map(|expr| adapter.rewrite(expr)).collect::<Result<Vec<_>>>()?;
        let filters = self.filters.iter().map(|filter| adapter.rewrite(Arc::clone(filter)));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        // The session knows how wide the rows of the statement are.
        let step = context.session_config().batch_size().max(1);
        let rows = batch.rows.num_rows();
        let output = Arc::clone(&self.output);
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let handed_on = MetricBuilder::new(&self.metrics).output_rows(partition);
        let skipped = MetricBuilder::new(&self.metrics).counter("pushdown_rows_pruned", partition);
        let slices = (0..rows).step_by(step).map(move |start| {
            if left == 0 {
                return Ok(None);
            }
            let read = step.min(rows - start);
            let slice = passing(batch.rows.slice(start, read), &filters)?;
            skipped.add(read - slice.num_rows());
            let slice = slice.slice(0, slice.num_rows().min(left));
            left -= slice.num_rows();
            handed_on.add(slice.num_rows());
            if slice.num_rows() == 0 {
                return Ok(None);
            }
            let columns = exprs
                .iter()
                .map(|expr| expr.evaluate(&slice)?.into_array(slice.num_rows()))
                .collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(slice.num_rows()));
            Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&output), columns, &options)?))
        });
        // A slice of which no row passes makes no batch.
        let slices = slices.filter_map(Result::transpose);
        let stream = futures::stream::iter(slices);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), stream)))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return writeln!(f, "format=memory");
        }
        write!(f, "memory, partitions={}, projection=[{}]", self.batches.len(), self.projection)?;
        if !self.filters.is_empty() {
            let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn output_partitioning(&self) -> Partitioning {
        if self.followed {
            return Partitioning::UnknownPartitioning(1);
        }
        Partitioning::UnknownPartitioning(self.batches.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        if self.followed {
            return EquivalenceProperties::new(Arc::clone(&self.output));
        }
        let table = EquivalenceProperties::new_with_orderings(Arc::clone(&self.table), [self.order.clone()]);
        match self.projection.projection_mapping(&self.table) {
            Ok(mapping) => table.project(&mapping, Arc::clone(&self.output)),
            // Then no property is declared.
            Err(_) => EquivalenceProperties::new(Arc::clone(&self.output)),
        }
    }

    fn scheduling_type(&self) -> SchedulingType {
        // `DataSourceExec` makes the scan cooperative.
        SchedulingType::NonCooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        if self.followed {
            return Ok(Arc::new(Statistics::new_unknown(&self.output)));
        }
        let rows = |batch: &Arc<MemBatch>| batch.rows.num_rows().min(self.fetch.unwrap_or(usize::MAX));
        let rows = match partition {
            Some(partition) => self.batches.get(partition).map_or(0, rows),
            None => self.batches.iter().map(rows).sum(),
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
mod tests {
    use datafusion::{
        arrow::{
            array::{ArrayRef, StringViewArray, TimestampMicrosecondArray},
            compute::SortOptions,
            datatypes::Schema,
        },
        physical_expr::{
            PhysicalSortExpr,
            expressions::{Column, lit},
        },
        scalar::ScalarValue,
    };
    use futures::TryStreamExt;
    use serde_json::json;

    use super::*;
    use crate::{
        field_names::OVERFLOW,
        ingest::tape::Tape,
        shred::{limits::ShapeLimits, shredder::Shredder},
    };

    /// Rows of two tenants; the overflow of the one cannot be read.
    fn rows() -> MemoryScan {
        let mut shredder =
            Shredder::new(&Shape::default(), ShapeLimits { fields: 3, depth: 8, reserved: Arc::default() });
        let junk: serde_json::Map<String, serde_json::Value> = (0..9).map(|n| (format!("j{n}"), json!(n))).collect();
        let event = json!({"id": "1", "timestamp": 1, "project": "p", "metadata": junk});
        shredder.add(Tape::of_value(&event).root());
        let (_, shape) = shredder.finish(100).unwrap();
        let shape = Arc::new(shape.unwrap());
        assert!(shape.overflows());
        let texts = |texts: [&str; 4]| Arc::new(StringViewArray::from(texts.to_vec())) as ArrayRef;
        let columns = [
            ("id", texts(["1", "2", "3", "4"])),
            ("timestamp", Arc::new(TimestampMicrosecondArray::from(vec![4, 3, 2, 1])) as ArrayRef),
            ("project", texts(["good", "evil", "good", "evil"])),
            (OVERFLOW, texts([r#"{"/metadata/late":1}"#, "?", r#"{"/metadata/late":2}"#, "?"])),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let batch = Arc::new(MemBatch::new(batch, 100, (1, 1)).unwrap());
        let table = shape.schema();
        let time = Arc::new(Column::new_with_schema("timestamp", &table).unwrap());
        let order = LexOrdering::new([PhysicalSortExpr::new(time, SortOptions::default().desc())]).unwrap();
        MemoryScan::new(vec![batch], shape, table, None, order, None).unwrap()
    }

    fn project_is(schema: &Schema, name: &str) -> Arc<dyn PhysicalExpr> {
        let column = Arc::new(Column::new_with_schema("project", schema).unwrap());
        Arc::new(BinaryExpr::new(column, Operator::Eq, lit(ScalarValue::Utf8View(Some(name.to_owned())))))
    }

    async fn read(rows: &dyn DataSource) -> Result<Vec<RecordBatch>> {
        rows.open(0, Arc::new(TaskContext::default()))?.try_collect().await
    }

    fn with_filter(rows: &MemoryScan, filter: Arc<dyn PhysicalExpr>) -> Option<Arc<dyn DataSource>> {
        let pushed = rows.try_pushdown_filters(vec![filter], &ConfigOptions::default()).unwrap();
        assert!(pushed.filters.iter().all(|filter| matches!(filter, PushedDown::No)), "the filter above stays");
        pushed.updated_node
    }

    #[tokio::test]
    async fn of_rows_that_do_not_pass_nothing_is_read() {
        let rows = rows();
        assert!(read(&rows).await.is_err());
        let good = with_filter(&rows, project_is(&rows.table, "good")).unwrap();
        let batches = read(good.as_ref()).await.unwrap();
        let [batch] = batches.as_slice() else { unreachable!("one slice") };
        let ids = batch.column_by_name("id").unwrap().as_string_view();
        assert_eq!(ids.iter().flatten().collect::<Vec<_>>(), ["1", "3"]);
        assert!(matches!(good.partition_statistics(None).unwrap().num_rows, Precision::Inexact(4)));
        // A limit that comes later counts what passed.
        let one = good.with_fetch(Some(1)).unwrap();
        assert_eq!(read(one.as_ref()).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
        let nobody = with_filter(&rows, project_is(&rows.table, "nobody")).unwrap();
        assert!(read(nobody.as_ref()).await.unwrap().is_empty());
    }

    #[test]
    fn a_limit_counts_rows_before_any_filter() {
        let limited = MemoryScan { fetch: Some(1), ..rows() };
        assert!(with_filter(&limited, project_is(&limited.table, "good")).is_none());
    }
}
