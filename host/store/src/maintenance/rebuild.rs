//! A new catalog from the footers of the segments, where the old one is lost.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::Path,
};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use uuid::Uuid;

use crate::{
    catalog::{Catalog, wal_file},
    data_folder::{lock, paths, sync},
    error::{Result, StoreError},
    maintenance::{
        adopt::{owner, whole},
        repair::RepairReport,
    },
    recovery::{
        leftovers::{self, Leftover},
        quarantine::{self, SetAside},
        settle,
    },
    segment::{footer::Footer, footer_entry::FooterEntry, tombstones},
};

/// Makes a catalog from the footers of the segments in a data folder that has none: the sources with their names and
/// schemas, and the segments. Endpoints, tokens and settings are lost, and so are events that were in no segment. All
/// sources get the default retention of the server. Damaged segments are set aside. Blocks until everything is read.
///
/// # Errors
/// [`StoreError::Incompatible`] when there is a catalog: move it away first if it cannot be used;
/// [`StoreError::Locked`]; [`StoreError::Io`]; [`StoreError::Sqlite`].
pub fn rebuild_catalog(data_dir: &Path) -> Result<RepairReport> {
    let path = data_dir.join(paths::CATALOG);
    let _lock = lock::lock(data_dir)?;
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if length(&path) > 0 {
        let reason = "there is one; only where it cannot be used at all, move it away and call this again".to_owned();
        return Err(StoreError::Incompatible { path, reason });
    }
    sync::create_folder(&paths::segments_folder(data_dir))?;
    // It belongs to another catalog; SQLite would take it for that of the new one.
    let log = wal_file::path(data_dir);
    if length(&log) > 0 {
        quarantine::keep_copy(data_dir, &log)?;
    }
    for file in [log, data_dir.join(format!("{}-shm", paths::CATALOG)), path] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(format!("deleting {}", file.display()))(error));
            }
            _ => {}
        }
    }
    let mut report = RepairReport::default();
    // Oldest first, so that the schema grows as it did, and the last name wins.
    let mut found: BTreeMap<(i64, Uuid), (Leftover, Footer, FooterEntry)> = BTreeMap::new();
    for file in leftovers::list_files(data_dir)?.segments {
        match whole(&file.path, file.segment) {
            Ok((footer, entry)) => {
                found.insert((entry.created_at, file.segment), (file, footer, entry));
            }
            Err(reason) => {
                let note = SetAside::new(file.segment, file.source, reason);
                report.set_aside.push(quarantine::put(data_dir, &file.path, note)?);
            }
        }
    }
    let replaced = replaced(&found);
    let catalog = Catalog::open(data_dir, true)?;
    let mut identity = catalog.identity()?;
    let mut conn = catalog.connect()?;
    if let Some((_, _, newest)) = found.values().next_back() {
        // The numbers of write-ahead rows continue.
        identity = newest.catalog;
        catalog.set_meta("catalog_id", &identity.to_string())?;
        settle::skip_to(&conn, found.values().map(|(_, _, entry)| entry.last_seq).max().unwrap_or(0))?;
    }
    for (file, footer, entry) in found.values() {
        if let Some(by) = replaced.get(&file.segment) {
            // The next start deletes the file.
            tombstones::replaced(&conn, &HashSet::from([file.segment]), file.source, *by)?;
            continue;
        }
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let registered = add(&tx, identity, file, footer, entry);
        let rows = Some(footer.rows);
        let source_name = Some(entry.source_name.clone());
        let note = SetAside { source_name, rows, ..SetAside::new(file.segment, file.source, "") };
        match registered {
            Ok(()) => {
                tx.commit()?;
                report.taken_back.push(note);
            }
            Err(StoreError::Corrupt { reason, .. }) => {
                drop(tx);
                let note = SetAside { reason, ..note };
                report.set_aside.push(quarantine::put(data_dir, &file.path, note)?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

/// The segments of which a merged one has all rows, each with the merged one. They were not deleted yet when the catalog
/// was lost, or the merged one was not registered yet.
fn replaced(found: &BTreeMap<(i64, Uuid), (Leftover, Footer, FooterEntry)>) -> HashMap<Uuid, Uuid> {
    let mut merged: Vec<(&Leftover, &FooterEntry)> = Vec::new();
    merged.extend(
        found.values().filter(|(_, _, entry)| !entry.replaces.is_empty()).map(|(file, _, entry)| (file, entry)),
    );
    let mut replaced = HashMap::new();
    for (file, _, entry) in found.values() {
        let by = merged.iter().find(|(other, of)| {
            let same_source = of.catalog == entry.catalog && other.source == file.source;
            let range = |entry: &FooterEntry| (entry.first_seq, entry.last_seq);
            let holds = of.first_seq <= entry.first_seq && entry.last_seq <= of.last_seq;
            // Of two with the same rows one stays.
            let is_larger = range(of) != range(entry) || entry.replaces.is_empty() || other.segment > file.segment;
            other.segment != file.segment && same_source && holds && is_larger
        });
        if let Some((by, _)) = by {
            replaced.insert(file.segment, by.segment);
        }
    }
    replaced
}

/// Registers a segment with the source of its own identity, under the last name of that source.
fn add(conn: &Connection, catalog: Uuid, file: &Leftover, footer: &Footer, entry: &FooterEntry) -> Result<()> {
    let known: Option<i64> =
        conn.query_row("SELECT key FROM sources WHERE id = ?1", [file.source], |row| row.get(0)).optional()?;
    let taken = conn
        .query_row(
            "SELECT 1 FROM sources WHERE name = ?1 AND id <> ?2",
            params![entry.source_name, file.source],
            |_| Ok(()),
        )
        .optional()?
        .is_some();
    // Two sources have had the name, one after the other.
    let name = if taken { format!("{} ({})", entry.source_name, file.source) } else { entry.source_name.clone() };
    crate::catalog::check_name(&name)?;
    let key = match known {
        Some(key) => {
            conn.execute("UPDATE sources SET name = ?2 WHERE key = ?1", params![key, name])?;
            key
        }
        None => owner(conn, &FooterEntry { source: file.source, source_name: name, ..entry.clone() })?.0,
    };
    settle::register(conn, catalog, key, &file.path, file.segment, (footer, entry))
}
