//! Segments: immutable Parquet files, newest row first.
//!
//! A segment exists once the catalog says so. Before that its file is written under a temporary
//! name, synced, renamed, and its folder synced: whatever a crash leaves behind is either a file
//! that the catalog does not know (deleted at the next open) or a complete segment.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
    },
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use crate::{
    batch::MemBatch,
    error::{Result, StoreError},
    event::TIMESTAMP,
    now_micros,
    options::StoreOptions,
};

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
    fate: AtomicU8,
}

/// What becomes of the file when nobody holds the segment any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fate {
    Stays = 0,
    Gone = 1,
    /// The source is gone too: the last file takes the folder along.
    GoneWithFolder = 2,
}

impl Segment {
    /// Says that the catalog does not have it, or no longer.
    pub(crate) fn doom(&self, fate: Fate) {
        self.fate.fetch_max(fate as u8, Ordering::AcqRel);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let fate = *self.fate.get_mut();
        if fate == Fate::Stays as u8 {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            // The next open finds a file that nobody knows, and tries again.
            tracing::warn!(path = %self.path.display(), %error, "a dropped segment's file stays for now");
        }
        if fate == Fate::GoneWithFolder as u8
            && let Some(folder) = self.path.parent()
        {
            // Fails as long as there are others.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The folder of a source's segments.
pub(crate) fn folder(data: &Path, source: Uuid) -> PathBuf {
    data.join("segments").join(source.to_string())
}

/// The name of a segment's file in that folder.
pub(crate) fn file_name(segment: Uuid) -> String {
    format!("{segment}.parquet")
}

/// Writes the rows of a source as a new segment, durable but not yet in the catalog.
pub(crate) fn write(folder: &Path, source: (Uuid, &str), batch: &MemBatch, options: &StoreOptions) -> Result<Segment> {
    let id = Uuid::new_v4();
    let path = folder.join(file_name(id));
    let temporary = folder.join(format!("{id}.tmp"));
    create_folder(folder)?;
    let written = write_file(&temporary, id, source, batch, options).and_then(|bytes| {
        fs::rename(&temporary, &path).map_err(StoreError::io(format!("naming segment {}", path.display())))?;
        sync_folder(folder)?;
        Ok(bytes)
    });
    let bytes = match written {
        Ok(bytes) => bytes,
        Err(error) => {
            // Best effort: the next open deletes what stays.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
    };
    Ok(Segment {
        id,
        path,
        rows: batch.rows.num_rows(),
        bytes,
        min_time: batch.min_time,
        max_time: batch.max_time,
        projects: batch.projects(),
        created_at: now_micros(),
        fate: AtomicU8::new(Fate::Stays as u8),
    })
}

fn write_file(
    path: &Path,
    id: Uuid,
    (source, name): (Uuid, &str),
    batch: &MemBatch,
    options: &StoreOptions,
) -> Result<u64> {
    let parquet = |source| StoreError::Parquet { segment: id, source };
    let column = batch.rows.schema_ref().index_of(TIMESTAMP)?;
    // Leaves count from the left; all columns before the time are plain, so the index is the same.
    let order = SortingColumn { column_idx: column as i32, descending: true, nulls_first: false };
    let level = ZstdLevel::try_new(options.zstd_level).map_err(parquet)?;
    let properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("tidegate ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(options.row_group_rows))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![order]))
        .set_key_value_metadata(Some(vec![
            KeyValue::new("tidegate.segment".to_owned(), id.to_string()),
            KeyValue::new("tidegate.source".to_owned(), source.to_string()),
            KeyValue::new("tidegate.source_name".to_owned(), name.to_owned()),
            KeyValue::new("tidegate.schema_version".to_owned(), "1".to_owned()),
        ]))
        .build();

    let io = || StoreError::io(format!("writing segment {}", path.display()));
    let file = File::create_new(path).map_err(io())?;
    let mut writer =
        ArrowWriter::try_new(std::io::BufWriter::new(file), batch.rows.schema(), Some(properties)).map_err(parquet)?;
    writer.write(&batch.rows).map_err(parquet)?;
    let mut buffered = writer.into_inner().map_err(parquet)?;
    buffered.flush().map_err(io())?;
    let file = buffered.get_ref();
    file.sync_all().map_err(io())?;
    Ok(file.metadata().map_err(io())?.len())
}

/// Sees to it that a folder is there, durably: its name is in a folder that must be synced too. That
/// is synced each time, because a folder that is there may have come from an attempt whose sync
/// failed, or that a crash cut off before it.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    let is_new = !folder.is_dir();
    fs::create_dir_all(folder).map_err(StoreError::io(format!("creating {}", folder.display())))?;
    let synced = folder.parent().map_or(Ok(()), sync_folder);
    if is_new && synced.is_err() {
        // A name that is made again is written again; a sync that is tried again may pass over it.
        let _ = fs::remove_dir(folder);
    }
    synced
}

pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    #[cfg(test)]
    let synced = crate::tests::folders::synced(folder, synced);
    synced.map_err(StoreError::io(format!("syncing folder {}", folder.display())))
}

/// Registers a segment, in a transaction of the caller.
pub(crate) fn register(conn: &Connection, source_key: i64, segment: &Segment, batch: &MemBatch) -> Result<()> {
    let projects = segment.projects.as_ref().map(|names| serde_json::Value::from(names.clone()).to_string());
    let columns: serde_json::Map<_, _> = batch
        .rows
        .schema_ref()
        .fields()
        .iter()
        .map(|field| (field.name().clone(), field.data_type().to_string().into()))
        .collect();
    conn.prepare_cached(
        "INSERT INTO segments (id, source, rows, bytes, min_time, max_time, projects, columns, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        segment.id,
        source_key,
        segment.rows as i64,
        segment.bytes as i64,
        segment.min_time,
        segment.max_time,
        projects,
        serde_json::Value::Object(columns).to_string(),
        segment.created_at,
    ])?;
    Ok(())
}

/// The segments of a source, as the catalog has them; no file is looked at.
pub(crate) fn load(conn: &Connection, source_key: i64, folder: &Path) -> Result<Vec<Arc<Segment>>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, rows, bytes, min_time, max_time, projects, created_at FROM segments
         WHERE source = ?1 ORDER BY max_time DESC",
    )?;
    let read = |row: &Row<'_>| -> rusqlite::Result<(Segment, Option<String>)> {
        let id: Uuid = row.get(0)?;
        let segment = Segment {
            id,
            path: folder.join(file_name(id)),
            rows: row.get::<_, i64>(1)? as usize,
            bytes: row.get::<_, i64>(2)? as u64,
            min_time: row.get(3)?,
            max_time: row.get(4)?,
            projects: None,
            created_at: row.get(6)?,
            fate: AtomicU8::new(Fate::Stays as u8),
        };
        Ok((segment, row.get(5)?))
    };
    let mut segments = Vec::new();
    for row in statement.query_map([source_key], read)? {
        let (mut segment, projects) = row?;
        if let Some(projects) = projects {
            segment.projects = serde_json::from_str(&projects)
                .map_err(|e| StoreError::corrupt(format!("the catalog row of segment {}", segment.id), e))?;
        }
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

/// Deletes what a crash left in a source's folder: temporary files, and files that were named but
/// never registered. Their rows are still in the write-ahead log.
pub(crate) fn sweep(folder: &Path, segments: &[Arc<Segment>]) -> Result<usize> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(StoreError::io(format!("listing {}", folder.display()))(error)),
    };
    let known: HashSet<&Path> = segments.iter().map(|segment| segment.path.as_path()).collect();
    let mut deleted = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        // Only names that this store gives; anything else is somebody else's file.
        let ours = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| Uuid::parse_str(stem).is_ok());
        let leftover = match extension {
            Some("tmp") => ours,
            Some("parquet") => ours && !known.contains(path.as_path()),
            _ => false,
        };
        if leftover {
            fs::remove_file(&path).map_err(StoreError::io(format!("deleting {}", path.display())))?;
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Deletes what a crash left of sources that the catalog no longer has; returns the files.
pub(crate) fn sweep_deleted_sources(data: &Path, exists: impl Fn(Uuid) -> bool) -> Result<usize> {
    let folder = data.join("segments");
    let entries = fs::read_dir(&folder).map_err(StoreError::io(format!("listing {}", folder.display())))?;
    let mut deleted = 0;
    for entry in entries.flatten() {
        let source = entry.file_name().to_str().and_then(|name| Uuid::parse_str(name).ok());
        if source.is_some_and(|source| !exists(source)) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            deleted += sweep(&entry.path(), &[])?;
            // Stays when it holds what is not ours.
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(deleted)
}
