//! The errors of the store, as one type.
//!
//! Callers turn them into HTTP answers and exit codes. So a variant names what is wrong, and not the call that noticed
//! it.

use std::path::PathBuf;

use tidegate_model::{NotForSender, NotOfTenant};
use uuid::Uuid;

/// Why a store operation did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No source has this name.
    #[error("unknown source `{name}`{}", known_list(.known))]
    UnknownSource {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A source cannot tell which of its rows are those of a tenant.
    #[error("the source `{source_name}` has no rows of a tenant: {why:?}")]
    NotOfTenant {
        /// The source.
        source_name: String,
        /// Why.
        why: NotOfTenant,
    },
    /// A source takes no events of a token that sends logs of one tenant.
    #[error("the source `{source_name}` takes no events of this sender: {why:?}")]
    NotForSender {
        /// The source.
        source_name: String,
        /// Why.
        why: NotForSender,
    },
    /// What a source says of its tenants has changed while events for it arrived.
    #[error("the tenant keys of the source `{0}` have changed while events for it arrived; none of them is stored")]
    TenancyChanged(String),
    /// A name is empty, longer than 255 bytes, or holds a control character.
    #[error("invalid name `{name}`: {reason}")]
    InvalidName {
        /// The name as given.
        name: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// Something with this name is there already.
    #[error("`{0}` exists already")]
    Exists(String),
    /// Stored data cannot be read back.
    #[error("{what} is corrupt: {reason}")]
    Corrupt {
        /// The part that cannot be read.
        what: String,
        /// How that showed.
        reason: String,
    },
    /// Another process works in the data folder.
    #[error("the data folder {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// The catalog was written by a newer version, or is not a catalog at all.
    #[error("the catalog {} cannot be used: {reason}", path.display())]
    Incompatible {
        /// The catalog file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A folder in which no store was ever opened.
    #[error("there is no catalog in {}: is it a data folder?", .0.display())]
    NoCatalog(PathBuf),
    /// There are segments but no catalog that names them. A new catalog would name none of them.
    #[error(
        "there are segments in {} and no catalog that names them: put catalog.sqlite back, or restore a backup; without either, \
         `tidegate repair --rebuild-catalog` makes a catalog of what the segments say, with their sources and \
         without endpoints and tokens", .0.display()
    )]
    CatalogMissing(PathBuf),
    /// A recovery from copies was cut off.
    #[error(
        "{} is being made of the copies in an object store, and is not complete: start with --recover-from again, or empty it",
        .0.display()
    )]
    Unrecovered(PathBuf),
    /// A folder that others can read, and whose mode cannot be changed: it has other files in it, or belongs to another
    /// user.
    #[error(
        "others can read {} (mode {mode:o}), and logs and hashes of tokens would be in it: make it private \
         (chmod 700), or name a folder that is not there yet, which is made so", path.display()
    )]
    Exposed {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A folder that should be created is not empty, or is a file.
    #[error("{} is there already and is not an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// A file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path.
        what: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The address of a store of segments cannot be one.
    #[error("`{url}` is no address of a store of segments: {reason}")]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An object store cannot be used with its settings.
    #[error("the object store cannot be used: {reason}")]
    ObjectStore {
        /// The library's answer.
        reason: String,
    },
    /// The object store has the segments of another store.
    #[error(
        "the object store at this address has the segments of another data folder (catalog {other}): give each data \
         folder an address of its own; if the other one is lost for good and its copies are not needed, delete \
         {object} there"
    )]
    OtherOwner {
        /// The catalog whose segments are there.
        other: String,
        /// The object that says so.
        object: String,
    },
    /// A data folder cannot be made of the copies in an object store.
    #[error("{} is not recovered from {url}: {reason}", path.display())]
    RecoveryRefused {
        /// The data folder.
        path: PathBuf,
        /// The address of the copies.
        url: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The data folder was made of a backup, and another one has the copies in the object store.
    #[error(
        "this data folder was restored from a backup, and another one has the copies in the object store (epoch {epoch}, since \
         {since}): if that server is gone for good, or is to stop, start this one once with --take-over; else give it another \
         `[storage] url`"
    )]
    NotAskedToTakeOver {
        /// The epoch of the other one.
        epoch: u64,
        /// When it was taken.
        since: String,
    },
    /// Another data folder has been made of the copies in the object store, and has the catalog now.
    #[error(
        "another server was recovered from the copies in the object store and has taken over (epoch {epoch}, since {since}): \
         what this data folder has from later is not there, and may be looked at without `[storage] url`; to go on here instead, stop the \
         other server for good and delete the objects in epochs/"
    )]
    Replaced {
        /// The epoch of the other one.
        epoch: u64,
        /// When it was taken.
        since: String,
    },
    /// SQLite refused.
    #[error("catalog: {0}")]
    Sqlite(#[source] rusqlite::Error),
    /// A segment could not be written or read.
    #[error("segment {segment}: {source}")]
    Parquet {
        /// The segment.
        segment: Uuid,
        /// Parquet's answer.
        source: parquet::errors::ParquetError,
    },
    /// Columns could not be built or joined.
    #[error("columns: {0}")]
    Arrow(#[from] datafusion::arrow::error::ArrowError),
    /// The transaction with the events failed. None of them was stored.
    #[error("the write-ahead transaction failed: {0}")]
    CommitFailed(String),
    /// A write failed, and what it left could not be undone. It is unknown whether the request was carried out; a
    /// restart may show that it was.
    #[error("a write failed, and it is not known whether it is stored: {0}")]
    Unconfirmed(String),
    /// An earlier request had the same key and another body. Nothing of this one was stored.
    #[error("the key of the request was used for another body")]
    KeyReused,
    /// The disk is full, or the quota of this user. Nothing was changed. Writing works again, without a restart, once
    /// there is space.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// More unflushed data than the store may hold. Try again later.
    #[error("{held} bytes wait to be flushed, the limit is {limit}")]
    Overloaded {
        /// Bytes held now.
        held: usize,
        /// The limit of [`StoreOptions::max_unflushed_bytes`](crate::StoreOptions).
        limit: usize,
    },
    /// More events of one source wait to be shredded than may. Try again later.
    #[error("{rows} events of the source wait to become columns, the limit is {limit}")]
    Backlog {
        /// Events that wait now.
        rows: usize,
        /// The limit of [`StoreOptions::max_raw_rows`](crate::StoreOptions).
        limit: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A write failed earlier, and so did the following ones; nothing was stored. Writing is tried every few seconds,
    /// unless the catalog is damaged. Reads work.
    #[error("the store is read-only after a failed write: {0}")]
    ReadOnly(String),
}

/// The store's result.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return StoreError::DiskFull(format!("catalog: {error}"));
        }
        StoreError::Sqlite(error)
    }
}

impl StoreError {
    /// Adds what was being done when the operating system refused.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StoreError {
        let what = what.into();
        move |source| StoreError::Io { what, source }
    }

    /// Whether a segment was certainly not registered when registering it ended so.
    pub(crate) fn changed_nothing(&self) -> bool {
        matches!(
            self,
            StoreError::Sqlite(_)
                | StoreError::DiskFull(_)
                | StoreError::CommitFailed(_)
                | StoreError::ObjectStore { .. }
                | StoreError::OtherOwner { .. }
                | StoreError::Replaced { .. }
                | StoreError::NotAskedToTakeOver { .. }
                | StoreError::ReadOnly(_)
        )
    }

    /// A stored value that does not have the form in which it was written.
    pub(crate) fn corrupt(what: impl Into<String>, reason: impl ToString) -> StoreError {
        StoreError::Corrupt { what: what.into(), reason: reason.to_string() }
    }
}

fn known_list(known: &[String]) -> String {
    match known {
        [] => String::new(),
        some => format!("; there are {}", some.join(", ")),
    }
}
