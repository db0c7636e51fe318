//! Names of the fields and columns that every source has.
//!
//! They stand below `ingest` and `schema`, which both need them.

pub(crate) const ID: &str = "id";

pub(crate) const TIMESTAMP: &str = "timestamp";

pub(crate) const MESSAGE: &str = "event_message";

pub(crate) const METADATA: &str = "metadata";

pub(crate) const OVERFLOW: &str = "_overflow";

/// The column of tables of new rows that says which row it is; see [`crate::source::feed`].
pub(crate) const POSITION: &str = "_tidegate_position";
