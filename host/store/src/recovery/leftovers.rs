//! Files of segments that the catalog does not name, and the decision about each.
//!
//! A crash leaves some, and so does a catalog that lost its latest changes. Three kinds may be deleted: unfinished files,
//! whose rows are in the write-ahead log or in other segments; segments with a tombstone; and merged segments, if the
//! catalog names all those that they were merged of, or one with all their rows, and the files of these are there: where the
//! catalog has lost the commit of the merge, they are not. If the write-ahead log still has rows of a segment, its flush was not registered; the flush is completed as its transaction would have been. Everything else is
//! set aside in the quarantine.
//!
//! A flush whose registration failed leaves a file, and the next flush writes the same rows again with newer ones. So
//! files are decided about from the one with the newest rows on ([`in_order`]): it is completed, and one whose rows are
//! all in it is deleted.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    field_names,
    ingest::{tape::Item, tape_reader},
    recovery::quarantine::SetAside,
    segment::{
        file_error::SegmentFileError,
        footer::{self, Footer},
        footer_entry::FooterEntry,
    },
};

/// What the catalog names.
pub(crate) struct CatalogNames {
    segments: HashSet<Uuid>,
    /// Identity to short key.
    pub(crate) sources: HashMap<Uuid, i64>,
    /// Segments and sources with a tombstone.
    dropped: HashSet<Uuid>,
}

impl CatalogNames {
    pub(crate) fn read(conn: &Connection) -> Result<CatalogNames> {
        let ids = |sql: &str| -> Result<HashSet<Uuid>> {
            let mut statement = conn.prepare(sql)?;
            let ids = statement.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        };
        let mut sources = conn.prepare("SELECT id, key FROM sources")?;
        let sources = sources.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(CatalogNames {
            segments: ids("SELECT id FROM segments")?,
            sources: sources.collect::<rusqlite::Result<_>>()?,
            dropped: ids("SELECT id FROM dropped")?,
        })
    }

    /// Whether a segment or a source has a tombstone.
    pub(crate) fn dropped(&self, id: Uuid) -> bool {
        self.dropped.contains(&id)
    }

    /// Whether a segment is one of those of the catalog.
    pub(crate) fn names(&self, segment: Uuid) -> bool {
        self.segments.contains(&segment)
    }
}

/// A file in `segments/` that the catalog does not name.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) path: PathBuf,
    pub(crate) segment: Uuid,
    pub(crate) source: Uuid,
}

/// What to do with such a file.
pub(crate) enum Decision {
    /// Delete it: it has a tombstone, or its rows are in segments that the catalog names.
    Delete,
    /// Complete its flush: the write-ahead log has rows of it. With the short key of its source.
    Complete(Box<(Footer, FooterEntry)>, i64),
    /// Set it aside.
    SetAside(SetAside),
}

/// The files and folders in `segments/` whose names are of the form that this store gives. Others are ignored.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: Vec<Leftover>,
    /// Temporary files of segments.
    pub(crate) unfinished: Vec<PathBuf>,
    /// Folders of sources.
    pub(crate) folders: Vec<(PathBuf, Uuid)>,
}

/// Lists `segments/`.
pub(crate) fn list_files(data: &Path) -> Result<Listing> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let listing = || StoreError::io(format!("listing {}", folder.display()));
        let entries = fs::read_dir(folder).map_err(listing())?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(listing())).collect()
    };
    let id = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::parse_str(stem).ok());
    let mut listing = Listing::default();
    for folder in list(&paths::segments_folder(data))? {
        let Some(source) = id(&folder).filter(|_| folder.is_dir()) else { continue };
        for path in list(&folder)? {
            let Some(segment) = id(&path) else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("tmp") => listing.unfinished.push(path),
                Some("parquet") => listing.segments.push(Leftover { path, segment, source }),
                _ => {}
            }
        }
        listing.folders.push((folder, source));
    }
    Ok(listing)
}

/// The place of a file in the order in which files are decided about: those with the newest rows first, and of those with
/// the same the one with the most.
pub(crate) fn place(entry: &FooterEntry) -> (Reverse<i64>, i64) {
    (Reverse(entry.last_seq), entry.first_seq)
}

/// The files that the catalog does not name, in the order in which they are decided about.
pub(crate) fn in_order<'l>(listing: &'l Listing, known: &CatalogNames) -> Vec<&'l Leftover> {
    let unnamed = listing.segments.iter().filter(|file| !known.names(file.segment));
    let mut files: Vec<_> = unnamed
        .map(|file| {
            let entry = footer::read(&file.path, file.segment, None).ok().and_then(|footer| footer.entry);
            (entry.as_ref().map(place), file)
        })
        .collect();
    files.sort_by_key(|(rows, _)| *rows);
    files.into_iter().map(|(_, file)| file).collect()
}

