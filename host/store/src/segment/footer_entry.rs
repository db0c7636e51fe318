//! What the footer of a segment says about it, as JSON in the key-value metadata of Parquet.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::schema::shape::Shape;

/// The key under which the footer has the [`FooterEntry`].
pub(crate) const FOOTER_KEY: &str = "tidegate.entry";

/// What the footer says of the segment. The serialized form must stay readable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FooterEntry {
    /// The identity of the catalog that numbered the write-ahead rows.
    #[serde(with = "crate::uuid_text")]
    pub(crate) catalog: Uuid,
    #[serde(with = "crate::uuid_text")]
    pub(crate) source: Uuid,
    pub(crate) source_name: String,
    pub(crate) rows: usize,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) projects: Option<Vec<String>>,
    pub(crate) created_at: i64,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    /// The logical schema of the source when the segment was written.
    pub(crate) shape: Shape,
}

/// Where the rows of a segment come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) catalog: Uuid,
    pub(crate) source: Uuid,
    pub(crate) name: &'a str,
    pub(crate) shape: &'a Shape,
}
