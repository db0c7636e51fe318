//! Creation of the data folder itself, durable and private.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    data_folder::{
        private::{create_private_folder, make_private},
        sync,
    },
    error::{Result, StoreError},
};

/// Creates the data folder and its missing parents, durably: the parent of each new folder is synced, and that of the
/// data folder in any case, since it may come from a start that was interrupted. Returns the canonical path.
pub(crate) fn create_data_folder(dir: &Path) -> Result<PathBuf> {
    let finding = || StoreError::io(format!("finding {}", dir.display()));
    let absolute = std::path::absolute(dir).map_err(finding())?;
    let missing: Vec<&Path> = absolute.ancestors().take_while(|folder| !folder.is_dir()).collect();
    create_private_folder(&absolute)?;
    missing.iter().filter_map(|folder| folder.parent()).try_for_each(sync::sync_folder).inspect_err(|_| {
        // The names must be written again at the next attempt; repeating the sync alone may do nothing.
        missing.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    })?;
    let dir = fs::canonicalize(&absolute).map_err(finding())?;
    if missing.is_empty()
        && let Some(above) = dir.parent()
    {
        match sync::sync_folder(above) {
            // The parent belongs to somebody else, who created the data folder in it.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    make_private(&dir)?;
    Ok(dir)
}
