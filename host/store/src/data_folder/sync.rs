//! Files and folders on stable storage.
//!
//! A new name is durable only after the folder that contains it is synced. So creating a folder syncs its parent.

use std::{
    fs::{self, File},
    path::Path,
};

use crate::error::{Result, StoreError};

/// Copies a file, durably; returns its length.
///
/// # Errors
/// [`StoreError::Io`]; its source tells whether the file is missing.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<u64> {
    let io = || StoreError::io(format!("copying {} to {}", from.display(), to.display()));
    let length = fs::copy(from, to).map_err(io())?;
    sync_file(to)?;
    Ok(length)
}

pub(crate) fn sync_file(path: &Path) -> Result<()> {
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.sync_all())
        .map_err(StoreError::io(format!("syncing {}", path.display())))
}

/// Creates a folder if it does not exist, durably. The parent is synced in any case, because an existing folder may
/// come from an attempt whose sync failed, or that a crash interrupted before the sync.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let is_new = !folder.is_dir();
    fs::create_dir_all(folder).map_err(StoreError::io(format!("creating {}", folder.display())))?;
    let synced = folder.parent().map_or(Ok(()), sync_folder);
    if is_new && synced.is_err() {
        // The name must be written again at the next attempt; repeating the sync alone may do nothing.
        let _ = fs::remove_dir(folder);
    }
    synced
}

pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    #[cfg(test)]
    let synced = crate::tests::folders::synced(folder, synced);
    synced.map_err(StoreError::io(format!("syncing folder {}", folder.display())))
}
