//! Recovery: a data folder is made of the copies in an object store, where the disk of their server is lost.
//!
//! The folder takes the next epoch first, so that a server that still runs elsewhere stops. Then it reads the newest copy of the
//! catalog that is whole, and fetches the segments that it names. Segments that were put after that copy are fetched
//! too, and are decided about like files that a crash left: those whose rows are elsewhere are deleted, the others taken back. The
//! catalog gets its name last, so that what is cut off is no data folder, and another attempt goes on.

mod attempt;
mod later;
mod newest_catalog;

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};

use crate::{
    catalog::{WRITER, names},
    data_folder::{
        create::create_data_folder,
        disk_failure,
        lock::lock,
        paths,
        sync::{sync_file, sync_folder},
    },
    error::{Result, StoreError},
    maintenance::{listed_segment::list_segments, segment_copies::SegmentCopies, verify::Finding},
    objects::{
        catalog_object::CatalogHeader,
        client::{RequestLimits, environment},
        ownership::{self, Before},
    },
    recovery::quarantine::{self, SetAside},
    wal::numbering,
};

/// So far are the numbers of calls moved on: the lost server has given some that no copy knows, and none is given twice. It
/// cannot have been more, because their events were in memory.
const SKIPPED_CALLS: i64 = 1 << 32;

/// What [`recover`] made a data folder of, and what is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The epoch that the data folder took.
    pub epoch: u64,
    /// The object of the copy of the catalog.
    pub copy: String,
    /// When that copy was made, in microseconds since 1970, UTC. What was acknowledged later is lost, except what is in
    /// `later`.
    pub taken_at: i64,
    /// The highest number of a call that is known of: until then, and in `later`.
    pub last_call: i64,
    /// The first call that no segment held then, if there was one: events of it and of later ones were on the lost disk
    /// only, as far as they are not in `later`.
    pub first_unflushed: Option<i64>,
    /// Newer copies of the catalog that could not be used.
    pub refused_copies: Vec<Finding>,
    /// Sources.
    pub sources: u64,
    /// Segments of the copy that are there.
    pub segments: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Segments of the copy that are not there, because their objects are missing or damaged. The catalog names them, and
    /// queries that need them fail.
    pub lost: Vec<Finding>,
    /// Rows in those.
    pub lost_rows: u64,
    /// Segments that were put after the copy was made, and are there now.
    pub later: Vec<SetAside>,
    /// Segments that were put after the copy was made, and could not be taken back; they are in the quarantine.
    pub left: Vec<SetAside>,
}

/// Makes a data folder of the copies at an address, as in [`StoreOptions::copies_url`](crate::StoreOptions::copies_url).
/// The folder must be empty or missing. One that has a catalog is left as it is, and the answer is `None`: it was recovered before,
/// and [`Store::open`](crate::Store::open) finds out whether the copies are its own. An attempt that was cut off goes on. Blocks
/// until all segments are there.
///
/// The server that had the copies before is replaced: it changes nothing there any more, and takes no events in.
///
/// # Errors
/// [`StoreError::RecoveryRefused`] if the folder has something else, if there is no copy of a catalog, or if another server was
/// recovered meanwhile; [`StoreError::BadUrl`]; [`StoreError::Locked`]; [`StoreError::Exposed`]; [`StoreError::ObjectStore`],
/// [`StoreError::Io`], [`StoreError::Sqlite`] and [`StoreError::DiskFull`], after which another attempt may help.
pub fn recover(url: &str, data_dir: &Path) -> Result<Option<RecoveryReport>> {
    recover_with(url, data_dir, environment(), RequestLimits::default())
        .map_err(|error| disk_failure::refine(error, data_dir))
}

pub(crate) fn recover_with(
    url: &str,
    data_dir: &Path,
    settings: impl IntoIterator<Item = (String, String)>,
    limits: RequestLimits,
) -> Result<Option<RecoveryReport>> {
    if fs::metadata(data_dir.join(paths::CATALOG)).is_ok_and(|file| file.len() > 0) {
        return Ok(None);
    }
    let recovery = |data: PathBuf| Recovery { data, url: url.to_owned() };
    recovery(data_dir.to_owned()).check_folder()?;
    let data = create_data_folder(data_dir)?;
    let _lock = lock(&data)?;
    let recovery = recovery(data);
    let copies = SegmentCopies::open(url, &recovery.data, settings, limits)?;
    recovery.run(&copies).map(Some)
}

struct Recovery {
    data: PathBuf,
    url: String,
}

