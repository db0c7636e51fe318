//! Telling the operator of fields whose values are of several kinds.

use std::sync::{MutexGuard, PoisonError};

use crate::{shred::misfits::Misfits, source::Source};

impl Source {
    fn misfits(&self) -> MutexGuard<'_, Misfits> {
        self.misfits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a field has often had values of another kind than its column, since the store was opened.
    pub(crate) fn is_mixed(&self) -> bool {
        self.misfits().has_frequent()
    }

    /// Counts values that did not fit the column of their field. A field that has many is named in the log, once.
    pub(super) fn count_misfits(&self, more: &Misfits) {
        let frequent = {
            let mut all = self.misfits();
            all.add_all(more);
            all.new_frequent()
        };
        for (field, values) in frequent {
            let source = &self.info().name;
            tracing::warn!(source, field, values, "a field often has values of another kind than its column");
        }
    }
}
