//! A data folder that a test shares with several servers, one after the other.

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::folder;

/// The path of a data folder, which is not there yet, in a folder that is removed at the end.
#[derive(Debug)]
pub struct Data {
    around: TempDir,
    path: PathBuf,
}

impl Data {
    /// A data folder in a fresh folder.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let around = folder();
        let path = around.path().join("data");
        Self { around, path }
    }

    /// A file or folder beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.around.path().join(name)
    }

    /// The folder that it lies in.
    pub fn around(&self) -> &Path {
        self.around.path()
    }
}

impl Deref for Data {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Data {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl AsRef<OsStr> for Data {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}
