//! Failures that tests inject: a sync fails, and yet everything is in the file.

use crate::error::Result;

/// Counts of syncs that are to fail.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Transactions of calls whose sync fails from now on.
    pub(crate) appends: std::sync::atomic::AtomicUsize,
    /// Attempts to overwrite them that fail from now on.
    pub(crate) undoing: std::sync::atomic::AtomicUsize,
}

impl Faults {
    pub(crate) fn take<T>(counter: &std::sync::atomic::AtomicUsize, done: Result<T>) -> Result<T> {
        use std::sync::atomic::Ordering::SeqCst;
        if done.is_ok() && counter.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            return Err(rusqlite::Error::SqliteFailure(error, None).into());
        }
        done
    }
}
