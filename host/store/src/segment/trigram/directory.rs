//! Where an index lies in its file, and where its rows lie in the index.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::segment::{file_error::Damage, trigram::BUCKETS};

/// The key under which the footer has the [`IndexPlace`]s of its file.
pub(crate) const INDEX_KEY: &str = "tidegate.trigrams";

/// The largest chunk before it is compressed, unless a single row is larger.
const CHUNK_BYTES: usize = 8 << 10;

/// A chunk has at least so many rows, because the builder goes through words of 64 bits.
const LEAST_BUCKETS: usize = 64;

/// An index of a file. The serialized form must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexPlace {
    /// The version of the format: 1. An index of another version is ignored.
    pub(crate) version: u32,
    pub(crate) column: String,
    /// The first byte in the file.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// The granules of the file.
    pub(crate) granules: usize,
}

/// The version that is written and read.
pub(crate) const VERSION: u32 = 1;

/// The sizes that follow from the number of granules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) granules: usize,
    /// Bytes of a row.
    pub(crate) row_bytes: usize,
    /// Rows of a chunk: a power of two.
    pub(crate) chunk_buckets: usize,
}

impl Layout {
    /// `None` for no granules.
    pub(crate) fn of(granules: usize) -> Option<Layout> {
        let row_bytes = granules.div_ceil(8);
        let fit = CHUNK_BYTES.checked_div(row_bytes)?.max(1);
        let chunk_buckets = (1 << fit.ilog2()).clamp(LEAST_BUCKETS, BUCKETS);
        Some(Layout { granules, row_bytes, chunk_buckets })
    }

    /// Bytes of a chunk before it is compressed.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_buckets.saturating_mul(self.row_bytes)
    }

    /// Bytes of the directory.
    pub(crate) fn directory_bytes(&self) -> usize {
        BUCKETS / self.chunk_buckets * 4
    }

    /// The number of the chunk with the row of a bucket.
    pub(crate) fn chunk_of(&self, bucket: u16) -> usize {
        usize::from(bucket) / self.chunk_buckets
    }

    /// The bytes of a bucket's row in its chunk.
    pub(crate) fn row_of(&self, bucket: u16) -> Range<usize> {
        let start = usize::from(bucket) % self.chunk_buckets * self.row_bytes;
        start..start + self.row_bytes
    }
}

/// The bytes of a chunk in the file.
///
/// # Errors
/// [`Damage`] if the directory does not have the form of one.
pub(crate) fn chunk_range(
    place: &IndexPlace,
    layout: &Layout,
    directory: &[u8],
    chunk: usize,
) -> Result<Range<u64>, Damage> {
    let end = |chunk: usize| {
        let bytes = directory.get(chunk * 4..)?.first_chunk::<4>()?;
        Some(u64::from(u32::from_le_bytes(*bytes)))
    };
    let start = if chunk == 0 { Some(0) } else { end(chunk - 1) };
    let base = place.start + layout.directory_bytes() as u64;
    match (start, end(chunk)) {
        (Some(start), Some(end)) if start < end && base + end <= place.start.saturating_add(place.bytes) => {
            Ok(base + start..base + end)
        }
        _ => Err(Damage::new("the directory of an index of trigrams is wrong")),
    }
}
