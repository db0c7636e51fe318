//! What the footer of a segment says about it, as JSON in the key-value metadata of Parquet.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    schema::{shape::Shape, tenant_path::TenantPath},
    segment::run::Run,
};

/// The key under which the footer has the [`FooterEntry`].
pub(crate) const FOOTER_KEY: &str = "tidegate.entry";

/// The key under which the footer has the path by which its runs are made, for scans, which do not read the entry. Absent for
/// `project`.
pub(crate) const TENANT_PATH_KEY: &str = "tidegate.tenant_path";

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
    /// By which path the runs are made.
    #[serde(default, skip_serializing_if = "TenantPath::is_default")]
    pub(crate) tenant_path: TenantPath,
    /// The age of its rows for retention: when they were written as a segment first, the youngest of them.
    pub(crate) created_at: i64,
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    /// Rows of calls after this number have their place: 0 if all have. `None` if no row has, as in files of versions
    /// without places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) placed_after: Option<i64>,
    /// The segments that compaction made this one of. Empty for rows that came from memory.
    #[serde(default, with = "crate::uuid_text::list")]
    pub(crate) replaces: Vec<Uuid>,
    /// The logical schema of the source when the segment was written.
    pub(crate) shape: Shape,
}

/// What is known of the places of the rows of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowPlaces {
    /// Another catalog numbered its calls. Its rows came with no call of this one.
    Foreign,
    /// Rows of calls after this number have their place.
    After(i64),
}

impl FooterEntry {
    /// Which rows have their place, for the catalog with this identity.
    pub(crate) fn row_places(&self, catalog: Uuid) -> RowPlaces {
        match self.placed_after {
            _ if self.catalog != catalog => RowPlaces::Foreign,
            after => RowPlaces::After(after.unwrap_or(i64::MAX)),
        }
    }
}

/// Where the rows of a segment come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) catalog: Uuid,
    pub(crate) source: Uuid,
    pub(crate) name: &'a str,
    pub(crate) shape: &'a Shape,
    /// By which path runs are made.
    pub(crate) tenant_path: &'a TenantPath,
    /// The texts in records to be indexed, by the keys of the records and their own.
    pub(crate) texts: &'a [Vec<String>],
}
