//! The builder of a column of lists of scalars.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, ListArray, NullBufferBuilder},
        buffer::OffsetBuffer,
        datatypes::Field,
    },
    error::Result,
};

use crate::{arrays::leaf::Leaf, schema::kind::Scalar};

/// A column of lists of scalars.
#[derive(Debug)]
pub(crate) struct ListColumn {
    pub(crate) values: Leaf,
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}

impl ListColumn {
    pub(crate) fn new(ty: Scalar) -> ListColumn {
        ListColumn { values: Leaf::new(ty), offsets: vec![0], valid: NullBufferBuilder::new(0) }
    }

    /// Adds NULLs up to `row`.
    pub(crate) fn pad(&mut self, row: usize) {
        let missing = row.saturating_sub(self.valid.len());
        self.valid.append_n_nulls(missing);
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.extend(std::iter::repeat_n(end, missing));
    }

    /// Ends the row whose elements were just appended to `values`.
    pub(crate) fn end_row(&mut self) {
        self.valid.append_non_null();
        self.offsets.push(self.values.len() as i32);
    }

    pub(crate) fn finish(&mut self, rows: usize) -> Result<ArrayRef> {
        self.pad(rows);
        let values = self.values.finish();
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(std::mem::take(&mut self.offsets).into());
        Ok(Arc::new(ListArray::try_new(item, offsets, values, self.valid.finish())?))
    }
}
