//! Comparing the segments of a data folder with their copies in an object store. Everything is read, nothing is changed.

use std::{collections::HashMap, path::Path, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::{
    catalog,
    data_folder::{lock, paths},
    error::{Result, StoreError},
    maintenance::{
        listed_segment::{ListedSegment, list_segments},
        segment_copies::SegmentCopies,
        verify::Finding,
    },
    objects::{
        client::{ObjectClient, RequestLimits, environment},
        object_error::ObjectError,
        ownership,
        segment_objects::{self, SegmentCopy},
    },
    segment::{
        checksum::{
            file::check_root,
            table::{ChecksumTable, TableParse},
        },
        file_error::Damage,
    },
};

/// Objects that are read at a time.
const READ_AT_ONCE: usize = 8;

/// Bytes of an object that are asked for at once.
const PART_BYTES: u64 = 4 << 20;

/// What [`verify_copies`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiesReport {
    /// Segments whose copies are whole.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Segments of versions without checksums, of whose copies only the length was compared.
    pub without_checksum: u64,
    /// Segments whose copies are missing or damaged.
    pub findings: Vec<Finding>,
    /// Objects of segments that the catalog does not name, by their names. Some are about to be deleted, or were left by a crash;
    /// a server deletes them.
    pub orphans: Vec<String>,
    /// Bytes of those.
    pub orphan_bytes: u64,
    /// Copies of the catalog.
    pub catalogs: u64,
}

/// Compares each segment that the catalog of a data folder names with its copy at an address, as in
/// [`StoreOptions::copies_url`](crate::StoreOptions::copies_url): it is there, has its length, and every byte has the checksum with which
/// it was written. Lists objects that belong to nothing. Blocks until everything is read.
///
/// # Errors
/// [`StoreError::Locked`] when a server has the folder; [`StoreError::NoCatalog`]; [`StoreError::OtherOwner`] when the copies are
/// those of another catalog; [`StoreError::BadUrl`]; [`StoreError::ObjectStore`]; [`StoreError::Sqlite`].
pub fn verify_copies(data_dir: &Path, url: &str) -> Result<CopiesReport> {
    let database = data_dir.join(paths::CATALOG);
    if !database.is_file() {
        return Err(catalog::not_found(data_dir));
    }
    let _lock = lock::lock(data_dir)?;
    let copies = SegmentCopies::open(url, data_dir, environment(), RequestLimits::default())?;
    let conn = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    copies.check_owner(&conn)?;
    let listed = list_segments(&conn)?;
    let objects = copies.run(|client| async move {
        let folder = client.folder();
        segment_objects::list_segments(&client, &folder).await
    })?;
    let catalogs = copies.run(|client| async move { ownership::list_catalogs(&client).await })?;
    let mut report = CopiesReport { catalogs: catalogs.len() as u64, ..CopiesReport::default() };
    let mut left: HashMap<(Uuid, Uuid), SegmentCopy> =
        objects.into_iter().map(|object| ((object.source, object.segment), object)).collect();
    for segment in &listed {
        left.remove(&(segment.source, segment.id));
    }
    report.orphan_bytes = left.values().map(|object| object.bytes).sum();
    report.orphans =
        left.values().map(|object| copies.client.place(object.source, object.segment).to_string()).collect();
    report.orphans.sort();
    let checked = copies.run(|client| async move {
        let check = |segment: ListedSegment| {
            let client = Arc::clone(&client);
            async move { check_object(&client, &segment).await.map(|found| (segment, found)) }
        };
        let checked = stream::iter(listed).map(check).buffer_unordered(READ_AT_ONCE);
        checked.try_collect::<Vec<(ListedSegment, Result<Extent, String>)>>().await
    })?;
    for (segment, found) in checked {
        match found {
            Ok(extent) => {
                report.segments += 1;
                report.bytes += segment.bytes;
                report.without_checksum += u64::from(extent == Extent::Length);
            }
            Err(problem) => report.findings.push(Finding { what: segment.name(), problem }),
        }
    }
    report.findings.sort_by(|one, other| one.what.cmp(&other.what));
    Ok(report)
}

/// How much of an object was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Length,
    Whole,
}

/// Why an object is not the copy of a segment, or why that cannot be found out now.
enum Refused {
    Wrong(String),
    Unknown(StoreError),
}

impl From<Damage> for Refused {
    fn from(damage: Damage) -> Refused {
        Refused::Wrong(format!("its object is damaged: {damage}"))
    }
}

/// Checks every byte of an object. The inner error says what is wrong with it.
async fn check_object(client: &ObjectClient, segment: &ListedSegment) -> Result<Result<Extent, String>> {
    match check_bytes(client, segment).await {
        Ok(extent) => Ok(Ok(extent)),
        Err(Refused::Wrong(problem)) => Ok(Err(problem)),
        Err(Refused::Unknown(error)) => Err(error),
    }
}

async fn check_bytes(client: &ObjectClient, segment: &ListedSegment) -> Result<Extent, Refused> {
    let object = client.place(segment.source, segment.id);
    let size = segment.bytes;
    let read = async |from: u64, to: u64| match client.read(&object, size, from..to).await {
        Ok(bytes) => Ok(bytes),
        Err(error @ ObjectError::Refused(_)) => {
            let reason = format!("reading segment {}: {error}", segment.id);
            Err(Refused::Unknown(StoreError::ObjectStore { reason }))
        }
        Err(error) => Err(Refused::Wrong(error.to_string())),
    };
    let mut from = ChecksumTable::guess(size);
    let table = loop {
        let end = read(from, size).await?;
        match ChecksumTable::parse(&end, size, segment.id)? {
            TableParse::Complete(table) => break Some(table),
            TableParse::Absent => break None,
            // The position only ever decreases.
            TableParse::NeedsFrom(earlier) if earlier < from => from = earlier,
            TableParse::NeedsFrom(_) => return Err(Damage::new("its end is cut off").into()),
        }
    };
    let Some(table) = check_root(table, segment.checksum)? else { return Ok(Extent::Length) };
    let mut position = 0;
    while position < size {
        let range = table.widen(&(position..(position + PART_BYTES).min(size)));
        table.check(range.start, &read(range.start, range.end).await?)?;
        position = range.end;
    }
    Ok(Extent::Whole)
}
