//! A folder that appears under its name only when it is complete.
//!
//! Backup and restore write many files. Whoever finds the result, also after a crash, must not take a part of it for
//! the whole. If the target does not exist, everything is written to a folder beside it, which is renamed at the end.
//! An existing empty folder may be a mount point, which cannot be replaced. Then everything is written to a folder
//! inside, whose name says that it is incomplete, and moved up at the end. The catalog is moved last, because without
//! it a folder is neither a backup nor a store.
//!
//! Who writes holds a lock in the folder. What a process left that was killed is not locked, and goes with the next attempt.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::{
    data_folder::{
        lock::{LOCK, lock},
        paths,
        private::{create_private_folder, make_private},
        sync::sync_folder,
    },
    error::{Result, StoreError},
};

/// What the names of folders that are written begin with, after that of the target and a dot.
const INCOMPLETE: &str = "incomplete-";

/// The folder while it is written. It is deleted unless it is finished.
#[derive(Debug)]
pub(crate) struct AtomicFolder {
    target: PathBuf,
    folder: PathBuf,
    inside: bool,
    finished: bool,
    _lock: File,
}

impl AtomicFolder {
    /// # Errors
    /// [`StoreError::NotEmpty`] when there is something at `target`.
    pub(crate) fn begin(target: &Path) -> Result<AtomicFolder> {
        let target = &std::path::absolute(target).map_err(StoreError::io(format!("finding {}", target.display())))?;
        let inside = match fs::read_dir(target) {
            Ok(_) => {
                delete_left(target, INCOMPLETE)?;
                if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
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
        let name = format!("{INCOMPLETE}{}", Uuid::new_v4());
        let folder = if inside {
            target.join(name)
        } else {
            let mut beside = OsString::from(target.file_name().unwrap_or_default());
            beside.push(".");
            if let (Some(parent), Some(left)) = (target.parent(), beside.to_str()) {
                delete_left(parent, &format!("{left}{INCOMPLETE}"))?;
            }
            beside.push(name);
            target.with_file_name(beside)
        };
        create_private_folder(&folder)?;
        let lock = lock(&folder)?;
        Ok(AtomicFolder { target: target.to_owned(), folder, inside, finished: false, _lock: lock })
    }

    /// Where to write.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes what was written durable and gives the folder its name. Every file must be synced already.
    pub(crate) fn finish(mut self) -> Result<()> {
        let segments = paths::segments_folder(&self.folder);
        for entry in paths::list_folder(&segments)? {
            sync_folder(&entry)?;
        }
        sync_folder(&segments)?;
        // Still locked, under no name.
        let file = self.folder.join(LOCK);
        fs::remove_file(&file).map_err(StoreError::io(format!("deleting {}", file.display())))?;
        sync_folder(&self.folder)?;
        let naming = |path: &Path| StoreError::io(format!("naming {}", path.display()));
        if self.inside {
            for name in ["segments", paths::CATALOG] {
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

/// Deletes the folders in `parent` whose names begin like this, and that no process writes any more. Those of older releases
/// have no lock, and are left alone.
fn delete_left(parent: &Path, begins: &str) -> Result<()> {
    // A parent that is not there has nothing in it.
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_left = entry.file_name().to_str().is_some_and(|name| name.starts_with(begins));
        if !is_left || !path.join(LOCK).is_file() {
            continue;
        }
        if lock(&path).is_ok() {
            tracing::info!(path = %path.display(), "deleting what a process left that was ended");
            fs::remove_dir_all(&path).map_err(StoreError::io(format!("deleting {}", path.display())))?;
        }
    }
    Ok(())
}

impl Drop for AtomicFolder {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: the name says that it is incomplete.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
