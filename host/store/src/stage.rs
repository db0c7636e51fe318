//! A folder that is made whole before it gets its name.
//!
//! Backup and restore write many files; whoever finds the result, after a crash too, must not take
//! half of it for all. Where the target is not there yet, everything is written beside it and
//! renamed in the end. An empty folder may be a mount point, which cannot be replaced: there it is
//! written inside, under a name that says so, and the catalog, without which a folder is neither
//! a backup nor a store, is moved up last.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::{
    catalog::schema,
    error::{Result, StoreError},
    segment::sync_folder,
};

/// The folder while it is written; deleted unless it is finished.
#[derive(Debug)]
pub(crate) struct Stage {
    target: PathBuf,
    folder: PathBuf,
    inside: bool,
    finished: bool,
}

impl Stage {
    /// # Errors
    /// [`StoreError::NotEmpty`] when there is something at `target`.
    pub(crate) fn begin(target: &Path) -> Result<Stage> {
        let target = &std::path::absolute(target).map_err(StoreError::io(format!("finding {}", target.display())))?;
        let inside = match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(StoreError::NotEmpty(target.to_owned()));
                }
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotEmpty(target.to_owned()));
            }
            Err(error) => return Err(StoreError::io(format!("listing {}", target.display()))(error)),
        };
        if inside {
            make_private(target)?;
        }
        let name = format!("incomplete-{}", Uuid::new_v4());
        let folder = if inside {
            target.join(name)
        } else {
            let mut beside = OsString::from(target.file_name().unwrap_or_default());
            beside.push(".");
            beside.push(name);
            target.with_file_name(beside)
        };
        let stage = Stage { target: target.to_owned(), folder, inside, finished: false };
        create_private_folder(&stage.folder)?;
        Ok(stage)
    }

    /// Where to write.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes what was written durable and gives it its name. Every file must be synced already.
    pub(crate) fn finish(mut self) -> Result<()> {
        let segments = self.folder.join("segments");
        for entry in list(&segments)? {
            sync_folder(&entry)?;
        }
        sync_folder(&segments)?;
        sync_folder(&self.folder)?;
        let naming = |path: &Path| StoreError::io(format!("naming {}", path.display()));
        if self.inside {
            for name in ["segments", schema::FILE] {
                let path = self.target.join(name);
                fs::rename(self.folder.join(name), &path).map_err(naming(&path))?;
                sync_folder(&self.target)?;
            }
        } else {
            fs::rename(&self.folder, &self.target).map_err(naming(&self.target))?;
            self.finished = true;
            if let Some(parent) = self.target.parent() {
                sync_folder(parent)?;
            }
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: its name says what it is.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Creates a folder and what is missing above it, for this user only.
pub(crate) fn create_private_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(StoreError::io(format!("creating {}", folder.display())))
}

/// Sees to it that only its owner can read a folder that was there before. It is closed to others where
/// it is the store's alone: empty, or with a catalog in it. A folder with other things may be one that
/// others need.
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
    // What a file system puts into each of its roots is no one's.
    let alone = list(folder)?.iter().all(|path| path.ends_with("lost+found")) || folder.join(schema::FILE).is_file();
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

/// There are no modes here.
#[cfg(not(unix))]
pub(crate) fn make_private(_folder: &Path) -> Result<()> {
    Ok(())
}

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

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = || StoreError::io(format!("listing {}", folder.display()));
    let entries = fs::read_dir(folder).map_err(io())?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(io())).collect()
}