/// Decides about a file; `None` if the catalog names it. Changes nothing.
pub(crate) fn decide(
    conn: &Connection,
    known: &CatalogNames,
    catalog: Uuid,
    file: &Leftover,
) -> Result<Option<Decision>> {
    if known.segments.contains(&file.segment) {
        return Ok(None);
    }
    if known.dropped.contains(&file.segment) || known.dropped.contains(&file.source) {
        return Ok(Some(Decision::Delete));
    }
    let mut note = SetAside::new(file.segment, file.source, "the catalog does not name it");
    let mut footer = match footer::read(&file.path, file.segment, None) {
        Ok(footer) => footer,
        Err(refused) => {
            note.reason = format!("{}, and {}", note.reason, refused.reason());
            return Ok(Some(Decision::SetAside(note)));
        }
    };
    note.source_name.clone_from(&footer.source_name);
    note.rows = Some(footer.rows);
    let ours = |entry: &FooterEntry| entry.catalog == catalog && entry.source == file.source;
    let Some(entry) = footer.entry.take().filter(ours) else { return Ok(Some(Decision::SetAside(note))) };
    note.calls = Some((entry.first_seq, entry.last_seq));
    let Some(key) = known.sources.get(&file.source).copied() else {
        note.reason.push_str(", nor its source");
        return Ok(Some(Decision::SetAside(note)));
    };
    if !entry.replaces.is_empty() {
        if are_rows_elsewhere(conn, key, file, &entry)? {
            return Ok(Some(Decision::Delete));
        }
        if entry.replaces.iter().any(|id| known.segments.contains(id)) {
            note.reason.push_str(", and files of segments that it was merged of are missing");
        }
    }
    if let Some(other) = overlapping(conn, key, &entry)?.first().copied() {
        if entry.replaces.is_empty() && is_within(file, other) {
            return Ok(Some(Decision::Delete));
        }
        note.reason = format!("{}, and segment {other} has some of its rows", note.reason);
        return Ok(Some(Decision::SetAside(note)));
    }
    let decision = match logged(conn, key, &entry, file)? {
        LoggedRows::Absent => Decision::SetAside(note),
        LoggedRows::Present => Decision::Complete(Box::new((footer, entry)), key),
        LoggedRows::Mismatch(reason) => {
            note.reason = format!("{}, and {reason}", note.reason);
            Decision::SetAside(note)
        }
    };
    Ok(Some(decision))
}

/// Whether the rows of a merged segment are in files of segments that the catalog names: of all those that it was merged
/// of, or of one that was merged later and has all its write-ahead rows.
pub(crate) fn are_rows_elsewhere(conn: &Connection, key: i64, file: &Leftover, entry: &FooterEntry) -> Result<bool> {
    for id in &entry.replaces {
        if !is_there(conn, file, *id)? {
            let covering = "SELECT id FROM segments WHERE source = ?1 AND first_seq <= ?2 AND last_seq >= ?3";
            let mut covering = conn.prepare_cached(covering)?;
            let mut ids = covering.query_map(params![key, entry.first_seq, entry.last_seq], |row| row.get(0))?;
            return ids.try_fold(false, |found, id| Ok(found || is_there(conn, file, id?)?));
        }
    }
    Ok(true)
}

/// Whether the catalog names a segment, and the folder of `file` has its file with the length that the catalog says.
fn is_there(conn: &Connection, file: &Leftover, segment: Uuid) -> Result<bool> {
    let mut bytes = conn.prepare_cached("SELECT bytes FROM segments WHERE id = ?1")?;
    let bytes: Option<i64> = bytes.query_row([segment], |row| row.get(0)).optional()?;
    let Some(bytes) = bytes.and_then(|bytes| u64::try_from(bytes).ok()) else { return Ok(false) };
    let found = fs::metadata(file.path.with_file_name(paths::segment_file(segment)));
    Ok(found.is_ok_and(|found| found.len() == bytes))
}

/// The segments that the catalog names and that have some of the write-ahead rows of another one.
pub(crate) fn overlapping(conn: &Connection, key: i64, entry: &FooterEntry) -> Result<Vec<Uuid>> {
    let sql = "SELECT id FROM segments WHERE source = ?1 AND first_seq <= ?3 AND last_seq >= ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let ids = statement.query_map(params![key, entry.first_seq, entry.last_seq], |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Whether all rows of a file are in another segment of its source, by the ids of the events.
pub(crate) fn is_within(file: &Leftover, other: Uuid) -> bool {
    let of_other = footer::ids(&file.path.with_file_name(paths::segment_file(other)));
    let (Ok(ids), Ok(of_other)) = (checked_ids(file), of_other) else { return false };
    ids.iter().all(|(id, count)| of_other.get(id).is_some_and(|others| others >= count))
}

/// What the write-ahead log has of the rows of a segment.
pub(crate) enum LoggedRows {
    /// None of them.
    Absent,
    /// Some or all.
    Present,
    /// The write-ahead rows with these numbers have other events, or the file cannot be read.
    Mismatch(String),
}

/// Whether the write-ahead log has rows of a segment, by number and by the ids of the events.
pub(crate) fn logged(conn: &Connection, key: i64, entry: &FooterEntry, file: &Leftover) -> Result<LoggedRows> {
    let mut statement =
        conn.prepare_cached("SELECT seq, body FROM wal WHERE source = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq")?;
    let mut rows = statement.query(params![key, entry.first_seq, entry.last_seq])?;
    let mut ids: Option<HashMap<String, usize>> = None;
    let mut found = false;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_blob().map_err(|error| StoreError::corrupt("the write-ahead log", error))?;
        let ids = match &mut ids {
            Some(ids) => ids,
            None => match checked_ids(file) {
                Ok(read) => ids.insert(read),
                Err(refused) => return Ok(LoggedRows::Mismatch(refused.reason())),
            },
        };
        for event in tape_reader::stored_events(body, row.get(0)?) {
            let event = event?;
            let id = event.root().field(field_names::ID).and_then(Item::text).unwrap_or_default();
            match ids.get_mut(id).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => {
                    return Ok(LoggedRows::Mismatch(
                        "the write-ahead log has other events under its numbers".to_owned(),
                    ));
                }
            }
            found = true;
        }
    }
    Ok(if found { LoggedRows::Present } else { LoggedRows::Absent })
}

fn checked_ids(file: &Leftover) -> Result<HashMap<String, usize>, SegmentFileError> {
    footer::check(&file.path, file.segment, None)?;
    footer::ids(&file.path)
}
