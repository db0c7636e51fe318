//! Carrying out the decisions about files that the catalog does not name.

use std::{fs, path::Path};

use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    recovery::{
        leftovers::{CatalogNames, Decision, decide, in_order, list_files},
        quarantine::{self, SetAside},
    },
    schema::shape::Shape,
    segment::{
        catalog_rows,
        footer::{self, Footer},
        footer_entry::FooterEntry,
        handle::Segment,
        tombstones::GoneFiles,
    },
    wal::rows,
};

/// Registers a segment in the catalog as its flush would have done: adds its schema to that of the source, and deletes
/// its write-ahead rows. In a transaction of the caller. `catalog` is the identity of this catalog. The calls of a segment of
/// another one have numbers that calls of this one have too: they are not noted, so that the segment is not merged, and
/// delete nothing.
///
/// # Errors
/// [`StoreError::Corrupt`] if its schema and that of the source cannot be united.
pub(crate) fn register(
    conn: &Connection,
    catalog: Uuid,
    key: i64,
    path: &Path,
    segment: Uuid,
    of: (&Footer, &FooterEntry),
) -> Result<()> {
    let (footer, entry) = of;
    let refuse = |reason: String| StoreError::corrupt(format!("segment {segment}"), reason);
    let text: String = conn.query_row("SELECT shape FROM sources WHERE key = ?1", [key], |row| row.get(0))?;
    let mut shape: Shape = serde_json::from_str(&text).map_err(|error| StoreError::corrupt("a shape", error))?;
    shape
        .join(&entry.shape)
        .map_err(|path| refuse(format!("its field {path} is of another kind than the source's")))?;
    let schema = footer.schema().map_err(|error| refuse(error.to_string()))?;
    let root = footer
        .checksums
        .as_ref()
        .map(|checksums| checksums.root)
        .ok_or_else(|| refuse("it has no checksums".to_owned()))?;
    let mut segment = Segment::of_entry(segment, path.to_owned(), footer.size, root, entry);
    let is_own = entry.catalog == catalog;
    segment.seqs = segment.seqs.filter(|_| is_own);
    catalog_rows::register(conn, key, &segment, &schema)?;
    let shape = serde_json::to_string(&shape).map_err(|error| StoreError::corrupt("a shape", error))?;
    conn.execute("UPDATE sources SET shape = ?2 WHERE key = ?1", params![key, shape])?;
    if is_own { rows::delete_flushed(conn, key, entry.first_seq, entry.last_seq) } else { Ok(()) }
}

/// What was done with the files that the catalog does not name.
#[derive(Debug, Default)]
pub(crate) struct SettleReport {
    pub(crate) deleted: usize,
    pub(crate) completed: usize,
    pub(crate) set_aside: Vec<SetAside>,
}

/// Decides about every file that the catalog does not name, and carries the decision out. No store may have the folder
/// open.
pub(crate) fn settle(
    conn: &mut Connection,
    data: &Path,
    catalog: Uuid,
    (now, has_copies): (i64, bool),
) -> Result<SettleReport> {
    let known = CatalogNames::read(conn)?;
    let listing = list_files(data)?;
    let mut settled = SettleReport::default();
    let delete = |path: &Path| fs::remove_file(path).map_err(StoreError::io(format!("deleting {}", path.display())));
    for path in &listing.unfinished {
        delete(path)?;
        settled.deleted += 1;
    }
    for note in quarantine::list(data)?.iter().filter(|note| known.dropped(note.source)) {
        quarantine::delete_source(data, note.source)?;
    }
    let mut last_seq = 0;
    for file in in_order(&listing, &known) {
        let Some(decision) = decide(conn, &known, catalog, file)? else { continue };
        let note = match decision {
            Decision::Delete => {
                delete(&file.path)?;
                settled.deleted += 1;
                continue;
            }
            Decision::Complete(of, key) => {
                let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
                match register(&tx, catalog, key, &file.path, file.segment, (&of.0, &of.1)) {
                    Ok(()) => {
                        tx.commit()?;
                        tracing::info!(segment = %file.segment, source = of.1.source_name, rows = of.1.rows,
                            "completed a flush that was cut off");
                        settled.completed += 1;
                        continue;
                    }
                    // The write-ahead log keeps its rows.
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
        // It stays if it has other files.
        let _ = fs::remove_dir(folder);
    }
    // Those that copies wait for are left to retention.
    let gone = GoneFiles::find(conn, data, now, if has_copies { i64::MIN } else { i64::MAX })?;
    gone.sync()?;
    match gone.forget(conn) {
        // A full disk does not prevent the start. Retention forgets them once there is space.
        Err(StoreError::DiskFull(reason)) => tracing::warn!(reason, "tombstones of deleted files stay for now"),
        other => other?,
    }
    Ok(settled)
}

/// Lets the `seq` of the write-ahead log continue after a number, so that no later call gets a number that a segment
/// which may come back was made of.
pub(crate) fn skip_to(conn: &Connection, seq: i64) -> Result<()> {
    rows::skip_to(conn, seq)
}
