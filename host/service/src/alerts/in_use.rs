//! What is in use at the moment, and how often: endpoints that are asked, hosts that are sent to, messages on their way.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// What is in use, and how often.
#[derive(Debug)]
pub(super) struct InUse<T>(Arc<Mutex<HashMap<T, usize>>>);

impl<T> Default for InUse<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Hash + Eq + Clone> InUse<T> {
    /// Uses it, if it is in use less than `most` times.
    pub(super) fn take(&self, what: &T, most: usize) -> Option<Use<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = all.entry(what.clone()).or_default();
        let is_free = *uses < most;
        if is_free {
            *uses += 1;
        }
        is_free.then(|| Use { of: Arc::clone(&self.0), what: what.clone() })
    }
}

/// A use, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Use<T: Hash + Eq> {
    of: Arc<Mutex<HashMap<T, usize>>>,
    what: T,
}

impl<T: Hash + Eq> Drop for Use<T> {
    fn drop(&mut self) {
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uses) = all.get_mut(&self.what) {
            *uses = uses.saturating_sub(1);
            if *uses == 0 {
                all.remove(&self.what);
            }
        }
    }
}
