//! Checksums of a segment's file, so that a byte that changed at rest is an error and not a row.
//!
//! Parquet's own page checksums leave out the footer and the page indexes, and the engine does not
//! look at them. Here the whole file is covered, by blocks: reads are widened to whole blocks
//! ([`crate::verified`]), so that every byte is checked before any library sees it. A block is as
//! large as a page of the system's cache, which means that widening reads nothing more from disk.
//!
//! The table of checksums stands between the data and the footer, where Parquet lets any bytes be
//! (offsets in a footer are absolute), and other readers of Parquet pass over it:
//!
//! ```text
//! data: PAR1, pages, page indexes | table | footer, its length, PAR1
//! table: CRC-32 of each 4 KiB of the data, CRC-32 of the tail (all after the table),
//!        segment (16 bytes), length of the data (8), length of the tail (4), CRC-32 of all that (4), mark (8)
//! ```
//!
//! Numbers are little-endian. The last CRC-32, the root, is in the catalog too: a file whose table is
//! gone, or that is another file, is noticed. CRC-32 finds every change of up to three bits in a
//! block, every change within 32 neighbouring bits, and others but for one in four billion.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
};

use crc32fast::Hasher;
use uuid::Uuid;

/// Bytes of the data that have a checksum of their own.
pub(crate) const BLOCK: u64 = 4096;

const MARK: [u8; 8] = *b"TIDESUM1";

/// Bytes of the table behind the blocks' checksums.
const TRAILER: usize = 4 + 16 + 8 + 4 + 4 + 8;

/// What the last bytes of a Parquet file are.
const PARQUET: [u8; 4] = *b"PAR1";

/// Read at first, from the end: mostly all of the table.
const GUESS: u64 = 64 << 10;

/// What is wrong with the bytes of a segment, in words for a person; no paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) String);

impl Wrong {
    fn new(what: impl Into<String>) -> Wrong {
        Wrong(what.into())
    }
}

/// The checksums of a file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sums {
    blocks: Vec<u32>,
    tail: u32,
    /// Of the table itself; the catalog has it too.
    pub(crate) root: u32,
    /// Bytes before the table.
    data: u64,
    /// Bytes of the whole file.
    size: u64,
    /// Where the tail begins.
    tail_start: u64,
}

impl fmt::Debug for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sums").field("root", &self.root).field("size", &self.size).finish_non_exhaustive()
    }
}

/// What the end of a file says of its checksums.
#[derive(Debug)]
pub(crate) enum Found {
    Sums(Sums),
    /// The bytes from here on are needed.
    From(u64),
    /// A file of the time before there were checksums, as far as the file itself can tell.
    Absent,
}

