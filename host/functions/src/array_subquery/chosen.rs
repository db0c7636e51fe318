//! Which of the computed elements are in the result, in which order, and the result that is made of them.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, new_null_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, UInt32Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use super::unnested::{hold, to_u32};
use super::{ArraySubquery, Finish};
use crate::arrays::copied_size;
use crate::context::{Transient, count_copied, value_error};
use crate::row_form::row_forms;
use crate::wording::MORE_THAN_ONE_ROW;

/// How the result of each row is made of its elements.
#[derive(Debug)]
pub(super) struct Choice {
    sorts: Vec<SortOptions>,
    distinct: bool,
    skip: usize,
    limit: Option<usize>,
    value_type: DataType,
    finish: Finish,
}

impl Choice {
    /// That of a subquery whose values have a type.
    pub(super) fn new(query: &ArraySubquery, value_type: DataType) -> Self {
        let sorts = query.sorts.iter();
        let sorts = sorts.map(|sort| SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first }).collect();
        let ArraySubquery { distinct, skip, limit, finish, .. } = *query;
        Self { sorts, distinct, skip, limit, value_type, finish }
    }

    /// The type of the results.
    pub(super) fn returns(&self) -> DataType {
        match self.finish {
            Finish::Exists => DataType::Boolean,
            Finish::Scalar => self.value_type.clone(),
            Finish::Array => DataType::List(Arc::new(Field::new_list_field(self.value_type.clone(), true))),
        }
    }

    /// The positions of the elements of the result: by row, then as sorted, without duplicates, after OFFSET and within
    /// LIMIT.
    pub(super) fn order(&self, sorts: &[ArrayRef], owners: &UInt32Array, values: &ArrayRef) -> Result<Vec<u32>> {
        let count = owners.len();
        let mut order: Vec<u32> = if self.sorts.is_empty() {
            (0..to_u32(count)?).collect()
        } else {
            let mut keys = vec![SortColumn { values: Arc::new(owners.clone()), options: None }];
            for (sort, options) in sorts.iter().zip(&self.sorts) {
                keys.push(SortColumn { values: Arc::clone(sort), options: Some(*options) });
            }
            lexsort_to_indices(&keys, None)?.values().to_vec()
        };
        if self.distinct {
            let fields = [DataType::UInt32, self.value_type.clone()].map(SortField::new).to_vec();
            let rows = RowConverter::new(fields)?;
            let mut held = Transient::default();
            let rows = row_forms(&rows, &[Arc::new(owners.clone()), Arc::clone(values)], &mut held)?;
            let mut seen = std::collections::HashSet::new();
            order.retain(|at| usize::try_from(*at).is_ok_and(|at| seen.insert(rows.row(at))));
        }
        if self.skip > 0 || self.limit.is_some() {
            let (mut of, mut passed) = (None, 0_usize);
            order.retain(|at| {
                let owner = usize::try_from(*at).ok().and_then(|at| owners.values().get(at));
                if owner != of {
                    (of, passed) = (owner, 0);
                }
                passed += 1;
                passed > self.skip && self.limit.is_none_or(|limit| passed - self.skip <= limit)
            });
        }
        Ok(order)
    }

    /// The results of rows, of the elements at the positions in `order`.
    pub(super) fn finished(
        &self,
        values: &ArrayRef,
        owners: &UInt32Array,
        order: &[u32],
        rows: usize,
    ) -> Result<ArrayRef> {
        let picked = UInt32Array::from(order.to_vec());
        let owners = take(owners, &picked, None)?;
        let ranges = ranges(owners.as_primitive::<UInt32Type>().values(), rows);
        match self.finish {
            Finish::Exists => Ok(Arc::new(BooleanArray::from_iter(ranges.iter().map(|range| Some(!range.is_empty()))))),
            Finish::Scalar => {
                let only = |range: &Range<usize>| match range.len() {
                    0 => Ok(None),
                    1 => Ok(order.get(range.start).copied()),
                    _ => Err(value_error(format!("{MORE_THAN_ONE_ROW}, or write ARRAY(...)"))),
                };
                let places = ranges.iter().map(only).collect::<Result<Vec<_>>>()?;
                if values.is_empty() {
                    return Ok(new_null_array(values.data_type(), rows));
                }
                copied(values, &UInt32Array::from(places))
            }
            Finish::Array => {
                let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths(ranges.iter().map(ExactSizeIterator::len));
                Ok(Arc::new(ListArray::try_new(field, offsets, copied(values, &picked)?, None)?))
            }
        }
    }
}

/// The elements of each row, as ranges: the numbers of their rows are in ascending order.
pub(super) fn ranges(owners: &[u32], rows: usize) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::with_capacity(rows);
    for row in 0..rows {
        let rest = owners.get(start..).unwrap_or_default();
        let len = rest.iter().take_while(|owner| usize::try_from(**owner).is_ok_and(|owner| owner == row)).count();
        ranges.push(start..start + len);
        start += len;
    }
    ranges
}

/// Some elements of an array, of which none is taken twice.
fn copied(values: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef> {
    let mut held = Transient::default();
    hold(&mut held, copied_size(values))?;
    let array = take(values, places, None)?;
    drop(held);
    count_copied(&array)?;
    Ok(array)
}
