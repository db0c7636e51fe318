//! The quarantine: segments that are kept and listed, but not read.
//!
//! A file that the catalog does not name, or that is damaged, is moved to `quarantine/` in the data folder. A note
//! beside it says whose rows it has and why it is there. Nothing is deleted from there but what a deleted source has;
//! `tidegate repair` takes back what is whole.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    clock::now_micros,
    data_folder::{private::create_private_folder, sync::sync_folder},
    error::{Result, StoreError},
    segment::footer,
};

/// The name of the folder in a data folder.
pub(crate) const FOLDER: &str = "quarantine";

/// A segment that is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The segment.
    #[serde(with = "crate::uuid_text")]
    pub segment: Uuid,
    /// The source whose rows the segment has.
    #[serde(with = "crate::uuid_text")]
    pub source: Uuid,
    /// The name of the source at that time, if known.
    pub source_name: Option<String>,
    /// Rows in it, if known.
    pub rows: Option<u64>,
    /// Why it is here.
    pub reason: String,
    /// When it was set aside, in microseconds since 1970, UTC.
    pub at: i64,
    /// Whether there is a file. Of a segment that was lost there is only a note.
    pub file: bool,
    /// The first and the last write-ahead row of this catalog that the segment was made of, if known: a file of it may still be
    /// found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<(i64, i64)>,
}

impl SetAside {
    pub(crate) fn new(segment: Uuid, source: Uuid, reason: impl Into<String>) -> SetAside {
        let (source_name, rows, calls) = (None, None, None);
        SetAside { segment, source, source_name, rows, reason: reason.into(), at: now_micros(), file: true, calls }
    }
}

/// The folder, created if it does not exist.
pub(crate) fn folder(data: &Path) -> Result<PathBuf> {
    let folder = data.join(FOLDER);
    let is_new = !folder.is_dir();
    create_private_folder(&folder)?;
    // In any case: an earlier attempt may have been cut off before it.
    sync_folder(data).inspect_err(|_| {
        if is_new {
            let _ = fs::remove_dir(&folder);
        }
    })?;
    Ok(folder)
}

pub(crate) fn file(data: &Path, segment: Uuid) -> PathBuf {
    data.join(FOLDER).join(format!("{segment}.parquet"))
}

fn note_file(data: &Path, segment: Uuid) -> PathBuf {
    data.join(FOLDER).join(format!("{segment}.json"))
}

/// Moves the file of a segment here, if there is one, and writes its note.
pub(crate) fn put(data: &Path, from: &Path, mut note: SetAside) -> Result<SetAside> {
    let folder = folder(data)?;
    let to = file(data, note.segment);
    note.file = from.is_file();
    if note.file && to.exists() {
        // There are two files of one segment, because somebody copied one. Both are kept.
        let other = folder.join(format!("{}.{}.other", note.segment, Uuid::new_v4()));
        fs::rename(&to, &other).map_err(StoreError::io(format!("moving {} aside", to.display())))?;
    }
    let path = note_file(data, note.segment);
    let text = serde_json::to_vec_pretty(&note).map_err(|error| StoreError::corrupt("a note", error))?;
    let write = || -> io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(&text)?;
        file.sync_all()
    };
    write().map_err(StoreError::io(format!("writing {}", path.display())))?;
    if note.file {
        fs::rename(from, &to).map_err(StoreError::io(format!("moving {} to {}", from.display(), to.display())))?;
        from.parent().map_or(Ok(()), sync_folder)?;
    }
    sync_folder(&folder)?;
    Ok(note)
}

/// Moves the file of a segment back to where the catalog expects it.
pub(crate) fn take(data: &Path, segment: Uuid, to: &Path) -> Result<()> {
    let from = file(data, segment);
    fs::rename(&from, to).map_err(StoreError::io(format!("moving {} to {}", from.display(), to.display())))?;
    to.parent().map_or(Ok(()), sync_folder)?;
    // A note without a file is harmless: the catalog names the segment.
    let _ = fs::remove_file(note_file(data, segment));
    sync_folder(&data.join(FOLDER))
}

/// Forgets segments of which there is only a note: another segment has their rows again.
pub(crate) fn forget_lost(data: &Path, segments: &[Uuid]) {
    for segment in segments.iter().filter(|segment| !file(data, **segment).exists()) {
        // A note that stays says of rows that they are lost, and no more.
        let _ = fs::remove_file(note_file(data, *segment));
    }
}

/// Deletes the segments of a source that was deleted: `repair` would make the source again.
pub(crate) fn delete_source(data: &Path, source: Uuid) -> Result<()> {
    let notes = list(data)?;
    // Files that were put here by hand have no note of their source.
    let is_of_source = |note: &&SetAside| {
        let entry = || footer::read(&file(data, note.segment), note.segment, None).ok().and_then(|footer| footer.entry);
        note.source == source || (note.source.is_nil() && entry().is_some_and(|entry| entry.source == source))
    };
    let mut is_changed = false;
    for note in notes.iter().filter(is_of_source) {
        // The note goes last, so that a file whose deletion failed is still known to be of the source.
        for path in [file(data, note.segment), note_file(data, note.segment)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(format!("deleting {}", path.display()))(error));
                }
                _ => is_changed = true,
            }
        }
    }
    if is_changed { sync_folder(&data.join(FOLDER)) } else { Ok(()) }
}

/// The notes of all segments here, oldest first.
pub(crate) fn list(data: &Path) -> Result<Vec<SetAside>> {
    let folder = data.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io(format!("listing {}", folder.display()))(error)),
    };
    let mut segments: Vec<Uuid> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let kind = path.extension()?.to_str()?;
            let id = Uuid::parse_str(path.file_stem()?.to_str()?).ok()?;
            (kind == "parquet" || kind == "json").then_some(id)
        })
        .collect();
    segments.sort();
    segments.dedup();
    let read = |segment: &Uuid| {
        let text = fs::read(note_file(data, *segment)).unwrap_or_default();
        let note = serde_json::from_slice::<SetAside>(&text).ok().filter(|note| note.segment == *segment);
        let note = note.unwrap_or_else(|| SetAside::new(*segment, Uuid::nil(), "it was put here by hand"));
        SetAside { file: file(data, *segment).is_file(), ..note }
    };
    let mut all: Vec<SetAside> = segments.iter().map(read).collect();
    all.sort_by_key(|note| (note.at, note.segment));
    Ok(all)
}

/// Stores a copy of another file of the data folder here, under its name and the time.
pub(crate) fn keep_copy(data: &Path, of: &Path) -> Result<PathBuf> {
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let to = folder(data)?.join(format!("{name}.{}", now_micros()));
    crate::data_folder::sync::copy_file(of, &to)?;
    sync_folder(&data.join(FOLDER))?;
    Ok(to)
}
