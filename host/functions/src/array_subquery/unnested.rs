//! One UNNEST of a subquery over the arrays of a row: which element belongs to which row, and parts of these pairs as
//! columns.
//!
//! The columns of the row that the subquery reads are copied for each element. One of them may itself be a list
//! (`x IN UNNEST(list)`), so the pairs are taken in parts whose copies are small, and the copies are counted before they
//! are made.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::Schema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use tidegate_model::{Code, Failure};

use crate::arrays::{arity, copied_sizes};
use crate::context::{Transient, failed};

/// How many elements are held at once; batches with more are computed in smaller parts.
const ELEMENTS_AT_ONCE: usize = 64 << 10;
/// How many elements one row may unnest to.
const MAX_ELEMENTS: usize = 4 << 20;
/// The most bytes of the columns of a part, unless one element has more.
const PART: usize = 8 << 20;

/// The most bytes of an array of ours: what is larger may have more elements than offsets of 32 bits can count.
const MAX_ARRAY: usize = i32::MAX as usize;

/// A step over columns of known types.
#[derive(Debug)]
pub(super) struct CompiledStep {
    pub(super) array: Arc<dyn PhysicalExpr>,
    pub(super) keep: bool,
    /// The columns before it that are read after it.
    pub(super) carried: Vec<usize>,
    /// Whether the element is read.
    pub(super) element: bool,
    /// Whether its position is read.
    pub(super) offset: bool,
    /// The columns after it.
    pub(super) after: Arc<Schema>,
}

/// The pairs of a row and an element.
pub(super) struct Unnested<'a> {
    step: &'a CompiledStep,
    /// The carried columns.
    columns: Vec<ArrayRef>,
    values: ArrayRef,
    parents: Vec<u32>,
    elements: Vec<Option<u32>>,
    offsets: Vec<Option<i64>>,
    /// The bytes of the carried columns of each row, and those of each element.
    row_sizes: Vec<usize>,
    element_sizes: Vec<usize>,
}

impl<'a> Unnested<'a> {
    /// The pairs of some rows; `None` if they are too many for one part and there are several rows.
    pub(super) fn new(step: &'a CompiledStep, rows: &RecordBatch, one_row: bool) -> Result<Option<Self>> {
        // A constant list is not repeated for every row.
        let lists = step.array.evaluate(rows)?;
        let constant = matches!(lists, ColumnarValue::Scalar(_));
        let lists = lists.into_array(if constant { 1 } else { rows.num_rows() })?;
        let lists: &ListArray = lists.as_list_opt().ok_or_else(arity)?;
        let (mut parents, mut elements, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..rows.num_rows() {
            let parent = to_u32(row)?;
            let list = if constant { 0 } else { row };
            let bounds = match lists.value_offsets().get(list..list + 2) {
                Some([start, end]) if lists.is_valid(list) => *start..*end,
                _ => 0..0,
            };
            match parents.len() + bounds.len() {
                count if count > ELEMENTS_AT_ONCE && !one_row => return Ok(None),
                count if count > MAX_ELEMENTS => return Err(too_many()),
                _ => {}
            }
            if bounds.is_empty() && step.keep {
                parents.push(parent);
                elements.push(None);
                offsets.push(None);
            }
            for (position, element) in bounds.enumerate() {
                parents.push(parent);
                elements.push(u32::try_from(element).ok());
                offsets.push(i64::try_from(position).ok());
            }
        }
        let columns = step.carried.iter().map(|column| rows.columns().get(*column).cloned().ok_or_else(arity));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut row_sizes = vec![0; rows.num_rows()];
        for column in &columns {
            let sizes = copied_sizes(column);
            row_sizes
                .iter_mut()
                .zip(sizes)
                .for_each(|(sum, size): (&mut usize, usize)| *sum = sum.saturating_add(size));
        }
        let values = Arc::clone(lists.values());
        let element_sizes = if step.element { copied_sizes(&values) } else { Vec::new() };
        Ok(Some(Self { step, columns, values, parents, elements, offsets, row_sizes, element_sizes }))
    }

    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The bytes of the columns of all pairs.
    pub(super) fn bytes(&self) -> usize {
        self.sizes().fold(0, usize::saturating_add)
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        let size =
            |sizes: &[usize], place: u32| usize::try_from(place).ok().and_then(|place| sizes.get(place).copied());
        self.parents.iter().zip(&self.elements).map(move |(parent, element)| {
            let element = element.and_then(|element| size(&self.element_sizes, element)).unwrap_or_default();
            let row = size(&self.row_sizes, *parent).unwrap_or_default();
            row.saturating_add(element).saturating_add(size_of::<u64>())
        })
    }

    /// The parts in which the pairs are taken, with their bytes.
    pub(super) fn parts(&self) -> Vec<(Range<usize>, usize)> {
        let mut parts = Vec::new();
        let (mut start, mut bytes) = (0, 0_usize);
        for (place, size) in self.sizes().enumerate() {
            if place > start && bytes.saturating_add(size) > PART {
                parts.push((start..place, bytes));
                (start, bytes) = (place, 0);
            }
            bytes = bytes.saturating_add(size);
        }
        if start < self.len() {
            parts.push((start..self.len(), bytes));
        }
        parts
    }

    /// The columns of some pairs, and which of the `owners` of the rows each belongs to.
    pub(super) fn part(&self, part: Range<usize>, owners: &UInt32Array) -> Result<(RecordBatch, UInt32Array)> {
        let parents = UInt32Array::from(self.parents.get(part.clone()).ok_or_else(arity)?.to_vec());
        let owners = take(owners, &parents, None)?.as_primitive().clone();
        let taken = self.columns.iter().map(|column| take(column, &parents, None));
        let mut columns = taken.collect::<std::result::Result<Vec<_>, _>>()?;
        if self.step.element {
            let elements = self.elements.get(part.clone()).ok_or_else(arity)?.to_vec();
            columns.push(take(&self.values, &UInt32Array::from(elements), None)?);
        }
        if self.step.offset {
            columns.push(Arc::new(Int64Array::from(self.offsets.get(part).ok_or_else(arity)?.to_vec())));
        }
        Ok((batch(&self.step.after, columns, parents.len())?, owners))
    }
}

pub(super) fn batch(schema: &Arc<Schema>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let typed = columns.into_iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() { Ok(array) } else { cast(&array, field.data_type()) }
    });
    let columns = typed.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

pub(super) fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| too_many())
}

fn too_many() -> DataFusionError {
    let message = format!("a subquery over arrays visits more than {MAX_ELEMENTS} elements for one row");
    failed(Failure::new(Code::LimitExceeded, message))
}

/// Counts an array that is about to be made.
pub(super) fn hold(held: &mut Transient, bytes: usize) -> Result<()> {
    if bytes > MAX_ARRAY {
        return Err(failed(Failure::new(Code::LimitExceeded, "a subquery over arrays would make too much")));
    }
    held.grow(bytes).map_err(failed)
}
