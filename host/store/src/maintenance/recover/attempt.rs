//! The note of an attempt to recover a data folder, by which another attempt goes on with what is there.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    data_folder::{paths, private::create_private_folder, sync::sync_folder},
    error::{Result, StoreError},
    maintenance::recover::Recovery,
};

/// What the note says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) url: String,
    /// The identity that the data folder gets.
    #[serde(with = "crate::uuid_text")]
    pub(super) writer: Uuid,
    /// Whether it has taken an epoch.
    pub(super) has_epoch: bool,
}

impl Recovery {
    /// Makes sure that nothing is in the folder but what an earlier attempt left.
    pub(super) fn check_folder(&self) -> Result<()> {
        if paths::recovery_note(&self.data).is_file() {
            return Ok(());
        }
        let entries = match fs::read_dir(&self.data) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(StoreError::io(format!("listing {}", self.data.display())))?,
        };
        let ours = ["lock", "lost+found", paths::RECOVERY];
        let other = entries.flatten().map(|entry| entry.file_name()).find(|name| !ours.iter().any(|own| name == own));
        match other {
            None => Ok(()),
            Some(name) => Err(self.refused(format!(
                "the folder has {} in it, and no catalog: name a folder that is empty or not there yet",
                name.display()
            ))),
        }
    }

    /// The earlier attempt that goes on, or a new one.
    pub(super) fn attempt(&self) -> Result<Attempt> {
        let path = paths::recovery_note(&self.data);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let attempt = Attempt { url: self.url.clone(), writer: Uuid::new_v4(), has_epoch: false };
                self.note(&attempt)?;
                return Ok(attempt);
            }
            Err(error) => return Err(StoreError::io(format!("reading {}", path.display()))(error)),
        };
        let wrong =
            |reason: String| self.refused(format!("{reason}; empty the folder, if nothing but that attempt is in it"));
        let attempt: Attempt = serde_json::from_slice(&text).map_err(|error| {
            wrong(format!("the note {} of an earlier attempt cannot be read ({error})", path.display()))
        })?;
        if attempt.url != self.url {
            return Err(wrong(format!("an earlier attempt began with the copies at {}", attempt.url)));
        }
        Ok(attempt)
    }

    pub(super) fn note(&self, attempt: &Attempt) -> Result<()> {
        create_private_folder(&self.stage())?;
        sync_folder(&self.data)?;
        let (path, new) = (paths::recovery_note(&self.data), self.stage().join("attempt.new"));
        let text = serde_json::to_vec(attempt).map_err(|error| StoreError::corrupt("a note", error))?;
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(StoreError::io(format!("writing {}", path.display())))?;
        sync_folder(&self.stage())
    }
}
