//! The layout of a data folder: the names of its files and folders.
//!
//! ```text
//! catalog.sqlite, catalog.sqlite-wal, catalog.sqlite-shm   the catalog
//! acknowledged                                             the number of the last call that was acknowledged
//! catalog.copy                                             a copy of it that is on its way into an object store
//! segments/<source id>/<segment id>.parquet                segments
//! quarantine/                                              segments that are kept and not read
//! recovery/                                                the catalog of a folder that is being made of copies
//! lock                                                     held by the process that has the folder open
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::error::{Result, StoreError};

/// The file of the catalog.
pub(crate) const CATALOG: &str = "catalog.sqlite";

/// The file with the number of the last call that was acknowledged.
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// The file of a copy of the catalog that is being put into an object store.
pub(crate) const CATALOG_COPY: &str = "catalog.copy";

/// The folder of what is not complete while a data folder is made of copies.
pub(crate) const RECOVERY: &str = "recovery";

/// What only a data folder has that is being made of copies.
pub(crate) fn recovery_note(data: &Path) -> PathBuf {
    data.join(RECOVERY).join("attempt.json")
}

/// The folder of all segments.
pub(crate) fn segments_folder(data: &Path) -> PathBuf {
    data.join("segments")
}

/// The folder of the segments of a source.
pub(crate) fn source_folder(data: &Path, source: Uuid) -> PathBuf {
    segments_folder(data).join(source.to_string())
}

/// The name of a segment's file in the folder of its source.
pub(crate) fn segment_file(segment: Uuid) -> String {
    format!("{segment}.parquet")
}

/// The paths of all entries of a folder.
pub(crate) fn list_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = || StoreError::io(format!("listing {}", folder.display()));
    let entries = fs::read_dir(folder).map_err(io())?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(io())).collect()
}
