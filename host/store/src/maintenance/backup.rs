//! Backup of a data folder, also while a server runs in it.
//!
//! The catalog is copied first, by SQLite: a consistent state, which includes the events that are in no segment yet.
//! Segments never change, so that only the files which the copied catalog names remain to be copied. Only deletion can
//! interfere. If a file is missing and the live catalog does not name it any more, it was dropped meanwhile, and the
//! copy forgets it too; or compaction put another segment in its place, and then the catalog is copied again. The files
//! that were copied already are kept, so that each further pass is short.

use std::{collections::HashSet, fs, io::ErrorKind, path::Path};

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use crate::{
    catalog::{self, Catalog},
    data_folder::{
        atomic_folder::AtomicFolder,
        disk_failure, paths,
        sync::{self, copy_file, sync_file},
    },
    error::{Result, StoreError},
    maintenance::listed_segment::{self, ListedSegment, list_segments},
    recovery::leftovers,
};

/// How often the catalog is copied at most.
const PASSES: usize = 20;

/// What [`backup`] or [`restore`] copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Sources.
    pub sources: u64,
    /// Segments.
    pub segments: u64,
    /// Rows in them. Events that were in no segment are in the catalog and not counted here.
    pub rows: u64,
    /// Bytes of all files, including the catalog.
    pub bytes: u64,
    /// Segments that were dropped while the backup ran, and that it therefore lacks.
    pub dropped: u64,
}

/// Copies a data folder to `target`, which must not exist or be an empty folder. A server may be running in `data_dir`,
/// in this process or another; it is not held up. Everything that was acknowledged before the call is in the copy; of
/// what arrives during the call, a part. Compiled code is not copied, because it can be made again. The copy contains
/// the hashes of tokens and is readable by its owner only. Blocks until the copy is complete.
///
/// # Errors
/// [`StoreError::NotEmpty`]; [`StoreError::NoCatalog`] and [`StoreError::Incompatible`] as in
/// [`Catalog::open_beside`]; [`StoreError::Corrupt`] when a segment is missing or damaged: no
/// backup has such a one; [`StoreError::Io`]; [`StoreError::Sqlite`]; [`StoreError::DiskFull`]. In all of
/// these cases there is nothing at `target` afterwards that could be taken for a backup.
pub fn backup(data_dir: &Path, target: &Path) -> Result<BackupReport> {
    backup_with(data_dir, target, || ()).map_err(|error| disk_failure::refine(error, target))
}

/// [`backup`] without the segments, for a data folder whose segments have copies in an object store: the catalog with the list of
/// segments, and with the events that are in no segment yet. [`restore_from_copies`] makes a data folder of it, as long as the store
/// has all segments of the list.
///
/// # Errors
/// As of [`backup`].
pub fn backup_catalog(data_dir: &Path, target: &Path) -> Result<BackupReport> {
    copy_catalog(data_dir, target).map_err(|error| disk_failure::refine(error, target))
}

fn copy_catalog(data_dir: &Path, target: &Path) -> Result<BackupReport> {
    let live = Catalog::open_beside(data_dir)?;
    refuse_inside(data_dir, target)?;
    let stage = AtomicFolder::begin(target)?;
    let path = stage.folder().join(paths::CATALOG);
    live.lock().execute("VACUUM INTO ?1", [text(&path)?])?;
    let copy = Connection::open(&path)?;
    catalog::leave_original(&copy)?;
    let mut report = BackupReport::default();
    list_segments(&copy)?.iter().for_each(|listed| report.add(listed));
    // Of these files only the list is there.
    report.bytes = 0;
    report.finish(&copy, &path)?;
    drop(copy);
    sync_file(&path)?;
    sync::create_folder(&paths::segments_folder(stage.folder()))?;
    stage.finish()?;
    Ok(report)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        StoreError::io(format!("copying the catalog to {}", path.display()))(ErrorKind::InvalidFilename.into())
    })
}

/// A copy inside the data folder would be lost together with it.
fn refuse_inside(data_dir: &Path, target: &Path) -> Result<()> {
    let real = |path: &Path| path.ancestors().find_map(|part| part.canonicalize().ok());
    if let (Some(data), Some(target)) = (real(data_dir), real(target))
        && target.starts_with(&data)
    {
        let what = format!("making a backup in {}, which is in the data folder itself", target.display());
        return Err(StoreError::io(what)(ErrorKind::InvalidInput.into()));
    }
    Ok(())
}

