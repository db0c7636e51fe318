//! Making a damaged data folder usable without losing what is whole.
//!
//! Damaged segments are moved to the quarantine, so that queries work without their rows. Whole segments are taken back
//! from there. For a lost catalog see [`crate::maintenance::rebuild`].

use std::{collections::HashSet, path::Path};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use uuid::Uuid;

use crate::{
    catalog::{self, Catalog, LogDamage, retention},
    clock::now_micros,
    data_folder::{lock, paths, sync},
    error::{Result, StoreError},
    maintenance::{
        adopt::{owner, whole},
        listed_segment::{self, ListedSegment},
        segment_copies::SegmentCopies,
    },
    objects::client::{RequestLimits, environment},
    recovery::{
        leftovers::{self, Leftover, LoggedRows},
        quarantine::{self, SetAside},
        settle, start,
    },
    segment::{footer, footer_entry::FooterEntry, tombstones},
};

/// What [`repair`] or [`rebuild_catalog`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Segments that are damaged or not named by the catalog, and were set aside by this call.
    pub set_aside: Vec<SetAside>,
    /// Segments that queries can read again.
    pub taken_back: Vec<SetAside>,
    /// Segments that stay in the quarantine, each with the reason.
    pub left: Vec<SetAside>,
    /// Segments whose file was damaged or missing, and that were fetched from their copies.
    pub fetched: Vec<SetAside>,
    /// Flushes that were cut off and are completed now.
    pub completed: u64,
    /// The write-ahead file of the catalog was damaged.
    pub log: Option<LogDamage>,
}

/// Sets damaged segments aside in a data folder that no server has open, and takes whole ones back from its quarantine.
/// Blocks until everything is read.
///
/// # Errors
/// [`StoreError::Locked`]; [`StoreError::NoCatalog`]; [`StoreError::CatalogMissing`]: see
/// [`rebuild_catalog`]; [`StoreError::Corrupt`] for a catalog that SQLite cannot trust: restore a backup, or
/// move it away and rebuild; [`StoreError::Io`]; [`StoreError::Sqlite`].
pub fn repair(data_dir: &Path) -> Result<RepairReport> {
    repair_with(data_dir, None)
}

/// [`repair`], for a folder whose segments have copies at an address, as in
/// [`StoreOptions::copies_url`](crate::StoreOptions::copies_url): what is damaged or missing is fetched from there, and set aside only if
/// that cannot be.
///
/// # Errors
/// As of [`repair`]; [`StoreError::OtherOwner`] when the copies are those of another catalog; [`StoreError::BadUrl`];
/// [`StoreError::ObjectStore`].
pub fn repair_from_copies(data_dir: &Path, url: &str) -> Result<RepairReport> {
    let copies = SegmentCopies::open(url, data_dir, environment(), RequestLimits::default())?;
    repair_with(data_dir, Some(&copies))
}

fn repair_with(data_dir: &Path, copies: Option<&SegmentCopies>) -> Result<RepairReport> {
    if !data_dir.join(paths::CATALOG).is_file() && !paths::segments_folder(data_dir).is_dir() {
        return Err(catalog::not_found(data_dir));
    }
    let _lock = lock::lock(data_dir)?;
    start::may_create_catalog(data_dir)?;
    let log = start::check_wal_file(data_dir)?;
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
    copies.map_or(Ok(()), |copies| copies.check_owner(&conn))?;
    let before: Vec<Uuid> = quarantine::list(data_dir)?.iter().map(|note| note.segment).collect();
    // Whether a server keeps copies is not known here.
    let now = retention::kept_clock(&conn)?.map_or_else(now_micros, |clock| clock.age);
    let recovered = start::recover(&mut conn, data_dir, identity, log, (now, true))?;
    let mut report = RepairReport { log: recovered.log, completed: recovered.completed, ..RepairReport::default() };
    for listed in listed_segment::list_segments(&conn)? {
        let Err(reason) = listed_segment::check(data_dir, &listed)? else { continue };
        let calls = calls_of(&conn, listed.id)?;
        let note = |reason: String| SetAside {
            source_name: Some(listed.source_name.clone()),
            rows: Some(listed.rows),
            calls,
            ..SetAside::new(listed.id, listed.source, reason)
        };
        if put_back(data_dir, &listed)? {
            report.taken_back.push(note(String::new()));
            continue;
        }
        let reason = match copies.map(|copies| copies.replace(data_dir, &listed)).transpose()? {
            Some(None) => {
                report.fetched.push(note(reason));
                continue;
            }
            Some(Some(lost)) => format!("{reason}, and {lost}"),
            None => reason,
        };
        // A crash in between leaves a file that no catalog names, which the next start settles.
        conn.execute("DELETE FROM segments WHERE id = ?1", [listed.id])?;
        report.set_aside.push(quarantine::put(data_dir, &listed.path(data_dir), note(reason))?);
    }
    for note in quarantine::list(data_dir)? {
        match take_back(&mut conn, data_dir, identity, &note)? {
            Ok(()) => report.taken_back.push(note),
            Err(reason) if before.contains(&note.segment) => report.left.push(SetAside { reason, ..note }),
            Err(_) if report.set_aside.iter().any(|known| known.segment == note.segment) => {}
            Err(reason) => report.set_aside.push(SetAside { reason, ..note }),
        }
    }
    let there: HashSet<Uuid> = quarantine::list(data_dir)?.iter().map(|note| note.segment).collect();
    for notes in [&mut report.set_aside, &mut report.left] {
        // A merged segment came back with the rows of others.
        notes.retain(|note| there.contains(&note.segment));
    }
    Ok(report)
}

