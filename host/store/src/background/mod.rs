//! Background work on a thread of its own: memory becomes segments, and old segments are dropped.
//!
//! [`flusher`] is the thread and the handle to it, [`retention`] decides which segments are too old or too many and
//! drops them, [`dropped`] is the report of that. Compaction would belong here.
//!
//! Uses: `source`, `segment`, `wal`, `data_folder`, `metrics`.

pub(crate) mod dropped;
pub(crate) mod flusher;
pub(crate) mod retention;
