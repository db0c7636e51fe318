//! A scan whose rows are only counted by the value of their one column: values come with how many rows have them.
//!
//! The first half of a grouping asks for it when it is put into a plan that runs. What the scan would hand on as rows
//! comes as values with counts where it can be counted ([`counting`](super::counting)), and as rows with the count
//! 1 where it cannot, such as in memory.
//!
//! A plan over segments and memory has its filter above both, although segments are filtered by their scan already. So the
//! filter is moved to the memory.

use std::{any::Any, fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, Int64Array, RecordBatch},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    common::{Statistics, config::ConfigOptions, tree_node::TreeNodeRecursion},
    datasource::source::{DataSource, DataSourceExec, OpenArgs},
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, Partitioning, PhysicalExpr,
        expressions::{Column, lit},
        projection::ProjectionExprs,
    },
    physical_plan::{
        DisplayFormatType, ExecutionPlan,
        execution_plan::{SchedulingType, replace_children_if_necessary},
        filter::{FilterExec, FilterExecBuilder},
        metrics::ExecutionPlanMetricsSet,
        projection::ProjectionExec,
        repartition::RepartitionExec,
        stream::RecordBatchStreamAdapter,
        union::UnionExec,
    },
};
use futures::StreamExt;

use crate::scan::{held_segments::scan_of, segment_scan::SegmentScan, source_union::SourceUnion};

/// The name of the column of counts.
const ROWS: &str = "rows";

/// The same rows with a second column: how many rows a row stands for. Rows with the same value may come as one. Rows without a
/// column come with the value at which their conditions look. Partitions are as many. `None` for a plan of several columns, or one
/// in which no scan of segments can count.
pub fn counted(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let mut is_counted = false;
    let of_value = match plan.schema().fields().is_empty() {
        true => with_value(plan),
        false => Ok(Some(Arc::clone(plan))),
    };
    let counted = of_value.and_then(|plan| match plan {
        Some(plan) => with_counts_column(&plan, &mut is_counted),
        None => Ok(None),
    });
    match counted {
        Ok(plan) => plan.filter(|_| is_counted),
        Err(error) => {
            tracing::debug!(%error, "planned without counting rows");
            None
        }
    }
}

/// Rows without a column with the one value at which their conditions look; `None` if they have none, or several.
fn with_value(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = scan_of(plan.as_ref()).filter(|scan| scan.is_countable()) {
        let scan = scan.with_value_of_conditions()?;
        return Ok(scan.map(|scan| -> Arc<dyn ExecutionPlan> { DataSourceExec::from_data_source(scan) }));
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        let input = with_value(dealt.input())?;
        return input.map(|input| replace_children_if_necessary(Arc::clone(plan), vec![input])).transpose();
    }
    let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) else {
        return Ok(None);
    };
    // The inputs of a union have the same columns.
    let mut scans = filter.input().children().into_iter().filter_map(|input| scan_of(input.as_ref()));
    let Some(value) = scans.next().map(|scan| scan.value_of(filter.predicate())).transpose()?.flatten() else {
        return Ok(None);
    };
    let filter = FilterExecBuilder::new(Arc::clone(filter.predicate()), Arc::clone(filter.input()))
        .with_default_selectivity(filter.default_selectivity())
        .with_batch_size(filter.batch_size())
        .apply_projection(Some(vec![value]))?
        .build()?;
    Ok(Some(Arc::new(filter)))
}

/// The rows of a plan with the column of counts, if the plan has one column. `is_counted` says whether there is a scan that
/// counts.
fn with_counts_column(plan: &Arc<dyn ExecutionPlan>, is_counted: &mut bool) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = plan.schema();
    let [value] = schema.fields().as_ref() else { return Ok(None) };
    if let Some(scan) = scan_of(plan.as_ref()).filter(|scan| scan.is_countable()) {
        *is_counted = true;
        let count = Field::new(ROWS, DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![Arc::clone(value), Arc::new(count)]));
        return Ok(Some(DataSourceExec::from_data_source(CountedRows { rows: scan.clone(), schema })));
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        let inputs = plan.children();
        let counted = inputs.into_iter().map(|input| with_counts_column(input, is_counted)).collect::<Result<_>>()?;
        return match counted {
            Some(inputs) => SourceUnion::of(inputs).map(Some),
            None => Ok(None),
        };
    }
    if let Some(plan) = filtered(plan)? {
        return with_counts_column(&plan, is_counted);
    }
    // Another name for the column.
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
        && let [renamed] = projection.expr()
        && renamed.expr.downcast_ref::<Column>().is_some()
        && let Some(input) = with_counts_column(projection.input(), is_counted)?
    {
        let columns = column_and(value.name(), Arc::new(Column::new(ROWS, 1)), input.schema().field(0).name());
        return Ok(Some(Arc::new(ProjectionExec::try_new(columns, input)?)));
    }
    // Partitions of rows may be dealt out as partitions of counts are.
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>()
        && let Partitioning::RoundRobinBatch(_) = dealt.partitioning()
        && let Some(input) = with_counts_column(dealt.input(), is_counted)?
    {
        return replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some);
    }
    let columns = column_and(value.name(), lit(1_i64), value.name());
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(plan))?)))
}

/// The first column, whose name is `own` there, by a name, and the counts.
fn column_and(name: &str, counts: Arc<dyn PhysicalExpr>, own: &str) -> [(Arc<dyn PhysicalExpr>, String); 2] {
    [(Arc::new(Column::new(own, 0)), name.to_owned()), (counts, ROWS.to_owned())]
}

/// A filter of rows of segments and of memory as a union without it: scans of segments whose rows all pass, because it
/// reached them, and the filter over each of the other inputs. `None` for other plans.
fn filtered(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) else {
        return Ok(None);
    };
    if filter.input().downcast_ref::<UnionExec>().is_none() {
        return Ok(None);
    }
    let handed_on = match filter.projection().as_deref() {
        Some([column]) => *column,
        Some(_) => return Ok(None),
        None => 0,
    };
    let mut inputs = Vec::new();
    for input in filter.input().children() {
        let without = match scan_of(input.as_ref()) {
            Some(scan) if scan.has_filter(filter.predicate())? => scan.only_column(handed_on)?,
            _ => None,
        };
        inputs.push(match without {
            Some(scan) => Arc::new(DataSourceExec::new(scan)),
            None => replace_children_if_necessary(Arc::clone(plan), vec![Arc::clone(input)])?,
        });
    }
    SourceUnion::of(inputs).map(Some)
}

/// A scan of one column of segments, whose rows are counted.
#[derive(Debug, Clone)]
struct CountedRows {
    rows: SegmentScan,
    schema: SchemaRef,
}

/// A batch with the column of counts: 1 for each row, if it has none yet.
fn with_counts(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.num_columns() == schema.fields().len() {
        return Ok(batch);
    }
    let ones: ArrayRef = Arc::new(Int64Array::from_value(1, batch.num_rows()));
    let columns = batch.columns().iter().cloned().chain([ones]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

impl DataSource for CountedRows {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.schema);
        let rows = self.rows.open_counted(args, &schema)?;
        let counted = rows.map(move |batch| with_counts(batch?, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), counted)))
    }

    fn create_sibling_state(&self, config: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        self.rows.create_sibling_state(config)
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counted, ")?;
        self.rows.fmt_as(format, f)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.rows.output_partitioning().partition_count())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.rows.scheduling_type()
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    /// It is made after plans are optimized, so that nobody pushes anything into it.
    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.rows.metrics()
    }

    fn try_swapping_with_projection(&self, _: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.rows.apply_expressions(f)
    }
}
