//! Rows that are acknowledged and not yet in a segment, as record batches.
//!
//! [`mem_batch`] is one batch and the joining of several, [`joining`] decides which are joined, [`flush_rows`] is what
//! becomes a segment, [`batch_builder`] makes batches of the committed calls, [`call_columns`] of calls that come in, [`places`] gives each row its place, [`tenant_column`] tells the tenants of rows.
//!
//! Uses: `schema`, `arrays`, `overflow`, `shred`, `ingest` (to parse the bodies of calls).

pub(crate) mod batch_builder;
pub(crate) mod call_columns;
pub(crate) mod flush_rows;
pub(crate) mod joining;
pub(crate) mod mem_batch;
pub(crate) mod places;
pub(crate) mod tenant_column;
