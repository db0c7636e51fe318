//! Computing the table of checksums while a file is written.

use std::io::{self, Write};

use crc32fast::Hasher;
use uuid::Uuid;

use crate::segment::checksum::table::{BLOCK, MARK, u32_at};

/// Passes bytes on to a file and computes their checksums. Bytes that come after [`Self::hold`] are buffered, because
/// the table is written before the footer.
#[derive(Debug)]
pub(crate) struct ChecksumWriter<W> {
    inner: W,
    blocks: Vec<u32>,
    block: Hasher,
    in_block: u64,
    data: u64,
    held: Option<Vec<u8>>,
}

impl<W: Write> ChecksumWriter<W> {
    pub(crate) fn new(inner: W) -> ChecksumWriter<W> {
        ChecksumWriter { inner, blocks: Vec::new(), block: Hasher::new(), in_block: 0, data: 0, held: None }
    }

    /// Buffers what is written from now on, until [`Self::finish`]. The footer must be in it.
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

    /// Writes the buffered bytes, with the table before the footer. Returns the file and the root of the table.
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

impl<W: Write> Write for ChecksumWriter<W> {
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
