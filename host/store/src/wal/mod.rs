//! The write-ahead log: events are acknowledged when the transaction that holds them is on stable storage.
//!
//! The log is the table `wal` of the catalog's SQLite database: one row for each ingest call, whose body is a JSON
//! array of normalised events. Its rows are deleted when a segment holds their events.
//!
//! [`writer`] is the handle by which callers reach the writer thread; it bounds the bytes that wait.
//! [`writer_thread`] owns the connection, groups calls into transactions and handles failed writes; [`checkpointer`] moves
//! the log into the database beside it. [`call`] is a call that waits. [`rows`] reads and writes rows of the table, [`idempotency`] stores the keys of requests that
//! may be repeated, [`numbering`] lets no number of a call be given twice, [`acknowledged`] notes the
//! last one beside the catalog.
//!
//! Uses: `catalog`, `data_folder`, `source`, `metrics`.

pub(crate) mod acknowledged;
pub(crate) mod call;
pub(crate) mod checkpointer;
#[cfg(test)]
pub(crate) mod faults;
pub(crate) mod idempotency;
pub(crate) mod numbering;
pub(crate) mod rows;
pub(crate) mod writer;
pub(crate) mod writer_thread;
