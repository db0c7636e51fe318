//! What the start of a store does before anything else: it looks for damage and settles what a crash left.
//!
//! Nothing that may hold acknowledged rows is deleted, and no damage is passed over in silence: it is logged, and
//! reported in [`crate::StoreStats`] for as long as the store is open.

use std::{fs, io, path::Path};

use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    catalog::{LogDamage, wal_file},
    data_folder::paths,
    error::{Result, StoreError},
    recovery::{leftovers, quarantine, settle},
    wal::{acknowledged, rows},
};

/// What a start found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recovered {
    /// The catalog's write-ahead file was damaged.
    pub(crate) log: Option<LogDamage>,
    /// The last call that was acknowledged and the last one that the catalog has, if that is an earlier one: the write-ahead file
    /// is not the one that was there.
    pub(crate) lost_calls: Option<(i64, i64)>,
    /// Flushes that were completed.
    pub(crate) completed: u64,
    /// Segments in the quarantine, those of earlier starts included.
    pub(crate) set_aside: u64,
    /// Rows in them, as far as known.
    pub(crate) set_aside_rows: u64,
}

/// Whether a new catalog may be created. Not if there are segments, none of which a new catalog would name.
///
/// # Errors
/// [`StoreError::CatalogMissing`]; [`StoreError::Unrecovered`].
pub(crate) fn may_create_catalog(data: &Path) -> Result<bool> {
    let log = fs::metadata(wal_file::path(data)).map_or(0, |file| file.len());
    let empty = fs::metadata(data.join(paths::CATALOG)).map_or(0, |file| file.len()) == 0;
    let bare = leftovers::list_files(data)?.segments.is_empty() && quarantine::list(data)?.is_empty();
    if empty && paths::recovery_note(data).is_file() {
        return Err(StoreError::Unrecovered(data.to_owned()));
    }
    if empty && !(bare && log == 0) {
        return Err(StoreError::CatalogMissing(data.to_owned()));
    }
    Ok(bare)
}

/// Inspects the catalog's write-ahead file before SQLite changes it. If it is damaged, a copy is stored in the
/// quarantine; returns the damage and the path of the copy.
///
/// # Errors
/// [`StoreError::Corrupt`] if what SQLite would recover of it is not a consistent catalog.
pub(crate) fn check_wal_file(data: &Path) -> Result<Option<(LogDamage, std::path::PathBuf)>> {
    let path = wal_file::path(data);
    let found = match wal_file::inspect(data) {
        Ok(found) => found,
        // SQLite ignores a file that is not a write-ahead file.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        Err(error) => return Err(StoreError::io(format!("reading {}", path.display()))(error)),
    };
    let Some(damage) = found else { return Ok(None) };
    let checking = StoreError::io(format!("checking what is left of {}", path.display()));
    if let Some(problem) = wal_file::what_is_left(data, &quarantine::folder(data)?).map_err(checking)? {
        let reason = format!(
            "its write-ahead file is damaged at frame {}, and what is left does not fit together ({problem}); restore a \
             backup, or move catalog.sqlite, catalog.sqlite-wal and catalog.sqlite-shm away and make another with \
             tidegate repair --rebuild-catalog; nothing was changed",
            damage.frame
        );
        return Err(StoreError::corrupt("the catalog", reason));
    }
    let copy = quarantine::keep_copy(data, &path)?;
    Ok(Some((damage, copy)))
}

/// Settles what a crash or damage left. `conn` is the only connection, `now` is of the age clock.
pub(crate) fn recover(
    conn: &mut Connection,
    data: &Path,
    catalog: Uuid,
    log: Option<(LogDamage, std::path::PathBuf)>,
    (now, has_copies): (i64, bool),
) -> Result<Recovered> {
    let last = rows::last_seq(conn)?;
    let noted = acknowledged::last(data, catalog);
    let log = match log {
        Some((damage, copy)) => {
            let events = wal_file::count_events(data, &copy, &quarantine::folder(data)?, last);
            let damage = LogDamage { events, ..damage };
            // What a power cut interrupted has a call that nobody was told is stored.
            let is_cut_off = !damage.is_certain() && events.is_some_and(|events| events > 0);
            let is_cut_off = is_cut_off && noted.is_some_and(|noted| noted <= last);
            // Otherwise new transactions would be written before the remains of the old ones, which a later start would
            // take for damage.
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            if is_cut_off {
                tracing::info!(copy = %copy.display(), events, "a transaction was cut off before it was acknowledged, and is dropped");
            } else {
                tracing::error!(
                    frame = damage.frame,
                    transactions = damage.transactions,
                    events = damage.events,
                    certain = damage.is_certain(),
                    copy = %copy.display(),
                    "the write-ahead file of the catalog is damaged: what it held behind the damage is lost; \
                     segments that the catalog no longer names are set aside, and tidegate repair takes them back"
                );
            }
            (!is_cut_off).then_some(damage)
        }
        None => None,
    };
    let lost_calls = noted.filter(|noted| *noted > last && log.is_none()).map(|noted| (noted, last));
    if let Some((acknowledged, found)) = lost_calls {
        tracing::error!(
            acknowledged,
            found,
            "the catalog's write-ahead file is truncated or missing: calls up to `acknowledged` were stored, and the catalog has \
             those up to `found`; what was in no segment since is lost"
        );
    }
    let settled = settle::settle(conn, data, catalog, (now, has_copies))?;
    if settled.deleted > 0 {
        tracing::info!(files = settled.deleted, "deleted files of unfinished segments and of what was dropped");
    }
    let listed = quarantine::list(data)?;
    let set_aside_rows = listed.iter().filter_map(|note| note.rows).sum();
    Ok(Recovered {
        log,
        lost_calls,
        completed: settled.completed as u64,
        set_aside: listed.len() as u64,
        set_aside_rows,
    })
}
