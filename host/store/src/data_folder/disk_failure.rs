//! Telling a full disk from a broken one.
//!
//! A full disk refuses a write before it is acknowledged. The outcome is certain: the transaction is rolled back, and
//! writing works again once there is space. Only a failed *sync* leaves the outcome open. SQLite mostly reports
//! `SQLITE_FULL`. Where it reports a failed write instead (a quota causes that), writing a small file tells whether
//! there is space.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use parquet::errors::ParquetError;
use rusqlite::{ErrorCode, ffi};

use crate::error::StoreError;

/// As many bytes as a small transaction writes.
const PROBE_BYTES: usize = 128 << 10;

/// The same error, or [`StoreError::DiskFull`] if a full disk is the cause.
pub(crate) fn refine(error: StoreError, data: &Path) -> StoreError {
    let full = match &error {
        StoreError::Sqlite(inner) => {
            let code = inner.sqlite_error().map(|error| error.extended_code);
            // The outcome of a failed write is certain: the transaction is not complete in the log. A failed sync is
            // uncertain. So is a failed extension of the shared index (SQLITE_IOERR_SHMSIZE), which happens after the
            // sync: what is reported as failed could come back after a crash.
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

/// Failures of the disk that may pass. Writing to a damaged catalog does not make it better.
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
