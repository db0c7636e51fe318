//! Names of the fields and columns that every source has.
//!
//! They stand below `ingest` and `schema`, which both need them.

pub(crate) const ID: &str = "id";

pub(crate) const TIMESTAMP: &str = "timestamp";

pub(crate) const MESSAGE: &str = "event_message";

/// The tenant of an event, where its source declares no other field.
pub(crate) const PROJECT: &str = "project";

pub(crate) const METADATA: &str = "metadata";

pub(crate) const OVERFLOW: &str = "_overflow";

/// The column with the number of a row's call in the write-ahead log; see [`crate::memory::places`].
pub(crate) const CALL: &str = "_tidegate_call";

/// The column with the number of a row in its call.
pub(crate) const ROW: &str = "_tidegate_row";

/// The columns of the place of a row. They are part of batches and segments, and of no schema that a query sees. A field
/// of an event with such a name gets no column.
pub(crate) const PLACE: [&str; 2] = [CALL, ROW];
