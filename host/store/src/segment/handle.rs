//! Segments: immutable Parquet files, newest row first.
//!
//! A segment exists once the catalog says so. Before that its file is written under a temporary
//! name, synced, renamed, and its folder synced: whatever a crash leaves behind is either a file
//! that the catalog does not know ([`crate::leftover`] decides about it at the next open) or a complete
//! segment. Its footer says what the catalog says of it ([`FooterEntry`]), so that the one can be made of the
//! other; its bytes have checksums ([`crate::checksum`]).

use std::{
    fs, io,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use uuid::Uuid;

use crate::segment::footer_entry::FooterEntry;

/// What the catalog knows of a segment: enough to plan a query without opening the file.
///
/// Whoever reads the file holds the segment: when the catalog has forgotten it, the file goes with
/// the last of them.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: Uuid,
    pub(crate) path: PathBuf,
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    /// The values of `project` in it; nothing when they are too many or not all text.
    pub(crate) projects: Option<Vec<String>>,
    /// When it was registered.
    pub(crate) created_at: i64,
    /// The root of its checksums; nothing for a file of the time before there were any.
    pub(crate) checksum: Option<u32>,
    /// The write-ahead rows that it was made of, both ends included; nothing as above.
    pub(crate) seqs: Option<(i64, i64)>,
    /// Why it cannot be read, once that was found.
    pub(crate) damage: OnceLock<String>,
    pub(crate) removal: AtomicU8,
}

/// What becomes of the file when nobody holds the segment any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileRemoval {
    Keep = 0,
    File = 1,
    /// The source is gone too: the last file takes the folder along.
    FileAndFolder = 2,
}

impl Segment {
    /// Says that the catalog does not have it, or no longer.
    pub(crate) fn remove_on_drop(&self, removal: FileRemoval) {
        self.removal.fetch_max(removal as u8, Ordering::AcqRel);
    }

    /// Why it cannot be read, if that was found since the start.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Remembers that it cannot be read; the first reason stays.
    pub(crate) fn note_damage(&self, reason: &str) {
        let _ = self.damage.set(reason.to_owned());
    }

    /// Notes a file that is missing or has another length.
    pub(crate) fn check_length(&self) {
        let reason = match fs::metadata(&self.path) {
            Ok(file) if file.len() == self.bytes => return,
            Ok(file) => format!("its file has {} bytes, the catalog says {}", file.len(), self.bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "its file is missing".to_owned(),
            // The first query that needs it finds out.
            Err(_) => return,
        };
        tracing::error!(segment = %self.id, path = %self.path.display(), reason, "a segment is damaged");
        self.note_damage(&reason);
    }

    /// A segment as its file and its footer say it is.
    pub(crate) fn of_entry(id: Uuid, path: PathBuf, bytes: u64, checksum: u32, entry: &FooterEntry) -> Segment {
        Segment {
            id,
            path,
            rows: entry.rows,
            bytes,
            min_time: entry.min_time,
            max_time: entry.max_time,
            projects: entry.projects.clone(),
            created_at: entry.created_at,
            checksum: Some(checksum),
            seqs: Some((entry.first_seq, entry.last_seq)),
            damage: OnceLock::new(),
            removal: AtomicU8::new(FileRemoval::Keep as u8),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let removal = *self.removal.get_mut();
        if removal == FileRemoval::Keep as u8 {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            // The next open finds a file that nobody knows, and tries again.
            tracing::warn!(path = %self.path.display(), %error, "a dropped segment's file stays for now");
        }
        if removal == FileRemoval::FileAndFolder as u8
            && let Some(folder) = self.path.parent()
        {
            // Fails as long as there are others.
            let _ = fs::remove_dir(folder);
        }
    }
}
