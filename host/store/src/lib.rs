//! The log store: sources, durable ingest, columnar segments, and the tables that queries read.
//!
//! One folder holds everything: `catalog.sqlite` (what exists, and the write-ahead log) and
//! `segments/<source>/<segment>.parquet`. An event's way:
//!
//! 1. [`Store::ingest`] normalises it and waits for the transaction that holds it to be synced;
//!    transactions are shared by all calls that arrive meanwhile.
//! 2. From then on it is in memory, visible to every table made afterwards. The first query or
//!    flush that meets it turns it into columns, once.
//! 3. In the background memory becomes a segment, and one transaction swaps the write-ahead rows
//!    for the segment. A crash at any point leaves each acknowledged event exactly once.
//!
//! Segments go again by [`Retention`], sources by [`Store::delete_source`]; their files stay until the
//! last query that reads them ends. [`backup`] copies a folder in which a store is open.
//!
//! Every byte of a segment has a checksum that is looked at when it is read. What is damaged, or not
//! named by the catalog, is never deleted: [`verify`] finds it, [`repair()`] sets it aside or takes it back.
//!
//! A record and an array of exactly one record are the same thing, stored as a struct; only where
//! a path really held several records is it a list. What does not fit its column is kept word for
//! word in the column `_overflow`.

mod adapt;
mod backup;
mod batch;
mod catalog;
mod checksum;
mod classify;
mod columns;
mod commit;
mod describe;
mod directory;
mod disk;
mod error;
mod event;
mod expr;
mod flush;
mod footer;
mod identity;
mod info;
mod intake;
mod leftover;
mod log;
mod manage;
mod memory;
mod once;
mod options;
mod overflow;
mod prune;
mod quarantine;
mod reader;
mod recover;
mod repair;
mod retention;
mod scan;
mod seen;
mod segment;
mod shape;
mod shred;
mod source;
mod sparse;
mod spilled;
mod spilling;
mod stage;
mod stats;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod timestamp;
mod tree;
mod union;
mod verified;
mod verify;
mod writing;

pub use backup::{BackupReport, backup, restore};
pub use catalog::{Catalog, EndpointEntry, EndpointRecord, LogDamage, NewVersion, TokenRecord};
pub use describe::SourceDescription;
pub use error::StoreError;
pub use event::MAX_NESTING;
pub use info::{Retention, SourceInfo};
pub use intake::{Ingested, Intake, Mark, RefusedEvent, too_long};
pub use once::RequestKey;
pub use options::StoreOptions;
pub use quarantine::SetAside;
pub use repair::{RepairReport, rebuild_catalog, repair};
pub use retention::Dropped;
pub use stats::StoreStats;
pub use store::Store;
pub use table::narrowed;
pub use timestamp::micros as event_time;
pub use tree::{MAX_VALUES, read_event, too_many_values};
pub use verify::{Finding, VerifyReport, verify};

/// The clock of the store: microseconds since 1970, UTC.
fn now_micros() -> i64 {
    chrono::Utc::now().timestamp_micros()
}
