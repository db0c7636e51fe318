//! Making an index while the rows of a segment are written.

use std::io;

use datafusion::arrow::array::StringViewArray;

use crate::segment::trigram::{BUCKETS, GRANULE_ROWS, buckets::each_bucket, directory::Layout};

/// Words of 64 bits that hold a bit for each number.
const WORDS: usize = BUCKETS / 64;

const ZSTD_LEVEL: i32 = 1;

/// The index of one column. It holds at most 8 KiB for each granule.
pub(crate) struct TrigramIndexBuilder {
    /// Rows after which the writer begins a new row group.
    group_rows: usize,
    /// Rows of the current row group.
    rows: usize,
    /// The granules before the current one.
    granules: Vec<Granule>,
    /// A bit for each number, of the current granule.
    current: Box<[u64]>,
    /// Whether the current granule has rows.
    is_open: bool,
    /// Whether all rows so far had a column of texts.
    is_complete: bool,
}

/// The numbers that a granule has.
enum Granule {
    /// In ascending order: takes less, where there are few.
    Few(Box<[u16]>),
    /// A bit for each number.
    Many(Box<[u64]>),
}

impl Granule {
    fn of(words: &[u64]) -> Granule {
        let count: u32 = words.iter().map(|word| word.count_ones()).sum();
        if count as usize > BUCKETS / 16 {
            return Granule::Many(words.into());
        }
        let mut numbers = Vec::with_capacity(count as usize);
        each_set(words, 0, |number| numbers.push(number as u16));
        Granule::Few(numbers.into())
    }

    /// Calls `note` with each number from `first` on, up to `end`: multiples of 64.
    fn each(&self, first: usize, end: usize, mut note: impl FnMut(usize)) {
        match self {
            Granule::Few(numbers) => {
                let from = numbers.partition_point(|number| usize::from(*number) < first);
                let numbers = numbers.get(from..).unwrap_or_default().iter().map(|number| usize::from(*number));
                numbers.take_while(|number| *number < end).for_each(note);
            }
            Granule::Many(words) => {
                each_set(words.get(first / 64..end / 64).unwrap_or_default(), first, &mut note);
            }
        }
    }
}

/// Calls `note` with the number of each bit that is set; the first bit has the number `first`.
fn each_set(words: &[u64], first: usize, mut note: impl FnMut(usize)) {
    for (word, bits) in words.iter().enumerate() {
        let mut bits = *bits;
        while bits != 0 {
            note(first + word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}

impl TrigramIndexBuilder {
    /// An index of rows of which at most so many are in a row group.
    pub(crate) fn new(group_rows: usize) -> TrigramIndexBuilder {
        TrigramIndexBuilder {
            group_rows: group_rows.max(1),
            rows: 0,
            granules: Vec::new(),
            current: vec![0; WORDS].into_boxed_slice(),
            is_open: false,
            is_complete: true,
        }
    }

    /// Adds the column's values in the next rows of the current run. There will be no index without them. `is_unknown` says
    /// of a row whether it may have any text.
    pub(crate) fn add(&mut self, texts: Option<&StringViewArray>, is_unknown: impl Fn(usize) -> bool) {
        let Some(texts) = texts.filter(|_| self.is_complete) else {
            self.is_complete = false;
            return;
        };
        for (row, text) in texts.iter().enumerate() {
            self.is_open = true;
            if is_unknown(row) {
                self.current.fill(u64::MAX);
            } else if let Some(text) = text {
                let current = &mut self.current;
                each_bucket(text, |bucket| {
                    if let Some(word) = current.get_mut(usize::from(bucket / 64)) {
                        *word |= 1 << (bucket % 64);
                    }
                });
            }
            self.rows += 1;
            if self.rows == self.group_rows {
                self.end_group();
            } else if self.rows.is_multiple_of(GRANULE_ROWS) {
                self.end_granule();
            }
        }
    }

    /// Ends the current row group. The next row is the first one of another.
    pub(crate) fn end_group(&mut self) {
        self.rows = 0;
        self.end_granule();
    }

    fn end_granule(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.granules.push(Granule::of(&self.current));
            self.current.fill(0);
        }
    }

    /// The number of granules and the bytes of the index; `None` if there is nothing to index.
    ///
    /// # Errors
    /// If zstd fails, which is not known to happen.
    pub(crate) fn finish(mut self) -> io::Result<Option<(usize, Vec<u8>)>> {
        self.end_granule();
        let Some(layout) = Layout::of(self.granules.len()).filter(|_| self.is_complete) else { return Ok(None) };
        let mut ends = Vec::new();
        let mut chunks = Vec::new();
        let mut chunk = vec![0_u8; layout.chunk_bytes()];
        for first in (0..BUCKETS).step_by(layout.chunk_buckets) {
            chunk.fill(0);
            for (number, granule) in self.granules.iter().enumerate() {
                granule.each(first, first + layout.chunk_buckets, |bucket| {
                    if let Some(byte) = chunk.get_mut((bucket - first) * layout.row_bytes + number / 8) {
                        *byte |= 1 << (number % 8);
                    }
                });
            }
            chunks.extend(zstd::bulk::compress(&chunk, ZSTD_LEVEL)?);
            let end = u32::try_from(chunks.len()).map_err(|_| io::Error::other("the index is too large"))?;
            ends.extend(end.to_le_bytes());
        }
        ends.append(&mut chunks);
        Ok(Some((layout.granules, ends)))
    }
}
