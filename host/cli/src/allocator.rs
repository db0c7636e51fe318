//! The allocator of the process, and how soon free memory goes back to the system.
//!
//! Events become columns on one thread, are written by a second and merged by a third, so that most memory is freed by another
//! thread than the one that asked for it. Version 3 of mimalloc lets any thread use or give back such memory; version 2 kept
//! it for the thread that had it first, also when that thread had nothing more to do.

#![expect(unsafe_code, reason = "the settings of the allocator are functions of C")]

use std::ffi::c_long;
use std::time::Duration;

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// After so many milliseconds free memory goes back to the system. Less costs page faults while events come in, more is
/// memory that nobody uses (`docs/contributing/measurements/ingest.md`).
const PURGE_DELAY_MS: c_long = 200;

/// `mi_option_purge_delay` of `mimalloc.h`, for which the crate has no name.
const PURGE_DELAY: mi_option_t = 15;

/// How often a process with nothing to do gives back free memory.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(1);

/// Gives free memory back also while nobody asks for any: the allocator itself looks at what it may give back only when
/// memory is asked for or freed, so that what a large statement had stayed until the next one ran. In a thread of its own,
/// until the process ends.
pub(crate) fn collect_in_background() {
    let collect = || {
        loop {
            std::thread::sleep(COLLECTION_INTERVAL);
            // SAFETY: it has no requirements, and may be called by any thread. Unless it is forced, it gives back what has
            // been free for the delay.
            unsafe { mi_collect(false) };
        }
    };
    if let Err(error) = std::thread::Builder::new().name("memory".to_owned()).spawn(collect) {
        tracing::warn!(%error, "free memory goes back to the system only while there is something to do");
    }
}

/// Settles how the allocator works, unless the environment says it (`MIMALLOC_PURGE_DELAY`). To be called first.
pub(crate) fn configure() {
    // SAFETY: it has no requirements: a number that is no option is ignored, and the value of this one is a number of
    // milliseconds, which is read whenever memory is freed.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    #[test]
    fn the_delay_is_the_option_that_is_set() {
        // SAFETY: it only reads a number.
        let now = || unsafe { mi_option_get(PURGE_DELAY) };
        // Another default is another option, or another version, for which the delay is to be measured again.
        assert_eq!(now(), 1_000);
        configure();
        assert_eq!(now(), PURGE_DELAY_MS);
    }
}
