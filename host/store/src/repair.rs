//! Making a damaged data folder usable, without losing what is whole.
//!
//! Damaged segments are moved to the quarantine, so that queries go on without their rows; whole ones
//! are taken back from there. A catalog that is gone is made again of what the segments say.

use std::{collections::BTreeMap, fs, path::Path};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use uuid::Uuid;

use crate::{
    backup::{self, Listed},
    catalog::{Catalog, LogDamage, log_file, schema},
    error::{Result, StoreError},
    footer::{self, Footer},
    leftover::{self, Leftover, Logged},
    quarantine::{self, SetAside},
    recover, segment,
    segment::Entry,
    shape::Shape,
    store, verify,
};

/// What [`repair`] or [`rebuild_catalog`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Segments that were found damaged or not named by the catalog, and set aside now.
    pub set_aside: Vec<SetAside>,
    /// Segments that queries read again.
    pub taken_back: Vec<SetAside>,
    /// Segments that stay in the quarantine, each with the reason.
    pub left: Vec<SetAside>,
    /// Flushes that were cut off and are completed now.
    pub completed: u64,
    /// The write-ahead file of the catalog was damaged.
    pub log: Option<LogDamage>,
}

/// Sets aside what is damaged in a data folder that no server has open, and takes back what is whole in
/// its quarantine. Blocks for as long as reading everything takes.
///
/// # Errors
/// [`StoreError::Locked`]; [`StoreError::NoCatalog`]; [`StoreError::CatalogMissing`]: see
/// [`rebuild_catalog`]; [`StoreError::Corrupt`] for a catalog that SQLite cannot trust: restore a backup, or
/// move it away and rebuild; [`StoreError::Io`]; [`StoreError::Sqlite`].
pub fn repair(data_dir: &Path) -> Result<RepairReport> {
    if !data_dir.join(schema::FILE).is_file() && !data_dir.join("segments").is_dir() {
        return Err(StoreError::NoCatalog(data_dir.to_owned()));
    }
    let _lock = store::lock(data_dir)?;
    recover::may_be_new(data_dir)?;
    let log = recover::look_at_log(data_dir)?;
    let catalog = Catalog::open(data_dir, false)?;
    let identity = catalog.identity()?;
    let mut conn = catalog.connect()?;
    let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        let reason = format!(
            "{found}; restore a backup, or move catalog.sqlite away and make another with \
             tidegate repair --rebuild-catalog"
        );
        return Err(StoreError::corrupt("the catalog", reason));
    }
    let before: Vec<Uuid> = quarantine::list(data_dir)?.iter().map(|note| note.segment).collect();
    let recovered = recover::recover(&mut conn, data_dir, identity, log)?;
    let mut report = RepairReport { log: recovered.log, completed: recovered.completed, ..RepairReport::default() };
    for listed in backup::list(&conn)? {
        let Err(reason) = verify::check(data_dir, &listed)? else { continue };
        if put_back(data_dir, &listed)? {
            report.taken_back.push(SetAside {
                source_name: Some(listed.source_name.clone()),
                rows: Some(listed.rows),
                ..SetAside::new(listed.id, listed.source, "")
            });
            continue;
        }
        // What happens in between is mended by the next start: a file that no catalog names.
        conn.execute("DELETE FROM segments WHERE id = ?1", [listed.id])?;
        let note = SetAside {
            source_name: Some(listed.source_name.clone()),
            rows: Some(listed.rows),
            ..SetAside::new(listed.id, listed.source, reason)
        };
        report.set_aside.push(quarantine::put(data_dir, &listed.path(data_dir), note)?);
    }
    for note in quarantine::list(data_dir)? {
        match take_back(&mut conn, data_dir, identity, &note)? {
            Ok(()) => report.taken_back.push(note),
            Err(reason) if before.contains(&note.segment) => report.left.push(SetAside { reason, ..note }),
            Err(_) if report.set_aside.iter().any(|known| known.segment == note.segment) => {}
            Err(reason) => report.set_aside.push(SetAside { reason, ..note }),
        }
    }
    Ok(report)
}

/// Moves the file of a segment that the catalog names, and that is missing, back from the quarantine:
/// whether it is there, and whole.
fn put_back(data: &Path, listed: &Listed) -> Result<bool> {
    let (from, to) = (quarantine::file(data, listed.id), listed.path(data));
    if to.exists() || !from.is_file() {
        return Ok(false);
    }
    let whole = footer::check(&from, listed.id, listed.checksum);
    if !whole.is_ok_and(|footer| footer.rows == listed.rows && footer.size == listed.bytes) {
        return Ok(false);
    }
    segment::create_folder(&segment::folder(data, listed.source))?;
    quarantine::take(data, listed.id, &to)?;
    Ok(true)
}

