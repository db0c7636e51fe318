//! Making an index while the rows of a segment are written.

use std::io;

use datafusion::arrow::array::{Array, AsArray};

use crate::segment::trigram::{BUCKETS, GRANULE_ROWS, buckets::each_bucket, directory::Layout};

/// Words of 64 bits that hold a bit for each number.
const WORDS: usize = BUCKETS / 64;

const ZSTD_LEVEL: i32 = 1;

/// The index of one column. It holds 8 KiB for each granule.
pub(crate) struct TrigramIndexBuilder {
    /// Rows after which the writer begins a new row group.
    group_rows: usize,
    /// Rows of the current row group.
    rows: usize,
    granules: Vec<Box<[u64]>>,
    /// Whether the last granule takes more rows.
    is_open: bool,
    /// Whether all rows so far had a column of texts.
    is_complete: bool,
}

impl TrigramIndexBuilder {
    /// An index of rows of which at most so many are in a row group.
    pub(crate) fn new(group_rows: usize) -> TrigramIndexBuilder {
        TrigramIndexBuilder {
            group_rows: group_rows.max(1),
            rows: 0,
            granules: Vec::new(),
            is_open: false,
            is_complete: true,
        }
    }

    /// Adds the column's values in the next rows of the current run. There will be no index if they are no texts.
    pub(crate) fn add(&mut self, column: Option<&dyn Array>) {
        let Some(texts) = column.and_then(|column| column.as_string_view_opt()) else {
            self.is_complete = false;
            return;
        };
        for text in texts {
            if !self.is_open {
                self.granules.push(vec![0; WORDS].into_boxed_slice());
                self.is_open = true;
            }
            if let (Some(text), Some(granule)) = (text, self.granules.last_mut()) {
                each_bucket(text, |bucket| {
                    if let Some(word) = granule.get_mut(usize::from(bucket / 64)) {
                        *word |= 1 << (bucket % 64);
                    }
                });
            }
            self.rows += 1;
            if self.rows == self.group_rows {
                self.end_group();
            } else if self.rows.is_multiple_of(GRANULE_ROWS) {
                self.is_open = false;
            }
        }
    }

    /// Ends the current row group. The next row is the first one of another.
    pub(crate) fn end_group(&mut self) {
        self.rows = 0;
        self.is_open = false;
    }

    /// The number of granules and the bytes of the index; `None` if there is nothing to index.
    ///
    /// # Errors
    /// If zstd fails, which is not known to happen.
    pub(crate) fn finish(self) -> io::Result<Option<(usize, Vec<u8>)>> {
        let Some(layout) = Layout::of(self.granules.len()).filter(|_| self.is_complete) else { return Ok(None) };
        let mut ends = Vec::new();
        let mut chunks = Vec::new();
        let mut chunk = vec![0_u8; layout.chunk_bytes()];
        for first in (0..BUCKETS).step_by(layout.chunk_buckets) {
            chunk.fill(0);
            for (number, granule) in self.granules.iter().enumerate() {
                let words = granule.get(first / 64..).unwrap_or_default();
                for (word, bits) in words.iter().take(layout.chunk_buckets / 64).enumerate() {
                    let mut bits = *bits;
                    while bits != 0 {
                        let bucket = word * 64 + bits.trailing_zeros() as usize;
                        if let Some(byte) = chunk.get_mut(bucket * layout.row_bytes + number / 8) {
                            *byte |= 1 << (number % 8);
                        }
                        bits &= bits - 1;
                    }
                }
            }
            chunks.extend(zstd::bulk::compress(&chunk, ZSTD_LEVEL)?);
            let end = u32::try_from(chunks.len()).map_err(|_| io::Error::other("the index is too large"))?;
            ends.extend(end.to_le_bytes());
        }
        ends.append(&mut chunks);
        Ok(Some((layout.granules, ends)))
    }
}
