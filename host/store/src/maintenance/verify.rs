//! Looking for damage in a data folder that no server has open. Everything is read, nothing is changed.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use uuid::Uuid;

use crate::{
    catalog::{self, database, wal_file},
    data_folder::{lock, paths},
    error::{Result, StoreError},
    maintenance::listed_segment::{self, check},
    recovery::{
        leftovers::{self, CatalogNames, Decision},
        quarantine::{self, SetAside},
        start,
    },
};

/// Damage that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The damaged part: a segment with its source, the catalog, its write-ahead file.
    pub what: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What [`verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments that the catalog names.
    pub segments: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Segments of versions without checksums; of these only the footer was read.
    pub without_checksum: u64,
    /// All damage.
    pub findings: Vec<Finding>,
    /// The segments in the quarantine, which are kept and not read by queries.
    pub set_aside: Vec<SetAside>,
}

impl VerifyReport {
    fn find(&mut self, what: impl Into<String>, problem: impl Into<String>) {
        self.findings.push(Finding { what: what.into(), problem: problem.into() });
    }
}

/// Reads everything in a data folder and reports damage: in the catalog, in its write-ahead file, and in every segment
/// (the file exists and has its length, every byte has the checksum it was written with, the footer has as many rows as
/// the catalog says). Segments that the catalog does not name are reported too. Blocks until everything is read.
///
/// # Errors
/// [`StoreError::Locked`] when a server has the folder; [`StoreError::NoCatalog`] when it is no data
/// folder; [`StoreError::Incompatible`] for a catalog of another version; [`StoreError::Io`];
/// [`StoreError::Sqlite`]. Damage is no error: it is in the report.
pub fn verify(data_dir: &Path) -> Result<VerifyReport> {
    let database = data_dir.join(paths::CATALOG);
    if !database.is_file() && !paths::segments_folder(data_dir).is_dir() {
        return Err(catalog::not_found(data_dir));
    }
    let _lock = lock::lock(data_dir)?;
    let mut report = VerifyReport { set_aside: quarantine::list(data_dir)?, ..VerifyReport::default() };
    match start::may_create_catalog(data_dir) {
        Ok(_) => {}
        Err(error @ StoreError::CatalogMissing(_)) => {
            report.find("the catalog", error.to_string());
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    look_at_log(data_dir, &mut report)?;
    let conn = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    match look_at_catalog(&conn, data_dir) {
        Ok(problems) => problems.into_iter().for_each(|problem| report.find("the catalog", problem)),
        Err(StoreError::Sqlite(error)) => {
            report.find("the catalog", format!("it cannot be read: {error}"));
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    let listed = listed_segment::list_segments(&conn)?;
    for segment in &listed {
        report.segments += 1;
        report.rows += segment.rows;
        report.bytes += segment.bytes;
        match check(data_dir, segment)? {
            Ok(footer) => report.without_checksum += u64::from(footer.checksums.is_none()),
            Err(problem) => report.find(segment.name(), problem),
        }
    }
    look_for_leftovers(&conn, data_dir, &mut report)?;
    Ok(report)
}

fn look_at_log(data: &Path, report: &mut VerifyReport) -> Result<()> {
    let path = wal_file::path(data);
    let damage = wal_file::inspect(data).map_err(StoreError::io(format!("reading {}", path.display())))?;
    if let Some(damage) = damage {
        let sure =
            if damage.is_certain() { "" } else { ", which a power cut may have cut off before it was acknowledged" };
        report.find(
            "the write-ahead file of the catalog",
            format!(
                "it is damaged at frame {}; the next start drops {} transactions from there on{sure}",
                damage.frame, damage.transactions
            ),
        );
    }
    Ok(())
}

fn look_at_catalog(conn: &Connection, data: &Path) -> Result<Vec<String>> {
    let path = data.join(paths::CATALOG);
    match database::version(conn, &path)? {
        database::VERSION => {}
        old => {
            let reason = format!("it has schema version {old}; start the server of this build once, then verify again");
            return Err(StoreError::Incompatible { path, reason });
        }
    }
    let mut statement = conn.prepare("PRAGMA integrity_check(20)")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut problems: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
    let mut statement = conn.prepare("PRAGMA foreign_key_check")?;
    let dangling = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    problems.extend(dangling.into_iter().map(|table| format!("a row of {table} refers to nothing")));
    Ok(problems)
}

fn look_for_leftovers(conn: &Connection, data: &Path, report: &mut VerifyReport) -> Result<()> {
    let known = CatalogNames::read(conn)?;
    let identity = "SELECT value FROM meta WHERE key = 'catalog_id'";
    let identity = conn.query_row(identity, [], |row| row.get::<_, String>(0)).unwrap_or_default();
    let identity = Uuid::parse_str(&identity).unwrap_or_default();
    for file in leftovers::list_files(data)?.segments {
        if let Some(Decision::SetAside(note)) = leftovers::decide(conn, &known, identity, &file)? {
            let name = note.source_name.unwrap_or_else(|| note.source.to_string());
            report.find(format!("segment {} of source `{name}`", note.segment), note.reason);
        }
    }
    Ok(())
}
