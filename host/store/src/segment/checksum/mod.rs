//! Checksums of a segment's file: a byte that changed on disk becomes an error and never a row.
//!
//! The page checksums of Parquet do not cover the footer and the page indexes, and the engine does not verify them.
//! These checksums cover the whole file, in blocks. Reads are widened to whole blocks, so that every byte is
//! checked before a library interprets it. A block has the size of a page of the operating system's cache; widening
//! a read costs no additional reads from disk.
//!
//! The table of checksums stands between the data and the footer. Parquet allows any bytes there (offsets in a
//! footer are absolute), and other Parquet readers ignore it:
//!
//! ```text
//! data:  PAR1, pages, page indexes
//! table: CRC-32 of each 4 KiB of the data, CRC-32 of the tail (everything after the table),
//!        segment id (16 bytes), length of the data (8), length of the tail (4), CRC-32 of all of that (4), mark (8)
//! tail:  footer, its length, PAR1
//! ```
//!
//! Numbers are little-endian. The last CRC-32 is the root. The catalog stores the root as well, so that a file
//! without its table, or another file in its place, is noticed. A CRC-32 detects every change of up to three bits
//! in a block and every change within 32 adjacent bits; of other changes it misses one in four billion.
//!
//! [`table`] is the format and the checking of byte ranges, [`writer`] computes the table while a file is written,
//! [`file`] checks a whole file.

pub(crate) mod file;
pub(crate) mod table;
pub(crate) mod writer;
