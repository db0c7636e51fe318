//! Background work on threads of its own: committed calls become columns, memory becomes segments, small segments become
//! large ones, and old segments are dropped.
//!
//! [`columnizer`] is the thread that makes columns, [`flusher`] the one that writes segments; [`retention`] decides which
//! segments are too old or too many and drops them, [`dropped`] is the report of that. [`compaction`] merges segments,
//! with the [`priority`] of work that nobody waits for.
//! With copies in an object store, [`copying`] keeps those of segments complete, and [`catalog_copying`] puts those of the catalog.
//!
//! Uses: `source`, `segment`, `wal`, `data_folder`, `catalog`, `objects`, `metrics`, `recovery` (the list of the quarantine).

pub(crate) mod catalog_copying;
pub(crate) mod columnizer;
pub(crate) mod compaction;
pub(crate) mod copying;
pub(crate) mod dropped;
pub(crate) mod flusher;
mod priority;
pub(crate) mod retention;
