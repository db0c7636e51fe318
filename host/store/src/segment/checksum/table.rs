//! The table of checksums: its format, and the check of a range of bytes against it.

use std::{fmt, ops::Range};

use uuid::Uuid;

use crate::segment::file_error::Damage;

/// Bytes of a block, which has one checksum.
pub(crate) const BLOCK: u64 = 4096;

pub(crate) const MARK: [u8; 8] = *b"TIDESUM1";

/// Bytes of the table after the checksums of the blocks.
const TRAILER: usize = 4 + 16 + 8 + 4 + 4 + 8;

/// The last bytes of every Parquet file.
pub(crate) const PARQUET: [u8; 4] = *b"PAR1";

/// Bytes that are read first, from the end of the file. They mostly contain the whole table.
const GUESS: u64 = 64 << 10;

/// The table of checksums of a file.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ChecksumTable {
    blocks: Vec<u32>,
    tail: u32,
    /// The checksum of the table itself, which the catalog has too.
    pub(crate) root: u32,
    /// Bytes of the data, which stand before the table.
    data: u64,
    /// Bytes of the whole file.
    pub(crate) size: u64,
    /// The position of the tail: the footer and what follows it.
    tail_start: u64,
}

impl fmt::Debug for ChecksumTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChecksumTable").field("root", &self.root).field("size", &self.size).finish_non_exhaustive()
    }
}

/// The result of parsing the end of a file.
#[derive(Debug)]
pub(crate) enum TableParse {
    Complete(ChecksumTable),
    /// More bytes are needed: those from this position on.
    NeedsFrom(u64),
    /// The file has no table. As far as the file itself can tell, it was written by a version without checksums.
    Absent,
}

impl ChecksumTable {
    /// Approximate bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        size_of::<ChecksumTable>() + self.blocks.capacity() * 4
    }

    /// The position from which to read a file of that size first.
    pub(crate) fn guess(size: u64) -> u64 {
        size.saturating_sub(GUESS)
    }

    /// Parses the table from `end`, the last bytes of the file of a segment.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(crate) fn parse(end: &[u8], size: u64, segment: Uuid) -> Result<TableParse, Damage> {
        let from = size.saturating_sub(end.len() as u64);
        let at = |position: u64| position.checked_sub(from).and_then(|at| usize::try_from(at).ok());
        let footer = u32_at(end, end.len().wrapping_sub(8));
        let (Some(footer), true) = (footer, end.ends_with(&PARQUET)) else {
            return Err(Damage::new("its end is not the end of a segment"));
        };
        let tail = u64::from(footer) + 8;
        let Some(trailer_start) = size.checked_sub(tail + TRAILER as u64) else {
            return Err(Damage::new("its footer is said to be longer than the file"));
        };
        let Some(trailer) = at(trailer_start) else { return Ok(TableParse::NeedsFrom(trailer_start)) };
        let Some(trailer) = end.get(trailer..trailer + TRAILER) else {
            return Err(Damage::new("its end is cut off"));
        };
        if !trailer.ends_with(&MARK) {
            return Ok(TableParse::Absent);
        }
        let (data, root) = (u64_at(trailer, 20), u32_at(trailer, 32));
        let (Some(data), Some(root)) = (data, root) else { return Ok(TableParse::Absent) };
        let tail_start = size - tail;
        let blocks = data.div_ceil(BLOCK);
        let table = blocks.checked_mul(4).and_then(|table| table.checked_add(TRAILER as u64));
        if table.and_then(|table| table.checked_add(data)) != Some(tail_start)
            || u32_at(trailer, 28).map(u64::from) != Some(tail)
        {
            return Err(Damage::new("the table of its checksums is damaged"));
        }
        let Some(table) = at(data) else { return Ok(TableParse::NeedsFrom(data)) };
        let table = end.get(table..at(tail_start).unwrap_or(0)).unwrap_or_default();
        let covered = table.get(..table.len().saturating_sub(12)).unwrap_or_default();
        if crc32fast::hash(covered) != root {
            return Err(Damage::new("the table of its checksums is damaged"));
        }
        if trailer.get(4..20) != Some(segment.as_bytes().as_slice()) {
            return Err(Damage::new("it is the file of another segment"));
        }
        let mut checksums: Vec<u32> = covered.chunks_exact(4).filter_map(|bytes| u32_at(bytes, 0)).collect();
        checksums.truncate(usize::try_from(blocks).unwrap_or(usize::MAX));
        let tail_sum = u32_at(trailer, 0).unwrap_or_default();
        Ok(TableParse::Complete(ChecksumTable { blocks: checksums, tail: tail_sum, root, data, size, tail_start }))
    }

    /// The smallest range of whole units that contains `range`.
    pub(crate) fn widen(&self, range: &Range<u64>) -> Range<u64> {
        if range.start >= range.end {
            return range.start..range.start;
        }
        self.unit(range.start).start..self.unit(range.end - 1).end
    }

    /// The unit at a position: a block, the table, or the tail.
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

    /// Checks bytes that were read from `start` on. They must be a range that [`Self::widen`] returned.
    ///
    /// # Errors
    /// The position of the first bytes that are not what was written.
    pub(crate) fn check(&self, start: u64, bytes: &[u8]) -> Result<(), Damage> {
        let mut position = start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let unit = self.unit(position);
            let length = usize::try_from(unit.end.saturating_sub(unit.start)).unwrap_or(usize::MAX);
            let Some((now, later)) = rest.split_at_checked(length).filter(|_| length > 0 && unit.start == position)
            else {
                return Err(Damage::new(format!("its bytes from {position} on were read in part")));
            };
            let expected = if position < self.data {
                self.blocks.get(usize::try_from(position / BLOCK).unwrap_or(usize::MAX)).copied()
            } else if position < self.tail_start {
                // The table is checked when it is parsed.
                None
            } else {
                Some(self.tail)
            };
            if expected.is_some_and(|expected| crc32fast::hash(now) != expected) {
                let what = if position < self.data { "data" } else { "footer" };
                return Err(Damage::new(format!(
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

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
