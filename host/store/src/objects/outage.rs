//! A store that does not answer is waited for by one request at a time.
//!
//! Whoever reads for a statement can be told at once that the store fails, and have the statement read elsewhere. Without
//! this, each statement would find that out by itself, after the time of its first request.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::objects::object_error::ObjectError;

/// Whether a store fails.
#[derive(Debug)]
pub(crate) struct Outage {
    /// For so long after a request that failed, or that tries again, no other one is sent; zero for never.
    pause: Duration,
    failed: Mutex<Option<Failed>>,
}

#[derive(Debug)]
struct Failed {
    why: ObjectError,
    at: Instant,
}

impl Outage {
    pub(crate) fn new(pause: Duration) -> Outage {
        Outage { pause, failed: Mutex::default() }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a request is not sent. `None` for the first one after a pause, on which the others depend then.
    pub(crate) fn refuses(&self) -> Option<ObjectError> {
        let mut failed = self.failed();
        let last = failed.as_mut()?;
        if last.at.elapsed() >= self.pause {
            last.at = Instant::now();
            return None;
        }
        Some(last.why.clone())
    }

    /// Notes what came of a request. That an object is missing is an answer.
    pub(crate) fn note(&self, error: Option<&ObjectError>) {
        let failed = error.filter(|error| !error.is_damage());
        *self.failed() = failed.map(|why| Failed { why: why.clone(), at: Instant::now() });
    }

    /// Whether the last request failed, and no longer ago than two pauses: where nothing is asked for, nothing fails.
    pub(crate) fn is_on(&self) -> bool {
        self.failed().as_ref().is_some_and(|last| last.at.elapsed() <= self.pause * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_one_request_at_a_time_is_sent() {
        let (outage, why) = (Outage::new(Duration::from_secs(3600)), ObjectError::Refused("it hangs"));
        assert_eq!((outage.refuses(), outage.is_on()), (None, false));
        outage.note(Some(&why));
        assert_eq!((outage.refuses(), outage.refuses(), outage.is_on()), (Some(why.clone()), Some(why.clone()), true));
        let back = |outage: &Outage| {
            if let Some(failed) = outage.failed().as_mut() {
                failed.at = failed.at.checked_sub(Duration::from_secs(3600)).unwrap_or(failed.at);
            }
        };
        back(&outage);
        assert!(outage.is_on(), "a pause ago");
        assert_eq!((outage.refuses(), outage.refuses()), (None, Some(why.clone())), "one tries");
        (0..3).for_each(|_| back(&outage));
        assert!(!outage.is_on(), "it was long ago");
        outage.note(Some(&ObjectError::Missing));
        assert_eq!((outage.refuses(), outage.is_on()), (None, false));
        let never = Outage::new(Duration::ZERO);
        never.note(Some(&why));
        assert_eq!((never.refuses(), never.refuses()), (None, None));
    }
}
