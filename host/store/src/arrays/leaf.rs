//! The builder of a column of scalars.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{
            Array, ArrayBuilder, ArrayRef, BooleanBufferBuilder, BooleanBuilder, Float64Builder, Int64Builder,
            StringViewArray, StringViewBuilder, TimestampMicrosecondBuilder, UInt32Array,
        },
        buffer::NullBuffer,
        compute::take,
    },
    error::Result,
};

use crate::schema::kind::Scalar;

/// The values of a leaf, without NULLs.
#[derive(Debug)]
pub(crate) enum Leaf {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringViewBuilder),
    Time(TimestampMicrosecondBuilder),
}

impl Leaf {
    pub(crate) fn new(ty: Scalar) -> Leaf {
        match ty {
            // No capacity is reserved: a batch may have a thousand columns with one value each.
            Scalar::Bool => Leaf::Bool(BooleanBuilder::with_capacity(0)),
            Scalar::Int => Leaf::Int(Int64Builder::with_capacity(0)),
            Scalar::Float => Leaf::Float(Float64Builder::with_capacity(0)),
            Scalar::Text => Leaf::Text(StringViewBuilder::with_capacity(0)),
            Scalar::Time => Leaf::Time(TimestampMicrosecondBuilder::with_capacity(0)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Leaf::Bool(b) => b.len(),
            Leaf::Int(b) => b.len(),
            Leaf::Float(b) => b.len(),
            Leaf::Text(b) => b.len(),
            Leaf::Time(b) => b.len(),
        }
    }

    /// Converts integers to floats. The caller has made sure that no integer loses digits.
    pub(crate) fn widen(&mut self) {
        if let Leaf::Int(ints) = self {
            let ints = ints.finish();
            let mut floats = Float64Builder::with_capacity(ints.len());
            ints.iter().for_each(|int| floats.append_option(int.map(|int| int as f64)));
            *self = Leaf::Float(floats);
        }
    }

    /// Bytes for each value, without the bytes of texts.
    pub(crate) fn width(&self) -> usize {
        match self {
            Leaf::Bool(_) => 1,
            Leaf::Int(_) | Leaf::Float(_) | Leaf::Time(_) => 8,
            Leaf::Text(_) => 16,
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Leaf::Bool(b) => Arc::new(b.finish()),
            Leaf::Int(b) => Arc::new(b.finish()),
            Leaf::Float(b) => Arc::new(b.finish()),
            Leaf::Text(b) => Arc::new(compact(b.finish())),
            Leaf::Time(b) => Arc::new(b.finish()),
        }
    }
}

/// Bytes that a column of texts may hold unused.
const SLACK: usize = 16 << 10;

/// Texts without room for more. A builder doubles its blocks, so that up to half of what it allocated is unused, for as
/// long as the batch is in memory.
fn compact(texts: StringViewArray) -> StringViewArray {
    let held: usize = texts.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    let used = texts.total_buffer_bytes_used();
    if held > used + used / 4 + SLACK { texts.gc() } else { texts }
}

/// A column of scalars: values, and the slots that have them.
#[derive(Debug)]
pub(crate) struct LeafColumn {
    pub(crate) values: Leaf,
    /// The slot of each value. All other slots are NULL.
    pub(crate) slots: Vec<u32>,
}

impl LeafColumn {
    pub(crate) fn new(ty: Scalar) -> LeafColumn {
        LeafColumn { values: Leaf::new(ty), slots: Vec::new() }
    }

    /// Assigns the value that was just appended to `slot`.
    pub(crate) fn end_value(&mut self, slot: usize) {
        self.slots.push(slot as u32);
    }

    pub(crate) fn finish(&mut self, slots: usize) -> Result<ArrayRef> {
        let values = self.values.finish();
        if values.len() == slots {
            return Ok(values);
        }
        let mut indices = vec![0; slots];
        let mut valid = BooleanBufferBuilder::new(slots);
        valid.append_n(slots, false);
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(at) = indices.get_mut(*slot as usize) {
                *at = index as u32;
                valid.set_bit(*slot as usize, true);
            }
        }
        let nulls = NullBuffer::new(valid.finish());
        Ok(take(&values, &UInt32Array::new(indices.into(), Some(nulls)), None)?)
    }
}
