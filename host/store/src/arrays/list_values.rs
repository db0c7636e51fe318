//! TODO header

use datafusion::arrow::{
    array::{Array, ArrayRef, ListArray},
    buffer::{OffsetBuffer, ScalarBuffer},
};

/// The elements of a list alone, and where each row's begin: a slice of lists keeps the elements of the
/// whole.
pub(crate) fn own_values(list: &ListArray) -> (OffsetBuffer<i32>, ArrayRef) {
    let offsets = list.offsets();
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let values = list.values().slice(first as usize, (last - first) as usize);
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(offsets), values)
}