impl Sums {
    /// Bytes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Sums>() + self.blocks.capacity() * 4
    }

    /// From where to read a file of that size at first.
    pub(crate) fn guess(size: u64) -> u64 {
        size.saturating_sub(GUESS)
    }

    /// Reads the table of a segment's file from the last bytes of it.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn parse(end: &[u8], size: u64, segment: Uuid) -> Result<Found, Wrong> {
        let from = size.saturating_sub(end.len() as u64);
        let at = |position: u64| position.checked_sub(from).and_then(|at| usize::try_from(at).ok());
        let footer = u32_at(end, end.len().wrapping_sub(8));
        let (Some(footer), true) = (footer, end.ends_with(&PARQUET)) else {
            return Err(Wrong::new("its end is not the end of a segment"));
        };
        let tail = u64::from(footer) + 8;
        let Some(trailer_start) = size.checked_sub(tail + TRAILER as u64) else {
            return Err(Wrong::new("its footer is said to be longer than the file"));
        };
        let Some(trailer) = at(trailer_start) else { return Ok(Found::From(trailer_start)) };
        let Some(trailer) = end.get(trailer..trailer + TRAILER) else {
            return Err(Wrong::new("its end is cut off"));
        };
        if !trailer.ends_with(&MARK) {
            return Ok(Found::Absent);
        }
        let (data, root) = (u64_at(trailer, 20), u32_at(trailer, 32));
        let (Some(data), Some(root)) = (data, root) else { return Ok(Found::Absent) };
        let tail_start = size - tail;
        let blocks = data.div_ceil(BLOCK);
        let table = blocks.checked_mul(4).and_then(|table| table.checked_add(TRAILER as u64));
        if table.and_then(|table| table.checked_add(data)) != Some(tail_start)
            || u32_at(trailer, 28).map(u64::from) != Some(tail)
        {
            return Err(Wrong::new("the table of its checksums is damaged"));
        }
        let Some(table) = at(data) else { return Ok(Found::From(data)) };
        let table = end.get(table..at(tail_start).unwrap_or(0)).unwrap_or_default();
        let covered = table.get(..table.len().saturating_sub(12)).unwrap_or_default();
        if crc32fast::hash(covered) != root {
            return Err(Wrong::new("the table of its checksums is damaged"));
        }
        if trailer.get(4..20) != Some(segment.as_bytes().as_slice()) {
            return Err(Wrong::new("it is the file of another segment"));
        }
        let mut sums: Vec<u32> = covered.chunks_exact(4).filter_map(|bytes| u32_at(bytes, 0)).collect();
        sums.truncate(usize::try_from(blocks).unwrap_or(usize::MAX));
        let tail_sum = u32_at(trailer, 0).unwrap_or_default();
        Ok(Found::Sums(Sums { blocks: sums, tail: tail_sum, root, data, size, tail_start }))
    }

    /// The same range, as far as whole units have checksums.
    pub(crate) fn widen(&self, range: &Range<u64>) -> Range<u64> {
        if range.start >= range.end {
            return range.start..range.start;
        }
        self.unit(range.start).start..self.unit(range.end - 1).end
    }

    /// What is checked as one: a block, the table, the tail.
    fn unit(&self, position: u64) -> Range<u64> {
        if position < self.data {
            let start = position - position % BLOCK;
            start..(start + BLOCK).min(self.data)
        } else if position < self.tail_start {
            self.data..self.tail_start
        } else {
            self.tail_start..self.size
        }
    }

    /// Checks bytes that were read from `start` on, which must be a range of [`Self::widen`].
    ///
    /// # Errors
    /// Where the first ones stand that are not what was written.
    pub(crate) fn check(&self, start: u64, bytes: &[u8]) -> Result<(), Wrong> {
        let mut position = start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let unit = self.unit(position);
            let length = usize::try_from(unit.end.saturating_sub(unit.start)).unwrap_or(usize::MAX);
            let Some((now, later)) = rest.split_at_checked(length).filter(|_| length > 0 && unit.start == position)
            else {
                return Err(Wrong::new(format!("its bytes from {position} on were read in part")));
            };
            let expected = if position < self.data {
                self.blocks.get(usize::try_from(position / BLOCK).unwrap_or(usize::MAX)).copied()
            } else if position < self.tail_start {
                // Nobody reads the table through here.
                None
            } else {
                Some(self.tail)
            };
            if expected.is_some_and(|expected| crc32fast::hash(now) != expected) {
                let what = if position < self.data { "data" } else { "footer" };
                return Err(Wrong::new(format!(
                    "bytes {} to {} of its {what} are not what was written: the checksum differs",
                    unit.start,
                    unit.end - 1
                )));
            }
            position = unit.end;
            rest = later;
        }
        Ok(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Hands bytes on to a file and keeps their checksums; what comes after [`Self::hold`] waits for the
/// table, which stands before the footer.
#[derive(Debug)]
pub(crate) struct Summing<W> {
    inner: W,
    blocks: Vec<u32>,
    block: Hasher,
    in_block: u64,
    data: u64,
    held: Option<Vec<u8>>,
}

impl<W: Write> Summing<W> {
    pub(crate) fn new(inner: W) -> Summing<W> {
        Summing { inner, blocks: Vec::new(), block: Hasher::new(), in_block: 0, data: 0, held: None }
    }

    /// Keeps what comes from here on, the footer in it, until [`Self::finish`].
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    fn absorb(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(BLOCK - self.in_block).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.block.update(now);
            self.in_block += room as u64;
            self.data += room as u64;
            if self.in_block == BLOCK {
                self.end_block();
            }
            bytes = later;
        }
    }

    fn end_block(&mut self) {
        self.blocks.push(std::mem::take(&mut self.block).finalize());
        self.in_block = 0;
    }

    /// Writes what was held, with the table before the footer; returns the file and the root.
    pub(crate) fn finish(mut self, segment: Uuid) -> io::Result<(W, u32)> {
        let held = self.held.take().unwrap_or_default();
        let footer = u32_at(&held, held.len().wrapping_sub(8)).and_then(|footer| usize::try_from(footer).ok());
        let split = footer.and_then(|footer| held.len().checked_sub(footer.checked_add(8)?));
        let Some((data, tail)) = split.and_then(|split| held.split_at_checked(split)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the footer was not written in one piece"));
        };
        self.inner.write_all(data)?;
        self.absorb(data);
        if self.in_block > 0 {
            self.end_block();
        }
        let mut table: Vec<u8> = self.blocks.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        table.extend(crc32fast::hash(tail).to_le_bytes());
        table.extend(segment.as_bytes());
        table.extend(self.data.to_le_bytes());
        table.extend(u32::try_from(tail.len()).unwrap_or(u32::MAX).to_le_bytes());
        let root = crc32fast::hash(&table);
        table.extend(root.to_le_bytes());
        table.extend(MARK);
        self.inner.write_all(&table)?;
        self.inner.write_all(tail)?;
        Ok((self.inner, root))
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(held) = &mut self.held {
            held.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let written = self.inner.write(bytes)?;
        self.absorb(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Why a file's bytes cannot be vouched for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

/// Reads the table of a file; nothing where it has none.
pub(crate) fn read_sums(file: &mut File, segment: Uuid) -> Result<Option<Sums>, Refused> {
    let size = file.metadata()?.len();
    let mut from = Sums::guess(size);
    loop {
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        Read::by_ref(file).take(size - from).read_to_end(&mut end)?;
        match Sums::parse(&end, size, segment)? {
            Found::Sums(sums) => return Ok(Some(sums)),
            Found::Absent => return Ok(None),
            // It only ever asks for more.
            Found::From(earlier) if earlier < from => from = earlier,
            Found::From(_) => return Err(Wrong::new("its end is cut off").into()),
        }
    }
}

/// Checks every byte of a file. `root` is what the catalog has, if it has one: then the file must have
/// that very table. Returns the table; nothing where file and catalog have none.
pub(crate) fn check_file(path: &Path, segment: Uuid, root: Option<u32>) -> Result<Option<Sums>, Refused> {
    let mut file = File::open(path)?;
    let sums = read_sums(&mut file, segment)?;
    let Some(sums) = same_root(sums, root)? else { return Ok(None) };
    file.seek(SeekFrom::Start(0))?;
    let mut position = 0;
    while position < sums.size {
        let range = sums.widen(&(position..(position + (1 << 20)).min(sums.size)));
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(range.end - range.start).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(Wrong::new("it became shorter while it was read").into());
        }
        sums.check(range.start, &bytes)?;
        position = range.end;
    }
    Ok(Some(sums))
}

/// Holds the table that a file has against what the catalog says of it.
pub(crate) fn same_root(sums: Option<Sums>, root: Option<u32>) -> Result<Option<Sums>, Wrong> {
    match (&sums, root) {
        (None, Some(_)) => Err(Wrong::new("the table of its checksums is missing")),
        (Some(found), Some(root)) if found.root != root => {
            Err(Wrong::new("its checksums are not those that the catalog has"))
        }
        _ => Ok(sums),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails should fail where it fails")]
mod tests {
    use super::*;

    /// A file of so many bytes of data, and a footer that only has its form.
    fn file(dir: &Path, data: usize, id: Uuid) -> (std::path::PathBuf, u32) {
        let path = dir.join("file");
        let mut writer = Summing::new(Vec::new());
        let bytes: Vec<u8> = (0..data).map(|i| (i * 31 % 251) as u8).collect();
        let (early, late) = bytes.split_at(data / 2);
        writer.write_all(early).unwrap();
        writer.hold();
        writer.write_all(late).unwrap();
        writer.write_all(b"what the footer says").unwrap();
        writer.write_all(&20_u32.to_le_bytes()).unwrap();
        writer.write_all(&PARQUET).unwrap();
        let (bytes, root) = writer.finish(id).unwrap();
        std::fs::write(&path, bytes).unwrap();
        (path, root)
    }

    #[test]
    fn every_changed_bit_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::new_v4();
        for data in [4, 4095, 4096, 4097, 9000] {
            let (path, root) = file(dir.path(), data, id);
            let good = std::fs::read(&path).unwrap();
            assert_eq!(good[data - 1], ((data - 1) * 31 % 251) as u8);
            assert_eq!(check_file(&path, id, Some(root)).unwrap().unwrap().root, root);
            assert_eq!(check_file(&path, id, None).unwrap().unwrap().root, root);
            let step = if data > 100 { 41 } else { 1 };
            for bit in (0..good.len() * 8).step_by(step) {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &bad).unwrap();
                assert!(matches!(check_file(&path, id, Some(root)), Err(Refused::Wrong(_))), "bit {bit} of {data}");
            }
            for length in [0, 3, 11, good.len() / 2, good.len() - 1] {
                std::fs::write(&path, &good[..length]).unwrap();
                assert!(matches!(check_file(&path, id, Some(root)), Err(Refused::Wrong(_))), "{length} of {data}");
            }
            std::fs::write(&path, &good).unwrap();
            assert!(check_file(&path, Uuid::new_v4(), Some(root)).is_err(), "another segment's file");
            assert!(check_file(&path, id, Some(root ^ 1)).is_err(), "another file of the segment");
        }
    }

    #[test]
    fn ranges_are_widened_to_what_has_a_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::new_v4();
        let (path, _) = file(dir.path(), 10_000, id);
        let bytes = std::fs::read(&path).unwrap();
        let sums = read_sums(&mut File::open(&path).unwrap(), id).unwrap().unwrap();
        let size = bytes.len() as u64;
        let table = 10_000..size - 28;
        for (range, wide) in [
            (0..1, 0..4096),
            (4095..4097, 0..8192),
            (8192..10_000, 8192..10_000),
            (9_999..10_001, 8192..table.end),
            (size - 8..size, table.end..size),
            (5..5, 5..5),
            (1..size, 0..size),
        ] {
            assert_eq!(sums.widen(&range), wide, "{range:?}");
            sums.check(wide.start, &bytes[wide.start as usize..wide.end as usize]).unwrap();
        }
        assert!(sums.check(1, &bytes[1..4096]).is_err());
        assert!(sums.check(0, &bytes[..100]).is_err());
    }
}
