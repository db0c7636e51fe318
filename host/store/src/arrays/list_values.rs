//! The elements of a list array that is a slice of a larger one.

use datafusion::arrow::{
    array::{Array, ArrayRef, ListArray},
    buffer::{OffsetBuffer, ScalarBuffer},
};

/// The elements that the rows of `list` have, and their offsets, which begin at 0. A slice of a list array still has
/// the elements of the whole array.
pub(crate) fn own_values(list: &ListArray) -> (OffsetBuffer<i32>, ArrayRef) {
    let offsets = list.offsets();
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let values = list.values().slice(first as usize, (last - first) as usize);
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(offsets), values)
}
