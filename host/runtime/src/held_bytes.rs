//! The memory that rows hold in the host.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayData, RecordBatch};

/// Bytes of the buffers of a batch, whole even where the batch is a slice of them, each once even where columns share it.
pub(crate) fn held_bytes(batch: &RecordBatch) -> usize {
    let mut seen = HashSet::new();
    batch.columns().iter().map(|column| bytes_of(&column.to_data(), &mut seen)).sum()
}

fn bytes_of(data: &ArrayData, seen: &mut HashSet<usize>) -> usize {
    let buffers = data.buffers().iter().chain(data.nulls().map(|nulls| nulls.buffer()));
    let own: usize =
        buffers.filter(|buffer| seen.insert(buffer.data_ptr().as_ptr() as usize)).map(|buffer| buffer.capacity()).sum();
    own + data.child_data().iter().map(|child| bytes_of(child, seen)).sum::<usize>()
}
