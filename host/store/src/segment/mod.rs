//! Segments: immutable Parquet files, newest row first.
//!
//! A segment exists once the catalog names it. Before that its file is written under a temporary name, synced and
//! renamed, and its folder is synced. So a crash leaves either a file that the catalog does not name (`recovery`
//! decides about it at the next start) or a complete segment.
//!
//! The footer of the file repeats what the catalog says of the segment ([`footer_entry`]), so that a lost catalog
//! can be rebuilt. Every byte of the file has a checksum ([`checksum`]).
//!
//! [`handle`] is a segment that is in use: what the catalog says of it, and the lifetime of its file. [`writer`]
//! writes a segment, [`footer`] reads and checks a footer, [`catalog_rows`] inserts and loads the rows of the
//! catalog's table `segments`, [`tombstones`] maintains the table `dropped`, [`file_error`] is the error of reading
//! a file.
//!
//! Uses: `data_folder`, `schema`, `memory`.

pub(crate) mod catalog_rows;
pub(crate) mod checksum;
pub(crate) mod file_error;
pub(crate) mod footer;
pub(crate) mod footer_entry;
pub(crate) mod handle;
pub(crate) mod tombstones;
pub(crate) mod writer;
