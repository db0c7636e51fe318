//! The catalog's table `dropped`: segments and sources that were deleted on purpose and of which there may still be
//! files.
//!
//! A tombstone is forgotten when its file is gone for good. A deleted name may come back after a power cut until its
//! folder is synced. Without its tombstone the file would look like one that the catalog has lost.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    catalog::database,
    data_folder::{paths, sync::sync_folder},
    error::Result,
};

/// A tombstone of a replaced segment stays until the youngest event of the segment that has its rows came in so long
/// ago: a source with thousands of small segments a day would have millions of them otherwise, and each start and each
/// run of retention looks at all of them.
const REPLACED_MICROS: i64 = 3_600_000_000;

/// Tombstones of files that do not exist any more.
#[derive(Debug, Default)]
pub(crate) struct GoneFiles {
    /// The ids of what was dropped, and of its source; both are the same if that is a source.
    tombstones: Vec<(Uuid, Uuid)>,
    /// The files (with an extension) and folders (without) that are gone, by the folder that had them.
    paths: BTreeMap<PathBuf, Vec<PathBuf>>,
}

impl GoneFiles {
    /// Looks for files that do not exist any more. The tombstones of replaced segments stay for some time: a backup that
    /// runs may still look for the file, and finds out why it is gone. One that finds no tombstone copies the catalog
    /// again all the same, but may report the segment as dropped. The tombstones of what was dropped after `dropped_before` stay,
    /// too: they say that the copy of it in an object store is not to be deleted yet. Both times are of the age clock.
    pub(crate) fn find(conn: &Connection, data: &Path, now: i64, dropped_before: i64) -> Result<GoneFiles> {
        let mut statement = conn.prepare_cached(
            "SELECT id, source FROM dropped
             WHERE (replaced_by IS NULL OR replaced_by NOT IN (SELECT id FROM segments WHERE created_at > ?1))
                 AND coalesce(dropped_at, ?2) <= ?2",
        )?;
        let recent = now.saturating_sub(REPLACED_MICROS);
        let rows = statement.query_map([recent, dropped_before], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let dropped: Vec<(Uuid, Uuid)> = rows.collect::<rusqlite::Result<_>>()?;
        let gone = |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let mut found = GoneFiles::default();
        for (id, source) in dropped {
            let folder = paths::source_folder(data, source);
            let file = folder.join(paths::segment_file(id));
            // The tombstone of a source covers its whole folder.
            let (above, path) = if gone(&folder) {
                (paths::segments_folder(data), folder)
            } else if id != source && gone(&file) {
                (folder, file)
            } else {
                continue;
            };
            found.tombstones.push((id, source));
            found.paths.entry(above).or_default().push(path);
        }
        Ok(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tombstones.is_empty()
    }

    /// The ids of what was dropped, and of its source; both are the same if that is a source.
    pub(crate) fn dropped(&self) -> &[(Uuid, Uuid)] {
        &self.tombstones
    }

    /// Leaves the tombstones out that are not among these.
    pub(crate) fn retain(&mut self, kept: &[(Uuid, Uuid)]) {
        let kept: HashSet<&(Uuid, Uuid)> = kept.iter().collect();
        self.tombstones.retain(|tombstone| kept.contains(tombstone));
    }

    /// Makes the deletion of the files durable. It may take long, and so is not part of the transaction.
    pub(crate) fn sync(&self) -> Result<()> {
        for (folder, paths) in &self.paths {
            // The folder of a source that was deleted meanwhile is gone itself, and that is what has to be durable.
            let above = folder.parent().filter(|_| !folder.exists());
            sync_folder(above.unwrap_or(folder)).inspect_err(|_| {
                // Repeating the sync alone may do nothing: the names must be changed again. Best effort.
                for path in paths {
                    let _ = if path.extension().is_some() {
                        File::create_new(path).and_then(|_| fs::remove_file(path))
                    } else {
                        fs::create_dir(path).and_then(|()| fs::remove_dir(path))
                    };
                }
            })?;
        }
        Ok(())
    }

    /// Deletes the tombstones. [`Self::sync`] must have succeeded.
    pub(crate) fn forget(&self, conn: &Connection) -> Result<()> {
        let mut statement = conn.prepare_cached("DELETE FROM dropped WHERE id = ?1")?;
        self.tombstones.iter().try_for_each(|(id, _)| statement.execute([id]).map(drop))?;
        Ok(())
    }
}

/// Writes the tombstones of segments whose rows another segment has now, in a transaction of the caller.
pub(crate) fn replaced(conn: &Connection, ids: &HashSet<Uuid>, source: Uuid, by: Uuid) -> Result<()> {
    let mut statement =
        conn.prepare_cached("INSERT OR REPLACE INTO dropped (id, source, replaced_by) VALUES (?1, ?2, ?3)")?;
    for id in ids {
        statement.execute([*id, source, by])?;
    }
    Ok(())
}

/// The segments and sources that were dropped and have a tombstone in the catalog of a data folder.
pub(crate) fn buried(data: &Path) -> Result<HashSet<Uuid>> {
    let conn = database::connect(&data.join(paths::CATALOG), false)?;
    let mut statement = conn.prepare("SELECT id FROM dropped")?;
    let ids = statement.query_map([], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}