/// The first and the last write-ahead row that a segment of the catalog was made of, if it says so.
fn calls_of(conn: &Connection, segment: Uuid) -> Result<Option<(i64, i64)>> {
    let sql = "SELECT first_seq, last_seq FROM segments WHERE id = ?1";
    let calls: Option<(Option<i64>, Option<i64>)> =
        conn.query_row(sql, [segment], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(calls.and_then(|(first, last)| first.zip(last)))
}

/// Moves the file of a segment that the catalog names, and that is missing, back from the quarantine. Returns whether
/// it was there and whole.
fn put_back(data: &Path, listed: &ListedSegment) -> Result<bool> {
    let (from, to) = (quarantine::file(data, listed.id), listed.path(data));
    if to.exists() || !from.is_file() {
        return Ok(false);
    }
    let whole = footer::check(&from, listed.id, listed.checksum);
    if !whole.is_ok_and(|footer| footer.rows == listed.rows && footer.size == listed.bytes) {
        return Ok(false);
    }
    sync::create_folder(&paths::source_folder(data, listed.source))?;
    quarantine::take(data, listed.id, &to)?;
    Ok(true)
}

/// Takes a segment back from the quarantine. The inner error says why it stays there.
pub(crate) fn take_back(
    conn: &mut Connection,
    data: &Path,
    catalog: Uuid,
    note: &SetAside,
) -> Result<Result<(), String>> {
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
        let others: HashSet<Uuid> = leftovers::overlapping(&tx, key, &entry)?.into_iter().collect();
        if let Some(other) = others.iter().next() {
            if !completes_merge(data, &entry, &others)? {
                return Ok(Err(format!("segment {other} has some of its rows already: they would be there twice")));
            }
            others.iter().try_for_each(|id| tx.execute("DELETE FROM segments WHERE id = ?1", [id]).map(drop))?;
            tombstones::replaced(&tx, &others, source, note.segment)?;
        }
        let file = Leftover { path: from, segment: note.segment, source: entry.source };
        if let LoggedRows::Mismatch(reason) = leftovers::logged(&tx, key, &entry, &file)? {
            return Ok(Err(reason));
        }
    }
    let folder = paths::source_folder(data, source);
    let to = folder.join(paths::segment_file(note.segment));
    match settle::register(&tx, catalog, key, &to, note.segment, (&footer, &entry)) {
        Ok(()) => {}
        Err(StoreError::Corrupt { reason, .. }) => return Ok(Err(reason)),
        Err(error) => return Err(error),
    }
    tx.execute("DELETE FROM dropped WHERE id = ?1", [note.segment])?;
    sync::create_folder(&folder)?;
    // The file is moved first. Without the commit no catalog names it, and it comes back here.
    quarantine::take(data, note.segment, &to)?;
    tx.commit()?;
    quarantine::forget_lost(data, &entry.replaces);
    Ok(Ok(()))
}

/// Whether a merged segment takes the place of `others`, which the catalog names: they are a part of what it was merged of,
/// and the rest is lost. A rest that is not set aside was dropped on purpose, and must not come back.
fn completes_merge(data: &Path, entry: &FooterEntry, others: &HashSet<Uuid>) -> Result<bool> {
    let set_aside: HashSet<Uuid> = quarantine::list(data)?.iter().map(|note| note.segment).collect();
    let mut rest = entry.replaces.iter().filter(|id| !others.contains(id)).peekable();
    Ok(others.iter().all(|id| entry.replaces.contains(id))
        && rest.peek().is_some()
        && rest.all(|id| set_aside.contains(id)))
}