/// The inner error says why a segment stays where it is.
fn take_back(conn: &mut Connection, data: &Path, catalog: Uuid, note: &SetAside) -> Result<Result<(), String>> {
    if !note.file {
        return Ok(Err(note.reason.clone()));
    }
    let from = quarantine::file(data, note.segment);
    let (footer, entry) = match whole(&from, note.segment) {
        Ok(whole) => whole,
        Err(reason) => return Ok(Err(reason)),
    };
    let named = "SELECT 1 FROM segments WHERE id = ?1";
    if conn.query_row(named, [note.segment], |_| Ok(())).optional()?.is_some() {
        return Ok(Err("the catalog names another file of this segment".to_owned()));
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (key, source) = owner(&tx, &entry)?;
    if entry.catalog == catalog {
        let sql = "SELECT id FROM segments WHERE source = ?1 AND first_seq <= ?3 AND last_seq >= ?2 LIMIT 1";
        let other: Option<Uuid> =
            tx.query_row(sql, params![key, entry.first_seq, entry.last_seq], |row| row.get(0)).optional()?;
        if let Some(other) = other {
            return Ok(Err(format!("segment {other} has some of its rows already: they would be there twice")));
        }
        let file = Leftover { path: from, segment: note.segment, source: entry.source };
        if let Logged::Others(reason) = leftover::logged(&tx, key, &entry, &file)? {
            return Ok(Err(reason));
        }
    }
    let folder = segment::folder(data, source);
    let to = folder.join(segment::file_name(note.segment));
    match leftover::register(&tx, key, &to, note.segment, (&footer, &entry)) {
        Ok(()) => {}
        Err(StoreError::Corrupt { reason, .. }) => return Ok(Err(reason)),
        Err(error) => return Err(error),
    }
    tx.execute("DELETE FROM dropped WHERE id = ?1", [note.segment])?;
    segment::create_folder(&folder)?;
    // The file first: without the commit it is one that no catalog names, and comes back here.
    quarantine::take(data, note.segment, &to)?;
    tx.commit()?;
    Ok(Ok(()))
}

/// A file that is whole and says what it is.
fn whole(path: &Path, segment: Uuid) -> Result<(Footer, Entry), String> {
    let mut footer = footer::check(path, segment, None).map_err(|refused| refused.reason())?;
    match footer.entry.take() {
        Some(entry) => Ok((footer, entry)),
        None => Err("it is of an older version, whose segments do not say what a catalog needs".to_owned()),
    }
}

/// The source of a segment: the one with its identity, else the one with its name, else a new one with
/// both. Its short key and its identity.
fn owner(conn: &Connection, entry: &Entry) -> Result<(i64, Uuid)> {
    let find = "SELECT key, id FROM sources WHERE id = ?1 OR name = ?2 ORDER BY id = ?1 DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    if let Some(found) = conn.query_row(find, params![entry.source, entry.source_name], read).optional()? {
        return Ok(found);
    }
    crate::catalog::check_name(&entry.source_name)?;
    let shape = serde_json::to_string(&Shape::default()).map_err(|error| StoreError::corrupt("a shape", error))?;
    conn.execute(
        "INSERT INTO sources (id, name, shape, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![entry.source, entry.source_name, shape, entry.created_at],
    )?;
    Ok((conn.last_insert_rowid(), entry.source))
}

/// Makes a catalog of what the segments in a data folder say, where there is none: the sources with
/// their names and schemas, and the segments. Endpoints, tokens and settings are gone, and so are events
/// that no segment had; how long sources keep their rows is the server's default. Damaged segments are
/// set aside. Blocks for as long as reading everything takes.
///
/// # Errors
/// [`StoreError::Incompatible`] when there is a catalog: move it away first if it cannot be used;
/// [`StoreError::Locked`]; [`StoreError::Io`]; [`StoreError::Sqlite`].
pub fn rebuild_catalog(data_dir: &Path) -> Result<RepairReport> {
    let path = data_dir.join(schema::FILE);
    let _lock = store::lock(data_dir)?;
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if length(&path) > 0 {
        let reason = "there is one; only where it cannot be used at all, move it away and call this again".to_owned();
        return Err(StoreError::Incompatible { path, reason });
    }
    segment::create_folder(&data_dir.join("segments"))?;
    // Of another catalog: SQLite would take it for the new one's.
    let log = log_file::path(data_dir);
    if length(&log) > 0 {
        quarantine::keep_copy(data_dir, &log)?;
    }
    for file in [log, data_dir.join(format!("{}-shm", schema::FILE)), path] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(format!("deleting {}", file.display()))(error));
            }
            _ => {}
        }
    }
    let mut report = RepairReport::default();
    // Oldest first: the schema grows as it did, and names are the latest.
    let mut found: BTreeMap<(i64, Uuid), (Leftover, Footer, Entry)> = BTreeMap::new();
    for file in leftover::files(data_dir)?.segments {
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
    let catalog = Catalog::open(data_dir, true)?;
    let mut conn = catalog.connect()?;
    if let Some((_, _, newest)) = found.values().next_back() {
        // Numbers of write-ahead rows go on.
        catalog.set_meta("catalog_id", &newest.catalog.to_string())?;
        leftover::skip_to(&conn, found.values().map(|(_, _, entry)| entry.last_seq).max().unwrap_or(0))?;
    }
    for (file, footer, entry) in found.values() {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let registered = add(&tx, file, footer, entry);
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

/// Registers a segment with the source of its own identity, under the name that it had last.
fn add(conn: &Connection, file: &Leftover, footer: &Footer, entry: &Entry) -> Result<()> {
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
    // Two sources had the name, one after the other.
    let name = if taken { format!("{} ({})", entry.source_name, file.source) } else { entry.source_name.clone() };
    crate::catalog::check_name(&name)?;
    let key = match known {
        Some(key) => {
            conn.execute("UPDATE sources SET name = ?2 WHERE key = ?1", params![key, name])?;
            key
        }
        None => owner(conn, &Entry { source: file.source, source_name: name, ..entry.clone() })?.0,
    };
    leftover::register(conn, key, &file.path, file.segment, (footer, entry))
}
