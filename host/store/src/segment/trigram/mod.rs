//! The index of trigrams: which parts of a segment may have a text that contains another text.
//!
//! A search for a rare text would otherwise decompress the messages of every segment. The rows of each row group are
//! cut into granules of [`GRANULE_ROWS`] rows, which are also the pages of the file. Of each granule the index knows
//! which trigrams (three bytes in a row) its texts have. A text can contain a part only if it has all trigrams of the
//! part, so granules that lack one of them are not read.
//!
//! Trigrams are hashed to [`BUCKETS`] numbers, ASCII letters in lower case. The index is a table of one bit for each
//! number and granule, stored by numbers: a search reads the few rows of its own trigrams, not the whole table.
//!
//! ```text
//! index:     directory, chunks
//! directory: the end of each chunk, in bytes from the end of the directory: 32 bits each, little-endian
//! chunk:     the rows of some numbers that follow each other, compressed with zstd
//! row:       a bit for each granule of the file, the first one in the lowest bit of the first byte
//! ```
//!
//! It lies between the row groups and the page indexes of the file, and the footer names its place
//! ([`directory::INDEX_KEY`]). Other Parquet readers ignore it. A segment of few rows has none
//! (`StoreOptions::trigram_rows`).
//!
//! [`buckets`] makes numbers of texts, [`builder`] makes an index while a segment is written, [`directory`] is the place
//! of an index and of what is in it, [`search`] answers a condition.

pub(crate) mod buckets;
pub(crate) mod builder;
pub(crate) mod directory;
pub(crate) mod search;

/// The numbers that trigrams are hashed to. A granule of messages with random parts has some 7,000 trigrams.
pub(crate) const BUCKETS: usize = 1 << 16;

/// Rows of a granule; the last one of a row group may have fewer.
pub(crate) const GRANULE_ROWS: usize = 2 << 10;

#[cfg(test)]
mod tests;
