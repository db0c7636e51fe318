//! What the footer of a segment says about it, as JSON in the key-value metadata of Parquet.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{schema::shape::Shape, segment::run::Run};

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
    /// The distinct values of `project`, in files of versions that had no runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) projects: Option<Vec<String>>,
    /// `None` in files of versions that had none.
    #[serde(default)]
    pub(crate) runs: Option<Vec<Run>>,
    /// The age of its rows for retention: when they were written as a segment first, the youngest of them.
    pub(crate) created_at: i64,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    /// The segments that compaction made this one of. Empty for rows that came from memory.
    #[serde(default, with = "crate::uuid_text::list")]
    pub(crate) replaces: Vec<Uuid>,
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
    /// The texts in records to be indexed, by the keys of the records and their own.
    pub(crate) texts: &'a [Vec<String>],
}