/// [`backup`], with a hook between the copy of the catalog and those of the segments.
pub(crate) fn backup_with(data_dir: &Path, target: &Path, between: impl FnOnce()) -> Result<BackupReport> {
    let live = Catalog::open_beside(data_dir)?;
    refuse_inside(data_dir, target)?;
    let stage = AtomicFolder::begin(target)?;
    let path = stage.folder().join(paths::CATALOG);
    let name = text(&path)?;
    let mut between = Some(between);
    let mut copied: HashSet<Uuid> = HashSet::new();
    let mut dropped: HashSet<Uuid> = HashSet::new();
    let mut pass = 1;
    let (copy, mut report) = loop {
        live.lock().execute("VACUUM INTO ?1", [name])?;
        if let Some(between) = between.take() {
            between();
        }
        let copy = Connection::open(&path)?;
        catalog::leave_original(&copy)?;
        match copy_segments(data_dir, stage.folder(), (&live, &copy), &mut copied, &mut dropped)? {
            Some(report) => break (copy, report),
            None if pass == PASSES => {
                let what = "copying the segments, which compaction replaces faster than they are copied; try again";
                return Err(StoreError::io(what)(ErrorKind::NotFound.into()));
            }
            None => {}
        }
        drop(copy);
        fs::remove_file(&path).map_err(StoreError::io(format!("deleting {}", path.display())))?;
        pass += 1;
    };
    report.dropped = dropped.len() as u64;
    report.finish(&copy, &path)?;
    drop(copy);
    sync_file(&path)?;
    sync::create_folder(&paths::segments_folder(stage.folder()))?;
    stage.finish()?;
    Ok(report)
}

/// Copies the segments that the copied catalog names, except those in `copied`, and deletes those that it does not name
/// from the copy. `None` if compaction replaced one of them meanwhile.
fn copy_segments(
    data_dir: &Path,
    target: &Path,
    (live, copy): (&Catalog, &Connection),
    copied: &mut HashSet<Uuid>,
    dropped: &mut HashSet<Uuid>,
) -> Result<Option<BackupReport>> {
    let mut report = BackupReport::default();
    let (mut named, mut again) = (HashSet::new(), false);
    for listed in list_segments(copy)? {
        named.insert(listed.id);
        if copied.contains(&listed.id) {
            report.add(&listed);
            continue;
        }
        match copy_segment(data_dir, target, &listed) {
            Ok(()) => {
                copied.insert(listed.id);
                report.add(&listed);
            }
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                match why_missing(live, &listed)? {
                    Missing::Lost => return Err(listed.corrupt("its file is missing")),
                    Missing::Replaced => again = true,
                    Missing::Unknown => {
                        dropped.insert(listed.id);
                        again = true;
                    }
                    Missing::Dropped => {
                        copy.execute("DELETE FROM segments WHERE id = ?1", [listed.id])?;
                        dropped.insert(listed.id);
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    if again {
        return Ok(None);
    }
    let is_empty = !paths::segments_folder(target).is_dir();
    let files = if is_empty { Vec::new() } else { leftovers::list_files(target)?.segments };
    for entry in files {
        if !named.contains(&entry.segment) {
            fs::remove_file(&entry.path).map_err(StoreError::io(format!("deleting {}", entry.path.display())))?;
        }
    }
    Ok(Some(report))
}

/// Why a file is missing that a copy of the catalog names.
enum Missing {
    /// The live catalog names it too.
    Lost,
    /// Another segment has its rows.
    Replaced,
    /// It was dropped on purpose, or replaced by a segment that was replaced in turn. A new copy of the catalog has what
    /// there is.
    Unknown,
    /// It was dropped on purpose.
    Dropped,
}

fn why_missing(live: &Catalog, listed: &ListedSegment) -> Result<Missing> {
    let conn = live.lock();
    let named = conn.query_row("SELECT 1 FROM segments WHERE id = ?1", [listed.id], |_| Ok(())).optional()?;
    if named.is_some() {
        return Ok(Missing::Lost);
    }
    let sql = "SELECT replaced_by IS NULL FROM dropped WHERE id IN (?1, ?2) ORDER BY id = ?1 DESC LIMIT 1";
    let on_purpose: Option<bool> =
        conn.query_row(sql, rusqlite::params![listed.id, listed.source], |row| row.get(0)).optional()?;
    Ok(match on_purpose {
        Some(true) => Missing::Dropped,
        Some(false) => Missing::Replaced,
        None => Missing::Unknown,
    })
}

impl BackupReport {
    pub(crate) fn add(&mut self, segment: &ListedSegment) {
        self.segments += 1;
        self.rows += segment.rows;
        self.bytes += segment.bytes;
    }

    pub(crate) fn finish(&mut self, copy: &Connection, path: &Path) -> Result<()> {
        self.sources = copy.query_row("SELECT count(*) FROM sources", [], |row| row.get::<_, i64>(0))?.cast_unsigned();
        let length = fs::metadata(path).map_err(StoreError::io(format!("looking at {}", path.display())))?;
        self.bytes += length.len();
        Ok(())
    }
}

/// Copies a segment, and checks the copy.
pub(crate) fn copy_segment(from: &Path, to: &Path, listed: &ListedSegment) -> Result<()> {
    sync::create_folder(&paths::source_folder(to, listed.source))?;
    let copied = copy_file(&listed.path(from), &listed.path(to))?;
    if copied != listed.bytes {
        return Err(listed.corrupt(format!("its file has {copied} bytes, the catalog says {}", listed.bytes)));
    }
    // The copy is checked, which covers both reading and writing.
    match listed_segment::check(to, listed)? {
        Ok(_) => Ok(()),
        Err(reason) => Err(listed.corrupt(format!("{reason}; `tidegate repair` sets damaged segments aside"))),
    }
}
