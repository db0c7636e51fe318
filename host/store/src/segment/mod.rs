//! Segments: immutable Parquet files. The rows of a tenant lie together (a [`run`]), newest first.
//!
//! A segment exists once the catalog names it. Before that its file is written under a temporary name, synced and
//! renamed, and its folder is synced. So a crash leaves either a file that the catalog does not name (`recovery`
//! decides about it at the next start) or a complete segment.
//!
//! The footer of the file repeats what the catalog says of the segment ([`footer_entry`]), so that a lost catalog
//! can be rebuilt. Every byte of the file has a checksum ([`checksum`]).
//!
//! [`handle`] is a segment that is in use: what the catalog says of it, and the lifetime of its file. [`row_order`]
//! decides about runs and the order of rows, [`column_encoding`] how columns are encoded, [`packed_columns`] which texts are
//! kept as UUIDs of 16 bytes, [`writer`] writes a segment, [`text_indexes`] decides which texts it has an index of,
//! [`trigram`] is such an index, [`footer`] reads and checks a footer, [`catalog_rows`] inserts and loads the rows of the
//! catalog's table `segments`, [`row_places`] says which rows have their place, [`search_places`] where a search
//! looks before it opens the file, [`value_counts`] counts the values of a column without making rows of them,
//! [`tombstones`] maintains the table `dropped`, [`file_error`] is the error of reading a file.
//!
//! What other modules rely on (a change of the layout, compaction or another place for the files must keep it or change
//! it there too):
//!
//! - The rows of each run are sorted newest first: `scan::table` declares that order where it reads one run of each file,
//!   and groups files by `min_time` and `max_time`. Runs begin and end at row groups.
//! - A file never changes and a path is never used again: the footer cache has paths as keys, and a backup copies files
//!   while a server runs. A file that the copied catalog names must exist until it is copied.
//! - `seqs` is the range of write-ahead rows that the segment replaces. `recovery::leftovers` completes a flush by it, and
//!   `maintenance::repair` refuses a segment whose range overlaps that of another. `scan::stored_calls` finds by it the
//!   segments that have the rows of some calls.
//! - `created_at` is the age for retention and for `source::column_ages`.
//! - Registering a segment and deleting what it replaces is one transaction. The lists of `source` are changed after it.
//!   What compaction replaces has a tombstone that names the new segment, for `maintenance::backup`.
//! - Compaction merges segments whose ranges of `seqs` are neighbours, so that a segment has all write-ahead rows of its
//!   range, and of two files with overlapping ranges one replaces the other (`maintenance::rebuild`).
//! - A file is removed when the last `Arc` of its [`handle::Segment`] is dropped. Until then a tombstone marks it.
//!
//! Uses: `data_folder`, `schema`, `memory`.

pub(crate) mod catalog_rows;
pub(crate) mod checksum;
pub(crate) mod column_encoding;
pub(crate) mod file_error;
pub(crate) mod footer;
pub(crate) mod footer_entry;
pub(crate) mod handle;
pub(crate) mod packed_columns;
pub(crate) mod row_order;
pub(crate) mod row_places;
pub(crate) mod run;
pub(crate) mod search_places;
pub(crate) mod text_indexes;
pub(crate) mod tombstones;
pub(crate) mod trigram;
pub(crate) mod value_counts;
pub(crate) mod writer;
