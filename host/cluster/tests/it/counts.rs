//! Counts of what became of statements, in the tests of the module that has this one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static COUNTS: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

pub(crate) fn counted(what: &'static str) {
    *COUNTS.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
}

pub(crate) fn count(what: &str) -> usize {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner).get(what).copied().unwrap_or_default()
}

pub(crate) fn counts() -> String {
    format!("{:?}", COUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until so many are counted: other tests of the same module count too, and run at the same time.
pub(crate) fn wait_for(what: &str, least: usize) {
    let (mut last, mut since) = (0, Instant::now());
    while last < least {
        std::thread::sleep(Duration::from_millis(100));
        if count(what) > last {
            (last, since) = (count(what), Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(300), "{last} of {least}: {}", counts());
    }
}
