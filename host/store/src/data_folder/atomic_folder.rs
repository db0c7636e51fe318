//! A folder that appears under its name only when it is complete.
//!
//! Backup and restore write many files. Whoever finds the result, also after a crash, must not take a part of it for
//! the whole. If the target does not exist, everything is written to a folder beside it, which is renamed at the end.
//! An existing empty folder may be a mount point, which cannot be replaced. Then everything is written to a folder
//! inside, whose name says that it is incomplete, and moved up at the end. The catalog is moved last, because without
//! it a folder is neither a backup nor a store.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use uuid::Uuid;

use crate::{
    data_folder::{
        paths,
        private::{create_private_folder, make_private},
        sync::sync_folder,
    },
    error::{Result, StoreError},
};

/// The folder while it is written. It is deleted unless it is finished.
#[derive(Debug)]
pub(crate) struct AtomicFolder {
    target: PathBuf,
    folder: PathBuf,
    inside: bool,
    finished: bool,
}

impl AtomicFolder {
    /// # Errors
    /// [`StoreError::NotEmpty`] when there is something at `target`.
    pub(crate) fn begin(target: &Path) -> Result<AtomicFolder> {
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
        let stage = AtomicFolder { target: target.to_owned(), folder, inside, finished: false };
        create_private_folder(&stage.folder)?;
        Ok(stage)
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

impl Drop for AtomicFolder {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: the name says that it is incomplete.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
