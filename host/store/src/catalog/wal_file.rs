//! Damage in SQLite's own write-ahead file, looked for before SQLite opens it.
//!
//! After a crash SQLite recovers the file up to the first frame whose checksum is wrong, and drops the rest without a
//! report. That is right for a transaction that was cut off before it was acknowledged. It is wrong where a bit flipped
//! in the middle: then frames behind it complete transactions. Each transaction is synced before the next begins. So a
//! second complete transaction behind the bad frame proves that acknowledged changes are lost; a single one may be the
//! one that was cut off.
//!
//! After a failed sync, however, a transaction is written over one that failed, and what remains of the longer one is
//! behind it. The two are told apart by the checksums, each of which continues that of the frame before: transactions
//! are counted together only where that holds.
//!
//! The format is <https://www.sqlite.org/fileformat2.html#walformat>.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::data_folder::paths;

const HEADER: usize = 32;

const FRAME: usize = 24;

/// The magic number of a file whose checksums use little-endian numbers. One more means big-endian.
const MAGIC: u32 = 0x377f_0682;

/// What a damaged write-ahead file of the catalog had behind the damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDamage {
    /// The first damaged frame, counted from 1; 0 is the header of the file.
    pub frame: u64,
    /// Complete transactions from there on that follow each other, and that SQLite drops. One of them may never have
    /// been acknowledged.
    pub transactions: u64,
    /// Events in them that were in no segment yet, if known.
    pub events: Option<u64>,
}

impl LogDamage {
    /// Whether something acknowledged is certainly lost.
    pub fn is_certain(&self) -> bool {
        self.transactions > 1
    }
}

pub(crate) fn path(data: &Path) -> PathBuf {
    data.join(format!("{}-wal", paths::CATALOG))
}

/// The checksum of the format, continued from `sums`.
fn sum(big: bool, mut sums: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let &[a, b, c, d, e, f, g, h] = pair else { continue };
        let number = |bytes| if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        sums.0 = sums.0.wrapping_add(number([a, b, c, d])).wrapping_add(sums.1);
        sums.1 = sums.1.wrapping_add(number([e, f, g, h])).wrapping_add(sums.0);
    }
    sums
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes)
}

/// Fills a buffer; false at the end of the file.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The header of the file.
struct Head {
    big: bool,
    page: usize,
    salts: [u8; 8],
    sums: (u32, u32),
    sound: bool,
}

fn head(bytes: &[u8; HEADER], database: &Path) -> io::Result<Head> {
    let big = number(bytes, 0) == MAGIC + 1;
    let sums = sum(big, (0, 0), &bytes[..24]);
    let sound = number(bytes, 0) & !1 == MAGIC && sums == (number(bytes, 24), number(bytes, 28));
    let page = if sound {
        number(bytes, 8)
    } else {
        // The page size is also in the database.
        let mut first = [0; 100];
        let there = File::open(database).and_then(|mut file| fill(&mut file, &mut first)).unwrap_or(false);
        match (there, u32::from(u16::from_be_bytes([first[16], first[17]]))) {
            (true, 1) => 65536,
            (true, page) if page >= 512 => page,
            _ => 16384,
        }
    };
    let page = usize::try_from(page).unwrap_or(0);
    if !(512..=65536).contains(&page) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the size of its pages is impossible"));
    }
    let mut salts = [0; 8];
    salts.copy_from_slice(&bytes[16..24]);
    Ok(Head { big, page, salts, sums, sound })
}

/// Inspects the write-ahead file of a data folder that no process has open; `None` if it is whole.
pub(crate) fn inspect(data: &Path) -> io::Result<Option<LogDamage>> {
    walk(data, None)
}

