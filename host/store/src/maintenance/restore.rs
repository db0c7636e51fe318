//! Restore: a data folder of a backup, with segments that the backup lacks from an object store.

use std::{fs, io::ErrorKind, path::Path};

use rusqlite::{Connection, OpenFlags};

use crate::{
    catalog,
    data_folder::{
        atomic_folder::AtomicFolder,
        disk_failure, paths,
        sync::{self, copy_file},
    },
    error::{Result, StoreError},
    maintenance::{
        backup::{BackupReport, copy_segment},
        catalog_check::check_catalog,
        listed_segment::list_segments,
        segment_copies::SegmentCopies,
    },
    objects::client::{RequestLimits, environment},
};

/// Makes a data folder at `data_dir`, which must not exist or be an empty folder, from a backup. The backup is checked:
/// the catalog as a whole; and that each segment exists, has its length, the checksums that it was written with, and as
/// many rows as the catalog says. The backup stays unchanged. Blocks.
///
/// # Errors
/// [`StoreError::NotEmpty`]; [`StoreError::NoCatalog`] when `backup` is none;
/// [`StoreError::Incompatible`], also when it is a data folder in use: its newest events are not in the
/// file that would be copied; [`StoreError::Corrupt`] with what is wrong; [`StoreError::Io`];
/// [`StoreError::Sqlite`]; [`StoreError::DiskFull`]. In all of these cases there is no store at
/// `data_dir` afterwards.
pub fn restore(backup: &Path, data_dir: &Path) -> Result<BackupReport> {
    restore_checked(backup, data_dir, None).map_err(|error| disk_failure::refine(error, data_dir))
}

/// [`restore`], for a backup whose segments, all or some, are in an object store, at an address as in
/// [`StoreOptions::copies_url`](crate::StoreOptions::copies_url). Nothing is changed there.
///
/// # Errors
/// As of [`restore`]; [`StoreError::OtherOwner`] when the copies are those of another catalog; [`StoreError::BadUrl`];
/// [`StoreError::ObjectStore`].
pub fn restore_from_copies(backup: &Path, data_dir: &Path, url: &str) -> Result<BackupReport> {
    let copies = SegmentCopies::open(url, data_dir, environment(), RequestLimits::default())?;
    restore_checked(backup, data_dir, Some(&copies)).map_err(|error| disk_failure::refine(error, data_dir))
}

fn restore_checked(backup: &Path, data_dir: &Path, copies: Option<&SegmentCopies>) -> Result<BackupReport> {
    let from = backup.join(paths::CATALOG);
    if !from.is_file() {
        return Err(catalog::not_found(backup));
    }
    let log = backup.join(format!("{}-wal", paths::CATALOG));
    if fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        let reason = "it is a data folder in use or after a crash, not a backup".to_owned();
        return Err(StoreError::Incompatible { path: from, reason });
    }
    let stage = AtomicFolder::begin(data_dir)?;
    let path = stage.folder().join(paths::CATALOG);
    copy_file(&from, &path)?;
    let copy = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check_catalog(&copy, &from, "the catalog of the backup")?;
    copies.map_or(Ok(()), |copies| copies.check_owner(&copy))?;
    let (mut report, mut elsewhere) = (BackupReport::default(), Vec::new());
    for listed in list_segments(&copy)? {
        report.add(&listed);
        match copy_segment(backup, stage.folder(), &listed) {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => elsewhere.push(listed),
            other => other?,
        }
    }
    let lost = match copies {
        Some(copies) => copies.fetch(stage.folder(), elsewhere)?.into_iter().next(),
        None => elsewhere.into_iter().next().map(|listed| {
            let reason = "its file is missing in the backup; if that is one of the catalog alone, tell with --copies where the copies of segments are";
            (listed, reason.to_owned())
        }),
    };
    if let Some((listed, reason)) = lost {
        return Err(listed.corrupt(reason));
    }
    report.finish(&copy, &path)?;
    drop(copy);
    // Backups of older releases have the identity of the original.
    let copy = Connection::open(&path)?;
    catalog::leave_original(&copy)?;
    copy.close().map_err(|(_, error)| error)?;
    sync::sync_file(&path)?;
    sync::create_folder(&paths::segments_folder(stage.folder()))?;
    stage.finish()?;
    Ok(report)
}
