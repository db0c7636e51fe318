//! The number of the last call that was acknowledged, in a file of its own.
//!
//! A write-ahead file that somebody truncated or deleted looks like one of an earlier time: SQLite opens the catalog
//! without a word. This file tells the difference. It is written after each commit and never synced, since the commit has been: after a
//! power cut it may be behind, but it never names a call that was not on stable storage.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use uuid::Uuid;

use crate::data_folder::paths;

/// The file while the store is open.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    file: File,
    catalog: Uuid,
}

impl Acknowledged {
    /// Opens the file of a data folder, for the catalog with this identity.
    pub(crate) fn open(data: &Path, catalog: Uuid) -> io::Result<Acknowledged> {
        let path = data.join(paths::ACKNOWLEDGED);
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        Ok(Acknowledged { file, catalog })
    }

    /// Notes a call. Where that fails, less is known at the next start.
    pub(crate) fn note(&self, call: i64) {
        if let Err(error) = self.file.write_all_at(text(self.catalog, call).as_bytes(), 0) {
            tracing::debug!(%error, "the last call is not noted");
        }
    }
}

/// A line of a fixed length: the catalog, the call, and a checksum of both.
fn text(catalog: Uuid, call: i64) -> String {
    let line = format!("{catalog} {call:020}");
    format!("{line} {:08x}\n", crc32fast::hash(line.as_bytes()))
}

/// The last call that is noted for a catalog; `None` if nothing is known.
pub(crate) fn last(data: &Path, catalog: Uuid) -> Option<i64> {
    let mut line = String::new();
    let file = File::open(data.join(paths::ACKNOWLEDGED)).ok()?;
    file.take(128).read_to_string(&mut line).ok()?;
    let call = line.split(' ').nth(1)?.parse().ok()?;
    (text(catalog, call) == line).then_some(call)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Uuid::from_u128(7);
        assert_eq!(last(dir.path(), catalog), None);
        for call in [5, i64::MAX, 6] {
            Acknowledged::open(dir.path(), catalog).unwrap().note(call);
            assert_eq!(last(dir.path(), catalog), Some(call));
        }
        assert_eq!(last(dir.path(), Uuid::from_u128(8)), None);
        let path = dir.path().join(paths::ACKNOWLEDGED);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 1;
            }
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(last(dir.path(), catalog), None, "{at}");
        }
    }
}
