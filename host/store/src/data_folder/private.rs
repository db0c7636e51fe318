//! Folders that only their owner can read: they hold logs and hashes of tokens.

use std::{fs, path::Path};

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
};

/// Creates a folder and its missing parents, for this user only.
pub(crate) fn create_private_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(StoreError::io(format!("creating {}", folder.display())))
}

/// Makes an existing folder private. The access mode is changed only if the folder belongs to the store alone: if it is
/// empty, or has a catalog in it. A folder with other files may be one that others need.
///
/// # Errors
/// [`StoreError::Exposed`].
#[cfg(unix)]
pub(crate) fn make_private(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let looking = || StoreError::io(format!("looking at {}", folder.display()));
    let mode = fs::metadata(folder).map_err(looking())?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let exposed = || StoreError::Exposed { path: folder.to_owned(), mode };
    // The file system creates this in each of its roots.
    let alone = paths::list_folder(folder)?.iter().all(|path| path.ends_with("lost+found"))
        || folder.join(paths::CATALOG).is_file();
    if !alone {
        return Err(exposed());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => exposed(),
        _ => StoreError::io(format!("closing {} to others", folder.display()))(error),
    })?;
    tracing::warn!(path = %folder.display(), mode = format!("{mode:o}"), "others could read this folder; now only its owner can");
    Ok(())
}

/// This system has no access modes.
#[cfg(not(unix))]
pub(crate) fn make_private(_folder: &Path) -> Result<()> {
    Ok(())
}
