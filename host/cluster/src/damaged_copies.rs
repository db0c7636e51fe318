//! Segments whose copies workers found damaged.
//!
//! A part that needs one fails on every worker, and after its first rows it takes its statement with it. So it runs on this
//! machine, which has a file of its own, until a worker may look again: the copy may be another one then.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_model::Failure;
use uuid::Uuid;

/// How long a copy counts as damaged.
const LASTING: Duration = Duration::from_secs(600);
/// The most segments of which it is known.
const MOST: usize = 4096;

/// Segments whose copies were found damaged, and when.
#[derive(Debug, Default)]
pub(crate) struct DamagedCopies(Mutex<HashMap<Uuid, Instant>>);

impl DamagedCopies {
    /// Notes the segment that a failure is about; whether that was not known.
    pub(crate) fn found(&self, failure: &Failure, now: Instant) -> bool {
        let Some(segment) = failure.location.as_deref().and_then(|name| Uuid::parse_str(name).ok()) else {
            return true;
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, found| now.saturating_duration_since(*found) < LASTING);
        known.len() < MOST && known.insert(segment, now).is_none()
    }

    /// Whether none was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether the copy of a segment counts as damaged.
    pub(crate) fn has(&self, segment: Uuid, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&segment).is_some_and(|found| now.saturating_duration_since(*found) < LASTING)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::Code;

    use super::*;

    #[test]
    fn a_copy_counts_as_damaged_for_some_time() {
        let (copies, now) = (DamagedCopies::default(), Instant::now());
        let segment = Uuid::from_u128(7);
        let failure = Failure::new(Code::DataDamaged, "it is damaged").about(&*segment.to_string());
        assert!(!copies.has(segment, now) && copies.found(&failure, now));
        assert!(copies.has(segment, now) && !copies.found(&failure, now) && !copies.has(Uuid::nil(), now));
        let later = now + LASTING;
        assert!(!copies.has(segment, later) && copies.found(&failure, later) && copies.has(segment, later));
    }
}
