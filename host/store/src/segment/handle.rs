//! A segment in use: what the catalog says of it, and the lifetime of its file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use object_store::path::Path as ObjectPath;
use uuid::Uuid;

use crate::{
    data_folder::paths,
    objects::block_reader::{BlockReader, Object},
    schema::{run_tenants::RunTenants, tenant_path::TenantPath},
    segment::{
        footer_entry::{FooterEntry, RowPlaces},
        run::Run,
        search_places::SearchPlaces,
    },
};

/// Where the bytes of a segment lie.
#[derive(Debug)]
pub(crate) enum SegmentPlace {
    File(PathBuf),
    /// An object, which is read through a cache.
    Object(Arc<BlockReader>),
}

/// What the catalog says of a segment: enough to plan a query without opening the file.
///
/// Every reader of the file holds an `Arc` of the segment. If the catalog has forgotten the segment, the file is
/// deleted when the last of them is dropped.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: Uuid,
    pub(crate) source: Uuid,
    pub(crate) place: SegmentPlace,
    pub(crate) rows: usize,
    pub(crate) bytes: u64,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    /// Its runs, in the order of the file: at least one.
    pub(crate) runs: Vec<Run>,
    /// Whether the file was written with runs. If not, `runs` is one with all its rows, whose row groups are not counted.
    pub(crate) has_runs: bool,
    /// By which path they are made. What they say of tenants holds for the values at this path.
    pub(crate) tenant_path: TenantPath,
    /// When it was written, in microseconds since 1970.
    pub(crate) created_at: i64,
    /// The root of its checksums; `None` for a file of a version without checksums.
    pub(crate) checksum: Option<u32>,
    /// The first and last write-ahead row that it was made of; `None` for a file of a version that did not record them.
    pub(crate) seqs: Option<(i64, i64)>,
    /// Which rows have their place, once that was asked for.
    pub(crate) row_places: OnceLock<RowPlaces>,
    /// Where its filters and indexes lie, once a search asked for them.
    pub(crate) search_places: OnceLock<SearchPlaces>,
    /// Why it cannot be read, once that was found.
    pub(crate) damage: OnceLock<String>,
    pub(crate) removal: AtomicU8,
}

/// What happens to the file when the last holder of the segment drops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FileRemoval {
    Keep = 0,
    File = 1,
    /// The file is deleted, and the folder of the source if the file was the last in it.
    FileAndFolder = 2,
}

impl Segment {
    /// Requests the removal of the file when the last holder drops the segment: the catalog does not name it, or no
    /// longer.
    pub(crate) fn remove_on_drop(&self, removal: FileRemoval) {
        self.removal.fetch_max(removal as u8, Ordering::AcqRel);
    }

    /// Why it cannot be read, if that was found since the start.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Records that it cannot be read; the first reason stays.
    pub(crate) fn note_damage(&self, reason: &str) {
        let is_first = self.damage.set(reason.to_owned()).is_ok();
        if let (true, SegmentPlace::Object(reader)) = (is_first, &self.place) {
            reader.found_damaged();
        }
    }

    /// The name of its object below the address of the store; `None` if it is a file.
    pub(crate) fn object_name(&self) -> Option<String> {
        self.object().map(|_| format!("segments/{}/{}", self.source, paths::segment_file(self.id)))
    }

    /// Its file; `None` if it is an object.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            SegmentPlace::File(path) => Some(path),
            SegmentPlace::Object(_) => None,
        }
    }

    /// Its object, and who reads it; `None` if it is a file.
    pub(crate) fn object(&self) -> Option<(&Arc<BlockReader>, Object)> {
        match &self.place {
            SegmentPlace::File(_) => None,
            SegmentPlace::Object(reader) => {
                Some((reader, Object { segment: self.id, source: self.source, bytes: self.bytes }))
            }
        }
    }

    /// The name by which what was read of it is kept in memory. No two segments of a process have the same.
    pub(crate) fn location(&self) -> Result<ObjectPath, object_store::path::Error> {
        match &self.place {
            SegmentPlace::File(path) => ObjectPath::from_absolute_path(path),
            SegmentPlace::Object(_) => {
                Ok(ObjectPath::from("objects").join(self.source.to_string()).join(paths::segment_file(self.id)))
            }
        }
    }

    /// Records damage if the file is missing or has another length than the catalog says.
    pub(crate) fn check_length(&self) {
        let Some(path) = self.path() else { return };
        let reason = match fs::metadata(path) {
            Ok(file) if file.len() == self.bytes => return,
            Ok(file) => format!("its file has {} bytes, the catalog says {}", file.len(), self.bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "its file is missing".to_owned(),
            // The first query that needs the file will find out.
            Err(_) => return,
        };
        tracing::error!(segment = %self.id, path = %path.display(), reason, "a segment is damaged");
        self.note_damage(&reason);
    }

    /// A segment of which nothing is known but its file.
    pub(crate) fn of_file(
        (source, id): (Uuid, Uuid),
        place: SegmentPlace,
        bytes: u64,
        rows: usize,
        checksum: Option<u32>,
    ) -> Segment {
        Segment {
            id,
            source,
            place,
            rows,
            bytes,
            min_time: i64::MIN,
            max_time: i64::MAX,
            runs: vec![Run { rows, groups: 0, min_time: i64::MIN, max_time: i64::MAX, tenants: RunTenants::Any }],
            has_runs: false,
            tenant_path: TenantPath::default(),
            created_at: 0,
            checksum,
            seqs: None,
            row_places: OnceLock::new(),
            search_places: OnceLock::new(),
            damage: OnceLock::new(),
            removal: AtomicU8::new(FileRemoval::Keep as u8),
        }
    }

    /// A segment from its file and its footer.
    pub(crate) fn of_entry(id: Uuid, path: PathBuf, bytes: u64, checksum: u32, entry: &FooterEntry) -> Segment {
        Segment {
            id,
            source: entry.source,
            place: SegmentPlace::File(path),
            rows: entry.rows,
            bytes,
            min_time: entry.min_time,
            max_time: entry.max_time,
            runs: entry.runs.clone().unwrap_or_else(|| vec![whole_file(entry)]),
            has_runs: entry.runs.is_some(),
            tenant_path: entry.tenant_path.clone(),
            created_at: entry.created_at,
            checksum: Some(checksum),
            seqs: Some((entry.first_seq, entry.last_seq)),
            row_places: OnceLock::new(),
            search_places: OnceLock::new(),
            damage: OnceLock::new(),
            removal: AtomicU8::new(FileRemoval::Keep as u8),
        }
    }
}

/// The run of a file that was written without runs.
fn whole_file(entry: &FooterEntry) -> Run {
    let FooterEntry { rows, min_time, max_time, projects, .. } = entry;
    let tenants = projects.clone().map_or(RunTenants::Any, RunTenants::Listed);
    Run { rows: *rows, groups: 0, min_time: *min_time, max_time: *max_time, tenants }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let removal = *self.removal.get_mut();
        if removal == FileRemoval::Keep as u8 {
            return;
        }
        let Some(path) = self.path() else { return };
        if let Err(error) = fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            // The next start finds a file that no catalog names, and deletes it because of its tombstone.
            tracing::warn!(path = %path.display(), %error, "a dropped segment's file stays for now");
        }
        if removal == FileRemoval::FileAndFolder as u8
            && let Some(folder) = path.parent()
        {
            // Fails while there are other files in it.
            let _ = fs::remove_dir(folder);
        }
    }
}
