//! Telling a full disk from a broken one.
//!
//! A full disk refuses a write before it is acknowledged and is as certain as any other refusal:
//! what was tried is rolled back, and writing works again once there is room. Only a failed *sync*
//! leaves it open what is on disk. SQLite mostly says `SQLITE_FULL`; where it says that a write
//! failed (a quota does that), a small file tells whether there is room.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use parquet::errors::ParquetError;
use rusqlite::{Connection, ErrorCode, ffi};

use crate::error::StoreError;

/// As much as a small transaction writes.
const PROBE_BYTES: usize = 128 << 10;

/// The same error, or [`StoreError::DiskFull`] where that is what is behind it.
pub(crate) fn refine(error: StoreError, data: &Path) -> StoreError {
    let full = match &error {
        StoreError::Sqlite(inner) => {
            let code = inner.sqlite_error().map(|error| error.extended_code);
            // A write that failed is certain: the transaction is not whole in the log. A sync that
            // failed is not, nor is the extension of the shared index (SQLITE_IOERR_SHMSIZE), which
            // comes after the sync: what is said to have failed could come back after a crash.
            code == Some(ffi::SQLITE_IOERR_WRITE) && !has_room(data)
        }
        StoreError::Io { source, .. } => is_full(source),
        StoreError::Parquet { source: ParquetError::External(inner), .. } => {
            inner.downcast_ref::<io::Error>().is_some_and(is_full)
        }
        _ => false,
    };
    if full { StoreError::DiskFull(error.to_string()) } else { error }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn has_room(data: &Path) -> bool {
    let path = data.join("room.tmp");
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; PROBE_BYTES])?;
        file.sync_all()
    });
    let _ = fs::remove_file(&path);
    !written.is_err_and(|error| is_full(&error))
}

/// Lets SQLite write its log over from the start, as far as that is possible: without room nothing
/// is committed, without a commit nothing is moved out of the log, and then not even retention
/// could delete anything.
pub(crate) fn recycle_log(conn: &Connection) {
    // It may fail for want of room itself.
    let _ = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}

/// Failures of the disk, which may pass. A damaged catalog does not get better by being written to.
pub(crate) fn may_pass(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}

/// Failures after which the state of the file is uncertain.
pub(crate) fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}
