//! TODO header

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::schema::shape::Shape;

/// Where the footer has the [`FooterEntry`], as JSON.
pub(crate) const FOOTER_KEY: &str = "tidegate.entry";

/// What the footer says of the segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FooterEntry {
    /// The catalog that counted the write-ahead rows.
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
    /// The source's schema when it was written.
    pub(crate) shape: Shape,
}

/// Whose rows a segment has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) catalog: Uuid,
    pub(crate) source: Uuid,
    pub(crate) name: &'a str,
    pub(crate) shape: &'a Shape,
}