impl Recovery {
    fn refused(&self, reason: impl Into<String>) -> StoreError {
        StoreError::RecoveryRefused { path: self.data.clone(), url: self.url.clone(), reason: reason.into() }
    }

    fn run(&self, copies: &SegmentCopies) -> Result<RecoveryReport> {
        let owner = copies.run(|client| async move { ownership::owner(&client).await })?;
        let Some(Ok(catalog)) = owner else {
            return Err(self.refused("there are no copies of a data folder at this address"));
        };
        if copies.run(|client| async move { ownership::list_catalogs(&client).await })?.is_empty() {
            return Err(self.refused(
                "there is no copy of a catalog at this address, only segments: copy them to segments/ of a new data folder, and \
                 tidegate repair --rebuild-catalog makes a catalog of what they say",
            ));
        }
        let mut attempt = self.attempt()?;
        let writer = attempt.writer;
        if attempt.has_epoch
            && copies.run(|client| async move { ownership::last_writer(&client).await })? != Some(Some(writer))
        {
            return Err(self.refused(
                "another server was recovered from these copies after this attempt began: empty the folder, and begin again if \
                 this server is to take over from that one",
            ));
        }
        let taken =
            copies.run(move |client| async move { ownership::take_epoch(&client, writer, Before::Any).await })?;
        let epoch = taken.map_err(|other| other.error())?;
        attempt.has_epoch = true;
        self.note(&attempt)?;
        let mut report = RecoveryReport { epoch, ..RecoveryReport::default() };
        let (mut conn, header) = self.newest_catalog(copies, catalog, &mut report)?;
        self.fetch_segments(copies, &mut conn, &header, &mut report)?;
        let noting = conn.transaction()?;
        numbering::leave_out(&noting, report.last_call, report.last_call.saturating_add(SKIPPED_CALLS))?;
        noting.commit()?;
        conn.execute(
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            params![WRITER, writer.to_string()],
        )?;
        report.sources = conn.query_row("SELECT count(*) FROM sources", [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        self.finish(conn)?;
        Ok(report)
    }

    /// The folder of what is not complete.
    fn stage(&self) -> PathBuf {
        self.data.join(paths::RECOVERY)
    }

    /// The catalog until it gets its name.
    fn staged_catalog(&self) -> PathBuf {
        self.stage().join(paths::CATALOG)
    }

    /// Fetches the segments that the copy names, and those that were put after it was made.
    fn fetch_segments(
        &self,
        copies: &SegmentCopies,
        conn: &mut Connection,
        header: &CatalogHeader,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        // What an earlier attempt set aside is fetched again.
        let set_aside = self.data.join(quarantine::FOLDER);
        if set_aside.is_dir() {
            let emptying = StoreError::io(format!("deleting {}", set_aside.display()));
            fs::remove_dir_all(&set_aside).map_err(emptying)?;
        }
        let named = list_segments(conn)?;
        let later = self.later_segments(copies, conn, &named)?;
        tracing::info!(
            segments = named.len(),
            bytes = named.iter().map(|segment| segment.bytes).sum::<u64>(),
            later = later.len(),
            "fetching segments from the object store"
        );
        for segment in &named {
            report.segments += 1;
            report.rows += segment.rows;
            report.bytes += segment.bytes;
        }
        for (segment, problem) in copies.fetch(&self.data, named)? {
            tracing::error!(segment = %segment.id, source = segment.source_name, rows = segment.rows, problem,
                "a segment is lost: queries that need it fail");
            report.segments -= 1;
            report.rows -= segment.rows;
            report.bytes -= segment.bytes;
            report.lost_rows += segment.rows;
            report.lost.push(Finding { what: segment.name(), problem });
        }
        copies.fetch_unchecked(&self.data, later)?;
        self.take_later(conn, header, report)
    }

    /// Gives the catalog its name.
    fn finish(&self, conn: Connection) -> Result<()> {
        let (path, name) = (self.staged_catalog(), self.data.join(paths::CATALOG));
        conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        conn.close().map_err(|(_, error)| error)?;
        sync_file(&path)?;
        names::delete_all(&name)?;
        sync_folder(&paths::segments_folder(&self.data))?;
        fs::rename(&path, &name).map_err(StoreError::io(format!("naming {}", name.display())))?;
        sync_folder(&self.data)?;
        // What is left of it hurts nobody.
        let _ = fs::remove_dir_all(self.stage());
        Ok(())
    }
}