/// The same. All frames are written to `mended`, if given, with right checksums.
fn walk(data: &Path, mut mended: Option<&mut dyn Write>) -> io::Result<Option<LogDamage>> {
    let mut file = match File::open(path(data)) {
        Ok(file) => BufReader::with_capacity(1 << 20, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(None);
    }
    let mut head = head(&header, &data.join(paths::CATALOG))?;
    let (mut frame, mut page) = ([0; FRAME], vec![0; head.page]);
    if !head.sound {
        // The first frame has the salts too, unless it is damaged as well.
        if !fill(&mut file, &mut frame)? {
            return Ok(None);
        }
        head.salts.copy_from_slice(&frame[8..16]);
        file.seek(SeekFrom::Start(HEADER as u64))?;
    }
    let mut right = head.sums;
    if let Some(mended) = &mut mended {
        header[..4].copy_from_slice(&(MAGIC + u32::from(head.big)).to_be_bytes());
        header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
        header[8..12].copy_from_slice(&u32::try_from(head.page).unwrap_or(0).to_be_bytes());
        header[16..24].copy_from_slice(&head.salts);
        right = sum(head.big, (0, 0), &header[..24]);
        header[24..28].copy_from_slice(&right.0.to_be_bytes());
        header[28..].copy_from_slice(&right.1.to_be_bytes());
        mended.write_all(&header)?;
    }
    // The checksum of the last frame as it is stored, and as it should be.
    let (mut stored, mut computed) = (head.sums, head.sums);
    // Transactions in a row, and the most of them.
    let (mut at, mut run, mut transactions) = (0, 0, 0);
    let mut bad = (!head.sound).then_some(0);
    while fill(&mut file, &mut frame)? && fill(&mut file, &mut page)? {
        at += 1;
        let ours = frame[8..16] == head.salts;
        let own = (number(&frame, 16), number(&frame, 20));
        let continued = |sums| sum(head.big, sum(head.big, sums, &frame[..8]), &page);
        let expected = continued(stored);
        // The damage may be in the checksum of the last frame alone.
        let follows = ours && (own == expected || (stored != computed && own == continued(computed)));
        (stored, computed) = (own, if follows { own } else { expected });
        if bad.is_none() && !follows {
            bad = Some(at);
        }
        if !follows {
            run = 0;
        }
        if bad.is_some() && ours && number(&frame, 4) != 0 {
            run += 1;
            transactions = transactions.max(run);
        }
        if let Some(mended) = &mut mended {
            if !ours && bad != Some(at) {
                // Frames of an earlier use of the file.
                break;
            }
            frame[8..16].copy_from_slice(&head.salts);
            right = sum(head.big, sum(head.big, right, &frame[..8]), &page);
            frame[16..20].copy_from_slice(&right.0.to_be_bytes());
            frame[20..].copy_from_slice(&right.1.to_be_bytes());
            mended.write_all(&frame)?;
            mended.write_all(&page)?;
        }
    }
    Ok(bad.filter(|_| transactions > 0).map(|frame| LogDamage { frame, transactions, events: None }))
}

/// Whether what SQLite recovers of a damaged write-ahead file makes a consistent catalog; `None` if so, else the
/// problem. It need not: pages that were moved into the database earlier are covered by older ones at the beginning of
/// the file. This is checked in a copy below `folder`, because opening the catalog itself would mix them for good.
pub(crate) fn what_is_left(data: &Path, folder: &Path) -> io::Result<Option<String>> {
    let scratch = Scratch(folder.join(format!("check-{}", uuid::Uuid::new_v4())));
    fs::create_dir(&scratch.0)?;
    let database = scratch.0.join(paths::CATALOG);
    fs::copy(data.join(paths::CATALOG), &database)?;
    fs::copy(path(data), path(&scratch.0))?;
    let look = || -> rusqlite::Result<Option<String>> {
        let conn = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Ok(Some(found));
        }
        let dangling = conn.query_row("PRAGMA foreign_key_check", [], |row| row.get::<_, String>(0)).optional()?;
        Ok(dangling.map(|table| format!("a row of {table} refers to nothing")))
    };
    Ok(look().unwrap_or_else(|error| Some(error.to_string())))
}

/// Counts the events behind what SQLite recovers of a damaged write-ahead file, in a copy of the catalog below `folder`
/// in which all frames are valid. `last` is the last `seq` of the write-ahead log that SQLite recovered.
pub(crate) fn count_events(data: &Path, log: &Path, folder: &Path, last: i64) -> Option<u64> {
    let scratch = Scratch(folder.join(format!("count-{}", uuid::Uuid::new_v4())));
    fs::create_dir(&scratch.0).ok()?;
    let database = scratch.0.join(paths::CATALOG);
    fs::copy(data.join(paths::CATALOG), &database).ok()?;
    // Read from the copy, because SQLite uses the file itself by now.
    fs::copy(log, scratch.0.join("log")).ok()?;
    fs::rename(scratch.0.join("log"), path(&scratch.0)).ok()?;
    let mended = scratch.0.join("mended");
    let mut out = File::create(&mended).ok()?;
    walk(&scratch.0, Some(&mut out)).ok()?;
    fs::rename(&mended, path(&scratch.0)).ok()?;
    let conn = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
    let sql = "SELECT coalesce(sum(json_array_length(CAST(body AS TEXT))), 0) FROM wal WHERE seq > ?1";
    let events: i64 = conn.query_row(sql, [last], |row| row.get(0)).ok()?;
    u64::try_from(events).ok()
}

/// A folder that is deleted on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
