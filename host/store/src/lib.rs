//! The log store: sources, durable ingest, columnar segments, and the tables that queries read.
//!
//! One folder holds everything: `catalog.sqlite` (what exists, and the write-ahead log) and
//! `segments/<source>/<segment>.parquet`. The path of an event:
//!
//! 1. [`Store::ingest`] normalises it and waits until the transaction that holds it is on stable storage. All calls
//!    that arrive during one sync share the next transaction.
//! 2. From then on the event is in memory, and every table made afterwards shows it. A thread converts it to columns, once;
//!    a query that comes before does it itself.
//! 3. In the background the rows in memory become a segment. One transaction replaces the write-ahead rows by the
//!    segment. A crash at any point leaves each acknowledged event exactly once.
//!
//! [`Retention`] drops segments, [`Store::delete_source`] deletes sources; a file stays until the last query that
//! reads it ends. [`backup`] copies a folder in which a store is open.
//!
//! Every byte of a segment has a checksum, which is verified on each read. What is damaged, or not named by the
//! catalog, is never deleted: [`verify`] finds it, [`repair()`] sets it aside or takes it back.
//!
//! A record and an array of exactly one record are the same value and are stored as a struct; a path becomes a list
//! of records only when some row held several. A value that does not fit its column is stored unchanged, as JSON, in
//! the column `_overflow`.
//!
//! The modules in layers, lowest first. Each uses only modules above it in this list; its `mod.rs` names them.
//!
//! - `error`, `options`, `source_info`, `field_names`, `clock`, `uuid_text`, `metrics`: shared types;
//!   `joined_thread`; `sync_points`: where threads meet, for the tests of their order; `read_memory`: the memory of a statement, for what is read
//! - `data_folder`: paths, syncing, locking; `catalog`: the SQLite database
//! - `objects`: segments and copies of the catalog in an object store, and a cache of blocks of segments
//! - `ingest`: JSON to normalised events
//! - `schema`: the logical schema; `arrays`: Arrow builders and conversions; `overflow`: values without a column
//! - `shred`: events to columns; `memory`: sorted batches of rows that no segment holds yet;
//!   `intake`: the events of one call while they arrive
//! - `segment`: Parquet files with checksums
//! - `source`: one source, its rows in memory and its segments, and the swap between them
//! - `wal`: the write-ahead log and its thread; `scan`: tables for queries; `segment_files`: segments that are read
//!   without a catalog
//! - `background`: flush and retention; `recovery`: what a start settles
//! - `maintenance`: backup, verify, repair, recovery from an object store; `store`: the public [`Store`]

mod arrays;
mod background;
mod catalog;
mod clock;
mod data_folder;
mod error;
mod field_names;
mod ingest;
mod intake;
mod joined_thread;
mod maintenance;
mod memory;
mod metrics;
mod objects;
mod options;
mod overflow;
mod read_memory;
mod recovery;
mod scan;
mod schema;
mod segment;
mod segment_files;
mod shred;
mod source;
mod source_info;
mod store;
mod sync_points;
#[cfg(test)]
mod tests;
mod uuid_text;
mod wal;

pub use background::dropped::Dropped;
pub use catalog::{Catalog, LogDamage, RetentionState, RetentionWord, check_name};
pub use error::StoreError;
pub use ingest::request_key::RequestKey;
pub use ingest::{
    event_time::micros as event_time,
    json_text::too_long,
    json_tree::{MAX_VALUES, read_event, too_many_values},
    normalise::MAX_NESTING,
};
pub use intake::{Ingested, Intake, Mark, RefusedEvent};
pub use maintenance::{
    backup::{BackupReport, backup, backup_catalog},
    rebuild::rebuild_catalog,
    recover::{RecoveryReport, recover},
    repair::{RepairReport, repair, repair_from_copies},
    restore::{restore, restore_from_copies},
    verify::{Finding, VerifyReport, verify},
    verify_copies::{CopiesReport, verify_copies},
};
pub use metrics::{durations::Durations, stats::StoreStats};
pub use objects::counters::ObjectStats;
pub use options::StoreOptions;
pub use recovery::quarantine::SetAside;
pub use scan::{
    counted_rows::counted,
    described_scan::{is_source_union, source_union},
    description::{FileDescription, ScanDescription, SegmentName},
    followed_table::FollowedTable,
    held_segments::HeldSegments,
    outline::{ScanOutline, ScanPlace, SegmentTotals, TableOutline},
    stored_calls::{StoredCalls, WantedCalls},
    table::{narrowed, placed},
};
pub use segment_files::{SegmentCache, SegmentError, SegmentFiles, is_store_url};
pub use source::{
    feed::{ColumnsVersion, NewRows},
    following::Feed,
};
pub use source_info::{Retention, SourceInfo};
pub use store::{AudienceTable, Store, describe::SourceDescription, fill_rates::FillRates};
