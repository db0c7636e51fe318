//! TODO header

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

/// Sees to it that the data folder is there, and durably so: the folder above each one that is made
/// is synced, and the one above the data folder in any case, since it may have come from a start
/// that was cut off.
pub(crate) fn create_data_folder(dir: &Path) -> Result<PathBuf> {
    let finding = || StoreError::io(format!("finding {}", dir.display()));
    let absolute = std::path::absolute(dir).map_err(finding())?;
    let missing: Vec<&Path> = absolute.ancestors().take_while(|folder| !folder.is_dir()).collect();
    create_private_folder(&absolute)?;
    missing.iter().filter_map(|folder| folder.parent()).try_for_each(sync::sync_folder)?;
    let dir = fs::canonicalize(&absolute).map_err(finding())?;
    if missing.is_empty()
        && let Some(above) = dir.parent()
    {
        match sync::sync_folder(above) {
            // Somebody else's, who made the data folder in it.
            Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    make_private(&dir)?;
    Ok(dir)
}
