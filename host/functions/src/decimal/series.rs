//! Kernels of arrays of decimals.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::form::{BigNumeric, Form, Numeric, array_of, held, is_numeric};
use super::text::text_of;
use crate::arrays::arity;
use crate::context::{count_made, value_error};
use crate::kernel::Kernel;
use crate::rows::{MAX_BATCH, MAX_SERIES, limit};
use crate::wording::{NULL_BOUND, UNSORTED_BOUNDS};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::lists("decimal_series", 3, |arguments, safe| match is_numeric(arguments)? {
        true => series::<Numeric>(arguments, safe),
        false => series::<BigNumeric>(arguments, safe),
    }),
    Kernel::arrays("decimal_bucket", 2, DataType::Int64, |arguments, safe| match is_numeric(arguments)? {
        true => buckets::<Numeric>(arguments, safe),
        false => buckets::<BigNumeric>(arguments, safe),
    }),
];

/// The numbers from one to another by steps.
fn series<F: Form>(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let (starts, ends, steps) = (held::<F>(arguments, 0)?, held::<F>(arguments, 1)?, held::<F>(arguments, 2)?);
    let (mut lengths, mut valid, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for ((start, end), step) in starts.iter().zip(ends).zip(steps) {
        let before = values.len();
        let (Some(start), Some(end), Some(step)) = (start, end, step) else {
            lengths.push(0);
            valid.push(false);
            continue;
        };
        let (down, size) = F::parts(step);
        if size.is_zero() {
            if !safe {
                return Err(value_error("the step of GENERATE_ARRAY is 0"));
            }
            lengths.push(0);
            valid.push(false);
            continue;
        }
        let mut next = Some(start);
        while let Some(value) = next.filter(|value| if down { *value >= end } else { *value <= end }) {
            if values.len() - before >= MAX_SERIES as usize {
                let (from, to) = (text_of::<F>(start), text_of::<F>(end));
                return Err(limit(format!(
                    "GENERATE_ARRAY from {from} to {to} would make too many elements; at most {MAX_SERIES} are allowed"
                )));
            }
            if values.len() >= MAX_BATCH / 32 {
                return Err(limit("a function would make too many elements; make shorter arrays"));
            }
            values.push(Some(value));
            next = F::plus(value, step);
        }
        lengths.push(values.len() - before);
        valid.push(true);
    }
    let item = Arc::new(Field::new("item", F::TYPE.arrow(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    let lists: ArrayRef = Arc::new(ListArray::try_new(item, offsets, array_of::<F>(values), nulls)?);
    count_made(&lists)?;
    Ok(lists)
}

/// How many bounds are less than or equal to the point.
fn buckets<F: Form>(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let lists = arguments.get(1).and_then(|array| array.as_list_opt::<i32>()).ok_or_else(arity)?;
    let counts = held::<F>(arguments, 0)?.iter().zip(lists.iter()).map(|row| {
        let (Some(point), Some(bounds)) = row else { return Ok(None) };
        let bounds = held::<F>(std::slice::from_ref(&bounds), 0)?;
        let fault = match bounds.null_count() > 0 {
            true => Some(NULL_BOUND),
            false => (!bounds.values().is_sorted()).then_some(UNSORTED_BOUNDS),
        };
        match fault {
            Some(_) if safe => Ok(None),
            Some(fault) => Err(value_error(fault)),
            None => {
                let count = bounds.values().partition_point(|bound| *bound <= point);
                Ok(Some(i64::try_from(count).unwrap_or(i64::MAX)))
            }
        }
    });
    Ok(Arc::new(Int64Array::from(counts.collect::<Result<Vec<_>>>()?)))
}
