//! Segments as a catalog names them, and the check of one against its file. Backup, verify and repair share this.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    segment::footer::{self, Footer},
};

/// A segment that a catalog names.
#[derive(Debug, Clone)]
pub(crate) struct ListedSegment {
    pub(crate) id: Uuid,
    pub(crate) source: Uuid,
    pub(crate) source_name: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) checksum: Option<u32>,
}

impl ListedSegment {
    pub(crate) fn name(&self) -> String {
        format!("segment {} of source `{}`", self.id, self.source_name)
    }

    pub(crate) fn path(&self, data: &Path) -> PathBuf {
        paths::source_folder(data, self.source).join(paths::segment_file(self.id))
    }

    pub(crate) fn corrupt(&self, reason: impl ToString) -> StoreError {
        StoreError::corrupt(self.name(), reason)
    }
}

pub(crate) fn list_segments(copy: &Connection) -> Result<Vec<ListedSegment>> {
    // Catalogs of older versions have no checksums.
    let with = "SELECT count(*) FROM pragma_table_info('segments') WHERE name = 'checksum'";
    let with: i64 = copy.query_row(with, [], |row| row.get(0))?;
    let checksum = if with > 0 { "segments.checksum" } else { "NULL" };
    let mut statement = copy.prepare(&format!(
        "SELECT segments.id, sources.id, sources.name, segments.rows, segments.bytes, {checksum}
         FROM segments JOIN sources ON sources.key = segments.source ORDER BY segments.max_time",
    ))?;
    let rows = statement.query_map([], |row| {
        Ok(ListedSegment {
            id: row.get(0)?,
            source: row.get(1)?,
            source_name: row.get(2)?,
            rows: row.get::<_, i64>(3)?.cast_unsigned(),
            bytes: row.get::<_, i64>(4)?.cast_unsigned(),
            checksum: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Checks the file of a segment. The inner error says what is wrong with it.
///
/// # Errors
/// [`StoreError::Io`] if reading failed for a reason that is not damage.
pub(crate) fn check(data: &Path, segment: &ListedSegment) -> Result<Result<Footer, String>> {
    let path = segment.path(data);
    let length = fs::metadata(&path).map(|file| file.len());
    if let Ok(length) = length
        && length != segment.bytes
    {
        return Ok(Err(format!("its file has {length} bytes, the catalog says {}", segment.bytes)));
    }
    match footer::check(&path, segment.id, segment.checksum) {
        Ok(footer) if footer.rows == segment.rows => Ok(Ok(footer)),
        Ok(footer) => Ok(Err(format!("its file has {} rows, the catalog says {}", footer.rows, segment.rows))),
        Err(refused) if refused.is_damage() => Ok(Err(refused.reason())),
        Err(refused) => {
            let what = format!("reading {}", path.display());
            Err(StoreError::io(what)(std::io::Error::other(refused.to_string())))
        }
    }
}
