//! The priority of the thread that merges segments: below that of the threads that callers wait for.
//!
//! Merging takes up to its part of a processor (`[compaction] percent`) in one piece. While both processors are in use, calls and queries
//! would wait for it as for each other.

/// The niceness of the thread. The kernel gives it a tenth of the time of a thread that is ready to run beside it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread for good. Where that cannot be done, it stays as it is.
pub(super) fn lower() {
    // Elsewhere this would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_asks_has_a_lower_priority() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        let lowered = std::thread::spawn(move || {
            lower();
            own()
        });
        assert_eq!((lowered.join().unwrap(), own()), (NICENESS.max(before), before));
    }
}
