//! Files of segments that the catalog does not name: what becomes of them at the start.
//!
//! A crash leaves some, and so does a catalog that lost its latest changes. What goes is certain:
//! unfinished files, whose rows are in the write-ahead log, and segments that were dropped on purpose,
//! which the catalog remembers until their files are gone. A segment of whose rows the write-ahead log
//! still has some or all is of a flush that was not registered: the flush is completed as its
//! transaction would have been. Everything else is set aside ([`quarantine`]).

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use crate::{
    checksum::Refused,
    error::{Result, StoreError},
    event,
    footer::{self, Footer},
    log, quarantine,
    quarantine::SetAside,
    segment::{self, Entry, Segment},
    shape::Shape,
    tree,
};

/// What the catalog names.
pub(crate) struct Known {
    segments: HashSet<Uuid>,
    /// Identity to short key.
    sources: HashMap<Uuid, i64>,
    /// Segments and sources that were dropped or deleted and of which there may be files.
    dropped: HashSet<Uuid>,
}

impl Known {
    pub(crate) fn read(conn: &Connection) -> Result<Known> {
        let ids = |sql: &str| -> Result<HashSet<Uuid>> {
            let mut statement = conn.prepare(sql)?;
            let ids = statement.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<rusqlite::Result<_>>()?)
        };
        let mut sources = conn.prepare("SELECT id, key FROM sources")?;
        let sources = sources.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Known {
            segments: ids("SELECT id FROM segments")?,
            sources: sources.collect::<rusqlite::Result<_>>()?,
            dropped: ids("SELECT id FROM dropped")?,
        })
    }
}

/// A file in `segments/` that the catalog does not name.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) path: PathBuf,
    pub(crate) segment: Uuid,
    pub(crate) source: Uuid,
}

/// What is right for such a file.
pub(crate) enum Decision {
    /// It goes: it was dropped on purpose.
    Delete,
    /// Its flush is completed: the write-ahead log has rows of it.
    Complete(Box<(Footer, Entry)>, i64),
    /// It is set aside.
    SetAside(SetAside),
}

/// What lies in `segments/` under names that this store gives; anything else is somebody else's.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: Vec<Leftover>,
    /// Temporary files of segments.
    unfinished: Vec<PathBuf>,
    /// Folders of sources.
    folders: Vec<(PathBuf, Uuid)>,
}

pub(crate) fn files(data: &Path) -> Result<Listing> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let listing = || StoreError::io(format!("listing {}", folder.display()));
        let entries = fs::read_dir(folder).map_err(listing())?;
        entries.map(|entry| entry.map(|entry| entry.path()).map_err(listing())).collect()
    };
    let id = |path: &Path| path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| Uuid::parse_str(stem).ok());
    let mut listing = Listing::default();
    for folder in list(&data.join("segments"))? {
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

/// What is right for a file; nothing where the catalog names it. Reads, and changes nothing.
pub(crate) fn decide(conn: &Connection, known: &Known, catalog: Uuid, file: &Leftover) -> Result<Option<Decision>> {
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
    let ours = |entry: &Entry| entry.catalog == catalog && entry.source == file.source;
    let Some(entry) = footer.entry.take().filter(ours) else { return Ok(Some(Decision::SetAside(note))) };
    let Some(key) = known.sources.get(&file.source).copied() else {
        note.reason.push_str(", nor its source");
        return Ok(Some(Decision::SetAside(note)));
    };
    let decision = match logged(conn, key, &entry, file)? {
        Logged::Nothing => Decision::SetAside(note),
        Logged::Some => Decision::Complete(Box::new((footer, entry)), key),
        Logged::Others(reason) => {
            note.reason = format!("{}, and {reason}", note.reason);
            Decision::SetAside(note)
        }
    };
    Ok(Some(decision))
}

pub(crate) enum Logged {
    Nothing,
    Some,
    /// The write-ahead rows of these numbers are other events, or the file cannot tell.
    Others(String),
}

/// Whether the write-ahead log still has rows of a segment, by number and by identity.
pub(crate) fn logged(conn: &Connection, key: i64, entry: &Entry, file: &Leftover) -> Result<Logged> {
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
                Err(refused) => return Ok(Logged::Others(refused.reason())),
            },
        };
        for event in tree::stored(body, row.get(0)?) {
            let event = event?;
            let id = event.get(event::ID).and_then(|id| id.as_str()).unwrap_or_default();
            match ids.get_mut(id).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => return Ok(Logged::Others("the write-ahead log has other events under its numbers".to_owned())),
            }
            found = true;
        }
    }
    Ok(if found { Logged::Some } else { Logged::Nothing })
}

fn checked_ids(file: &Leftover) -> Result<HashMap<String, usize>, Refused> {
    footer::check(&file.path, file.segment, None)?;
    footer::ids(&file.path)
}

