//! Segments: immutable Parquet files, newest row first.
//!
//! A segment exists once the catalog says so. Before that its file is written under a temporary
//! name, synced, renamed, and its folder synced: whatever a crash leaves behind is either a file
//! that the catalog does not know ([`crate::leftover`] decides about it at the next open) or a complete
//! segment. Its footer says what the catalog says of it ([`Entry`]), so that the one can be made of the
//! other; its bytes have checksums ([`crate::checksum`]).

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use datafusion::arrow::datatypes::Schema;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
    },
};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    batch::MemBatch,
    checksum::Summing,
    error::{Result, StoreError},
    event::TIMESTAMP,
    now_micros,
    options::StoreOptions,
    shape::Shape,
};

/// Where the footer has the [`Entry`], as JSON.
pub(crate) const ENTRY: &str = "tidegate.entry";

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
    damage: OnceLock<String>,
    fate: AtomicU8,
}

/// What the footer says of the segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The catalog that counted the write-ahead rows.
    #[serde(with = "crate::identity")]
    pub(crate) catalog: Uuid,
    #[serde(with = "crate::identity")]
    pub(crate) source: Uuid,
    pub(crate) source_name: String,
    pub(crate) rows: usize,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) projects: Option<Vec<String>>,
    pub(crate) created_at: i64,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    /// The source's schema when it was written.
    pub(crate) shape: Shape,
}

/// Whose rows a segment has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) catalog: Uuid,
    pub(crate) source: Uuid,
    pub(crate) name: &'a str,
    pub(crate) shape: &'a Shape,
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

    /// Why it cannot be read, if that was found since the start.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Remembers that it cannot be read; the first reason stays.
    pub(crate) fn note_damage(&self, reason: &str) {
        let _ = self.damage.set(reason.to_owned());
    }

    /// Notes a file that is missing or has another length.
    fn look_at_file(&self) {
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
    pub(crate) fn of_entry(id: Uuid, path: PathBuf, bytes: u64, checksum: u32, entry: &Entry) -> Segment {
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
            fate: AtomicU8::new(Fate::Stays as u8),
        }
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
pub(crate) fn write(folder: &Path, origin: Origin<'_>, batch: &MemBatch, options: &StoreOptions) -> Result<Segment> {
    let id = Uuid::new_v4();
    let entry = Entry {
        catalog: origin.catalog,
        source: origin.source,
        source_name: origin.name.to_owned(),
        rows: batch.rows.num_rows(),
        min_time: batch.min_time,
        max_time: batch.max_time,
        projects: batch.projects(),
        created_at: now_micros(),
        first_seq: batch.first_seq,
        last_seq: batch.last_seq,
        shape: origin.shape.clone(),
    };
    let path = folder.join(file_name(id));
    let temporary = folder.join(format!("{id}.tmp"));
    create_folder(folder)?;
    let written = write_file(&temporary, id, &entry, batch, options).and_then(|written| {
        fs::rename(&temporary, &path).map_err(StoreError::io(format!("naming segment {}", path.display())))?;
        sync_folder(folder)?;
        Ok(written)
    });
    let (bytes, checksum) = match written {
        Ok(written) => written,
        Err(error) => {
            // Best effort: the next open deletes what stays.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
    };
    Ok(Segment::of_entry(id, path, bytes, checksum, &entry))
}

/// Returns the length of the file and the root of its checksums.
fn write_file(path: &Path, id: Uuid, entry: &Entry, batch: &MemBatch, options: &StoreOptions) -> Result<(u64, u32)> {
    let parquet = |source| StoreError::Parquet { segment: id, source };
    let column = batch.rows.schema_ref().index_of(TIMESTAMP)?;
    // Leaves count from the left; all columns before the time are plain, so the index is the same.
    let order = SortingColumn { column_idx: column as i32, descending: true, nulls_first: false };
    let said = serde_json::to_string(entry).map_err(|error| StoreError::corrupt("what a footer says", error))?;
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
            KeyValue::new("tidegate.source".to_owned(), entry.source.to_string()),
            KeyValue::new("tidegate.source_name".to_owned(), entry.source_name.clone()),
            KeyValue::new("tidegate.schema_version".to_owned(), "2".to_owned()),
            KeyValue::new(ENTRY.to_owned(), said),
        ]))
        .build();

    let refused = || StoreError::io(format!("writing segment {}", path.display()));
    let file = File::create_new(path).map_err(refused())?;
    let mut writer = ArrowWriter::try_new(Summing::new(BufWriter::new(file)), batch.rows.schema(), Some(properties))
        .map_err(parquet)?;
    writer.write(&batch.rows).map_err(parquet)?;
    // From here on come page indexes and footer.
    writer.flush().map_err(parquet)?;
    writer.inner_mut().hold();
    let (mut buffered, checksum) = writer.into_inner().map_err(parquet)?.finish(id).map_err(refused())?;
    buffered.flush().map_err(refused())?;
    let file = buffered.get_ref();
    file.sync_all().map_err(refused())?;
    Ok((file.metadata().map_err(refused())?.len(), checksum))
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
pub(crate) fn register(conn: &Connection, source_key: i64, segment: &Segment, schema: &Schema) -> Result<()> {
    let projects = segment.projects.as_ref().map(|names| serde_json::Value::from(names.clone()).to_string());
    let columns: serde_json::Map<_, _> =
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string().into())).collect();
    conn.prepare_cached(
        "INSERT INTO segments (id, source, rows, bytes, min_time, max_time, projects, columns, created_at,
             checksum, first_seq, last_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
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
        segment.checksum,
        segment.seqs.map(|(first, _)| first),
        segment.seqs.map(|(_, last)| last),
    ])?;
    Ok(())
}

/// The segments of a source, as the catalog has them. Of the files it is only seen whether they are
/// there, in their length.
pub(crate) fn load(conn: &Connection, source_key: i64, folder: &Path) -> Result<Vec<Arc<Segment>>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, rows, bytes, min_time, max_time, projects, created_at, checksum, first_seq, last_seq FROM segments
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
            checksum: row.get(7)?,
            seqs: Option::zip(row.get(8)?, row.get(9)?),
            damage: OnceLock::new(),
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
        segment.look_at_file();
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}
