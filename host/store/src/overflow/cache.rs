//! The overflow index of the batch that is being read. The expressions of a projection share it, so that a batch is
//! indexed once and not once for each column.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::{arrow::array::ArrayRef, error::Result};

use crate::overflow::index::Overflow;

/// The index of the overflow column that was read last.
#[derive(Debug, Default)]
pub(crate) struct OverflowCache {
    last: Mutex<Option<(ArrayRef, Arc<Overflow>)>>,
}

impl OverflowCache {
    /// The index of `column`, made only if the last call was for another array.
    pub(crate) fn of_column(&self, column: &ArrayRef) -> Result<Arc<Overflow>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, overflow)) = last.as_ref()
            && Arc::ptr_eq(of, column)
        {
            return Ok(Arc::clone(overflow));
        }
        let overflow = Arc::new(Overflow::of_column(column)?);
        *last = Some((Arc::clone(column), Arc::clone(&overflow)));
        Ok(overflow)
    }
}
