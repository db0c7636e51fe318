//! Rows in memory as a source of the engine's scans.
//!
//! Batches keep the columns that their rows had; what a query asks for is made from them while it runs,
//! a slice of rows at a time, and only the paths that it reads: as a segment is read. So planning costs
//! nothing, a query that stops early has made no more than it took, and what stands between two operators
//! is bounded however wide the source is.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::{DataType, SchemaRef},
    },
    common::{Statistics, internal_datafusion_err, stats::Precision, tree_node::TreeNodeRecursion},
    datasource::source::DataSource,
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, expressions::Column,
        projection::ProjectionExprs,
    },
    physical_expr_adapter::PhysicalExprAdapter,
    physical_plan::{DisplayFormatType, execution_plan::SchedulingType, stream::RecordBatchStreamAdapter},
};

use crate::{
    batch::MemBatch,
    expr::{Adapter, field_chain},
    shape::Shape,
};

/// The most cells (leaf columns times rows) that are made at once.
const MAX_CELLS: usize = 1 << 20;

/// The fewest rows that are made at once.
const LEAST_ROWS: usize = 64;

/// A partition for each batch, each newest row first.
#[derive(Debug, Clone)]
pub(crate) struct MemoryRows {
    batches: Vec<Arc<MemBatch>>,
    shape: Arc<Shape>,
    /// The schema of the table.
    table: SchemaRef,
    /// What is read, over that schema, and the schema of that.
    projection: ProjectionExprs,
    output: SchemaRef,
    /// The order of the rows, over the table's schema.
    order: LexOrdering,
    fetch: Option<usize>,
}

impl MemoryRows {
    pub(crate) fn new(
        batches: Vec<Arc<MemBatch>>,
        shape: Arc<Shape>,
        table: SchemaRef,
        columns: Option<&Vec<usize>>,
        order: LexOrdering,
        fetch: Option<usize>,
    ) -> Result<MemoryRows> {
        let all: Vec<usize> = (0..table.fields().len()).collect();
        let projection = ProjectionExprs::from_indices(columns.unwrap_or(&all), &table);
        let output = Arc::new(projection.project_schema(&table)?);
        Ok(MemoryRows { batches, shape, table, projection, output, order, fetch })
    }

    /// Rows of one slice.
    fn slice_rows(&self, batch_size: usize) -> usize {
        let leaves: usize = self.output.fields().iter().map(|field| leaves(field.data_type())).sum();
        (MAX_CELLS / leaves.max(1)).clamp(LEAST_ROWS, batch_size.max(LEAST_ROWS))
    }
}

fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item) => leaves(item.data_type()),
        _ => 1,
    }
}

/// Whether an expression only picks what is there: a column, or a path of fields below one.
fn picks(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Column>().is_some() || field_chain(expr).is_some()
}

impl DataSource for MemoryRows {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(batch) = self.batches.get(partition).map(Arc::clone) else {
            return Err(internal_datafusion_err!("memory has no partition {partition}"));
        };
        let adapter = Adapter::new(Arc::clone(&self.shape), Arc::clone(&self.table), batch.rows.schema());
        let exprs = self.projection.expr_iter().map(|expr| adapter.rewrite(expr)).collect::<Result<Vec<_>>>()?;
        let step = self.slice_rows(context.session_config().batch_size());
        let rows = batch.rows.num_rows().min(self.fetch.unwrap_or(usize::MAX));
        let output = Arc::clone(&self.output);
        let slices = (0..rows).step_by(step).map(move |start| {
            let slice = batch.rows.slice(start, step.min(rows - start));
            let columns = exprs
                .iter()
                .map(|expr| expr.evaluate(&slice)?.into_array(slice.num_rows()))
                .collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(slice.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&output), columns, &options)?)
        });
        let stream = futures::stream::iter(slices);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.output), stream)))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) {
            return writeln!(f, "format=memory");
        }
        write!(f, "memory, partitions={}, projection=[{}]", self.batches.len(), self.projection)?;
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.batches.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let table = EquivalenceProperties::new_with_orderings(Arc::clone(&self.table), [self.order.clone()]);
        match self.projection.projection_mapping(&self.table) {
            Ok(mapping) => table.project(&mapping, Arc::clone(&self.output)),
            // Nothing is known then.
            Err(_) => EquivalenceProperties::new(Arc::clone(&self.output)),
        }
    }

    fn scheduling_type(&self) -> SchedulingType {
        // The scan above puts points in at which others may run.
        SchedulingType::NonCooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = |batch: &Arc<MemBatch>| batch.rows.num_rows().min(self.fetch.unwrap_or(usize::MAX));
        let rows = match partition {
            Some(partition) => self.batches.get(partition).map_or(0, rows),
            None => self.batches.iter().map(rows).sum(),
        };
        Ok(Arc::new(Statistics { num_rows: Precision::Exact(rows), ..Statistics::new_unknown(&self.output) }))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        let fetch = match (self.fetch, fetch) {
            (Some(own), Some(fetch)) => Some(own.min(fetch)),
            (_, fetch) => fetch,
        };
        Some(Arc::new(MemoryRows { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// Takes over what only picks. Anything that computes stays above, where it is done once.
    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        if !projection.iter().all(|expr| picks(&expr.expr)) {
            return Ok(None);
        }
        let projection = self.projection.try_merge(projection)?;
        let output = Arc::new(projection.project_schema(&self.table)?);
        Ok(Some(Arc::new(MemoryRows { projection, output, ..self.clone() })))
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
