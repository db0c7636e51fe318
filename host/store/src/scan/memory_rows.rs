//! The rows of one batch in memory as a query reads them: filtered, and in the columns that it asks for.
//!
//! A filter mostly leaves few rows: those of one tenant. What only selects a stored column is taken as it is and filtered
//! alone; so a query copies nothing of the columns that it does not read. What has to be made (a value of the overflow, a
//! column of another type) is made of the rows that pass.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions},
        compute::{FilterBuilder, and, filter_record_batch, prep_null_mask_filter},
        datatypes::SchemaRef,
    },
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::Result,
    physical_expr::{
        PhysicalExpr,
        utils::{collect_columns, reassign_expr_columns},
    },
    physical_plan::metrics::Count,
};

use crate::{
    memory::mem_batch::MemBatch,
    scan::{adapted_path::AdaptedPath, expr_adapter::picks},
};

/// The filters and the projection of a scan over the columns of a batch.
#[derive(Debug)]
pub(crate) struct BatchExprs {
    columns: SchemaRef,
    output: SchemaRef,
    /// Filters over stored columns.
    stored: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters over what has to be made, over the columns in `needed`.
    made: Vec<Arc<dyn PhysicalExpr>>,
    /// Of each column of the output.
    projection: Vec<OutputColumn>,
    /// The places of the columns of which something has to be made.
    needed: Vec<usize>,
}

#[derive(Debug)]
enum OutputColumn {
    /// Selects a stored column.
    Stored(Arc<dyn PhysicalExpr>),
    /// Has to be made, over the columns in `needed`.
    Made(Arc<dyn PhysicalExpr>),
}

/// Whether an expression reads stored columns only.
fn is_stored(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut stored = true;
    let walked = expr.apply(|part| {
        stored &= part.downcast_ref::<AdaptedPath>().is_none();
        Ok(if stored { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    stored && walked.is_ok()
}

impl BatchExprs {
    /// `filters` and `exprs` are over `columns`; `exprs` make `output`.
    pub(crate) fn new(
        columns: SchemaRef,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        output: SchemaRef,
    ) -> Result<BatchExprs> {
        let (stored, made): (Vec<_>, Vec<_>) = filters.into_iter().partition(is_stored);
        let is_made = |expr: &&Arc<dyn PhysicalExpr>| !picks(expr);
        let read = made.iter().chain(exprs.iter().filter(is_made)).flat_map(collect_columns);
        let needed: Vec<usize> = read.map(|column| column.index()).collect::<BTreeSet<_>>().into_iter().collect();
        let narrow = Arc::new(columns.project(&needed)?);
        let over_needed = |expr| reassign_expr_columns(expr, &narrow);
        let made = made.into_iter().map(over_needed).collect::<Result<Vec<_>>>()?;
        let projection = exprs.into_iter().map(|expr| {
            Ok(if picks(&expr) { OutputColumn::Stored(expr) } else { OutputColumn::Made(over_needed(expr)?) })
        });
        let projection = projection.collect::<Result<Vec<_>>>()?;
        Ok(BatchExprs { columns, output, stored, made, projection, needed })
    }

    /// Whether they are over the columns of these rows.
    pub(crate) fn fits(&self, rows: &RecordBatch) -> bool {
        Arc::ptr_eq(&self.columns, rows.schema_ref()) || self.columns == *rows.schema_ref()
    }

    /// The rows of a slice for which all filters are true, in the columns of the output. A filter that fails is left to
    /// the filter operator above.
    fn read(&self, slice: &RecordBatch) -> Result<RecordBatch> {
        let mut passing = all_of(&self.stored, slice)?;
        let mut narrow = slice.project(&self.needed)?;
        if let Some(passing) = &passing {
            narrow = filter_record_batch(&narrow, passing)?;
        }
        for filter in &self.made {
            // Each one looks only at the rows for which those before it are true.
            if narrow.num_rows() > 0
                && let Some(mask) = mask(filter, &narrow)
            {
                narrow = filter_record_batch(&narrow, &mask)?;
                passing = Some(match passing {
                    Some(earlier) => within(&earlier, &mask),
                    None => mask,
                });
            }
        }
        let rows = narrow.num_rows();
        if rows == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.output)));
        }
        let filter = passing.filter(|_| rows < slice.num_rows()).map(|passing| {
            let filter = FilterBuilder::new(&passing);
            if self.projection.len() > 1 { filter.optimize().build() } else { filter.build() }
        });
        let columns = self.projection.iter().map(|column| match column {
            OutputColumn::Made(expr) => expr.evaluate(&narrow)?.into_array(rows),
            OutputColumn::Stored(expr) => {
                let array = expr.evaluate(slice)?.into_array(slice.num_rows())?;
                Ok(match &filter {
                    Some(filter) => filter.filter(&array)?,
                    None => array,
                })
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?)
    }
}

/// For which rows a filter is true; `None` if it fails.
fn mask(filter: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Option<BooleanArray> {
    let passes: ArrayRef = filter.evaluate(rows).and_then(|passes| passes.into_array(rows.num_rows())).ok()?;
    let passes = passes.as_boolean_opt()?;
    Some(if passes.null_count() > 0 { prep_null_mask_filter(passes) } else { passes.clone() })
}

/// For which rows all filters are true; `None` if none of them says anything.
fn all_of(filters: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Option<BooleanArray>> {
    let mut all: Option<BooleanArray> = None;
    for filter in filters {
        if all.as_ref().is_some_and(|all| !all.has_true()) {
            break;
        }
        if let Some(mask) = mask(filter, rows) {
            all = Some(match all {
                Some(all) => and(&all, &mask)?,
                None => mask,
            });
        }
    }
    Ok(all)
}

/// The rows of `earlier` for which `mask`, which is about these rows alone, is true too.
fn within(earlier: &BooleanArray, mask: &BooleanArray) -> BooleanArray {
    let mut both = BooleanBufferBuilder::new(earlier.len());
    both.append_n(earlier.len(), false);
    for (place, passes) in earlier.values().set_indices().zip(mask.values().iter()) {
        both.set_bit(place, passes);
    }
    BooleanArray::new(both.finish(), None)
}

/// The rows of a batch in slices of `step` rows, as a query reads them. Slices may be empty. `skipped` counts the rows that
/// filters left out.
pub(crate) fn slices(
    batch: Arc<MemBatch>,
    exprs: Arc<BatchExprs>,
    step: usize,
    skipped: Count,
) -> impl Iterator<Item = Result<RecordBatch>> + Send {
    let rows = batch.rows.num_rows();
    (0..rows).step_by(step).map(move |start| {
        let slice = batch.rows.slice(start, step.min(rows - start));
        let read = exprs.read(&slice)?;
        skipped.add(slice.num_rows().saturating_sub(read.num_rows()));
        Ok(read)
    })
}