/// Puts a segment in the catalog as its flush would have done: with its shape, and without its
/// write-ahead rows. In a transaction of the caller.
///
/// # Errors
/// [`StoreError::Corrupt`] where its columns and the source's cannot both be read.
pub(crate) fn register(conn: &Connection, key: i64, path: &Path, segment: Uuid, of: (&Footer, &Entry)) -> Result<()> {
    let (footer, entry) = of;
    let refuse = |reason: String| StoreError::corrupt(format!("segment {segment}"), reason);
    let text: String = conn.query_row("SELECT shape FROM sources WHERE key = ?1", [key], |row| row.get(0))?;
    let mut shape: Shape = serde_json::from_str(&text).map_err(|error| StoreError::corrupt("a shape", error))?;
    shape
        .join(&entry.shape)
        .map_err(|path| refuse(format!("its field {path} is of another kind than the source's")))?;
    let schema = footer.schema().map_err(|error| refuse(error.to_string()))?;
    let root = footer.sums.as_ref().map(|sums| sums.root).ok_or_else(|| refuse("it has no checksums".to_owned()))?;
    let segment = Segment::of_entry(segment, path.to_owned(), footer.size, root, entry);
    segment::register(conn, key, &segment, &schema)?;
    let shape = serde_json::to_string(&shape).map_err(|error| StoreError::corrupt("a shape", error))?;
    conn.execute("UPDATE sources SET shape = ?2 WHERE key = ?1", params![key, shape])?;
    log::forget(conn, key, entry.first_seq, entry.last_seq)
}

/// What was done with the files that the catalog does not name.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) deleted: usize,
    pub(crate) completed: usize,
    pub(crate) set_aside: Vec<SetAside>,
}

/// Decides about every file that the catalog does not name. No store may have the folder.
pub(crate) fn settle(conn: &mut Connection, data: &Path, catalog: Uuid) -> Result<Settled> {
    let known = Known::read(conn)?;
    let listing = files(data)?;
    let mut settled = Settled::default();
    let delete = |path: &Path| fs::remove_file(path).map_err(StoreError::io(format!("deleting {}", path.display())));
    for path in &listing.unfinished {
        delete(path)?;
        settled.deleted += 1;
    }
    let mut last_seq = 0;
    for file in &listing.segments {
        let Some(decision) = decide(conn, &known, catalog, file)? else { continue };
        let note = match decision {
            Decision::Delete => {
                delete(&file.path)?;
                settled.deleted += 1;
                continue;
            }
            Decision::Complete(of, key) => {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
                match register(&tx, key, &file.path, file.segment, (&of.0, &of.1)) {
                    Ok(()) => {
                        tx.commit()?;
                        tracing::info!(segment = %file.segment, source = of.1.source_name, rows = of.1.rows,
                            "completed a flush that was cut off");
                        settled.completed += 1;
                        continue;
                    }
                    // The write-ahead log still has what it has.
                    Err(StoreError::Corrupt { reason, .. }) => {
                        last_seq = last_seq.max(of.1.last_seq);
                        let reason = format!("the catalog does not name it, and {reason}");
                        let rows = Some(of.0.rows);
                        let source_name = Some(of.1.source_name);
                        SetAside { source_name, rows, ..SetAside::new(file.segment, file.source, reason) }
                    }
                    Err(error) => return Err(error),
                }
            }
            Decision::SetAside(note) => {
                if let Ok(Footer { entry: Some(entry), .. }) = footer::read(&file.path, file.segment, None) {
                    last_seq = last_seq.max(entry.last_seq);
                }
                note
            }
        };
        let note = quarantine::put(data, &file.path, note)?;
        tracing::error!(segment = %note.segment, source = %note.source, name = note.source_name,
            rows = note.rows, reason = note.reason,
            "a segment was set aside in quarantine/; stop the server and run tidegate repair to take it back");
        settled.set_aside.push(note);
    }
    if last_seq > 0 {
        skip_to(conn, last_seq)?;
    }
    for (folder, _) in listing.folders.iter().filter(|(_, source)| !known.sources.contains_key(source)) {
        // Stays when it holds what is not ours.
        let _ = fs::remove_dir(folder);
    }
    forget_gone(conn, data)?;
    Ok(settled)
}

/// Lets write-ahead rows count on behind a number, so that no later event has a number that a segment
/// which may come back was made of.
pub(crate) fn skip_to(conn: &Connection, seq: i64) -> Result<()> {
    let changed = conn.execute("UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'wal'", [seq])?;
    if changed == 0 {
        conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('wal', ?1)", [seq])?;
    }
    Ok(())
}

/// Forgets what was dropped and has no file any more.
pub(crate) fn forget_gone(conn: &Connection, data: &Path) -> Result<()> {
    let mut statement = conn.prepare_cached("SELECT id, source FROM dropped")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let dropped: Vec<(Uuid, Uuid)> = rows.collect::<rusqlite::Result<_>>()?;
    let gone = |path: &Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    for (id, source) in dropped {
        let folder = segment::folder(data, source);
        // A deleted source stands for all that is in its folder.
        let path = if id == source { folder } else { folder.join(segment::file_name(id)) };
        if gone(&path) {
            conn.prepare_cached("DELETE FROM dropped WHERE id = ?1")?.execute([id])?;
        }
    }
    Ok(())
}
