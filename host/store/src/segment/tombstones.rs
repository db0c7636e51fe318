//! The catalog's table `dropped`: segments and sources that were deleted on purpose and of which there may still be
//! files.

use std::{collections::HashSet, fs, io, path::Path};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{data_folder::paths, error::Result};

/// Deletes the tombstones of files that do not exist any more. Those of replaced segments stay as long as the catalog
/// names the segment that has their rows: a backup that runs may still look for the file, and must find out.
pub(crate) fn forget_gone(conn: &Connection, data: &Path) -> Result<()> {
    let mut statement = conn.prepare_cached(
        "SELECT id, source FROM dropped WHERE replaced_by IS NULL OR replaced_by NOT IN (SELECT id FROM segments)",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let dropped: Vec<(Uuid, Uuid)> = rows.collect::<rusqlite::Result<_>>()?;
    let gone = |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    for (id, source) in dropped {
        let folder = paths::source_folder(data, source);
        // The tombstone of a source covers its whole folder.
        let path = if id == source { folder } else { folder.join(paths::segment_file(id)) };
        if gone(&path) {
            conn.prepare_cached("DELETE FROM dropped WHERE id = ?1")?.execute([id])?;
        }
    }
    Ok(())
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
