//! How components ended, counted since the start.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidegate_runtime::Class;

/// The number of runs of components by how they ended.
#[derive(Debug, Default)]
pub struct ComponentOutcomes(Mutex<HashMap<Option<Class>, u64>>);

impl ComponentOutcomes {
    /// Counts a run that ended with an answer (`None`), or in this class.
    pub(crate) fn count(&self, ended: Option<Class>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ended).or_default();
        *count = count.saturating_add(1);
    }

    /// The counts so far. `None` are runs that ended with an answer.
    pub fn counts(&self) -> Vec<(Option<Class>, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(ended, count)| (*ended, *count)).collect()
    }
}
