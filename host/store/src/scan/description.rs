//! What a scan of segments reads, without what belongs to one machine: from it another machine that has the same
//! segments makes the scan again.
//!
//! DataFusion can encode a scan of Parquet files, but drops the adapter of expressions, the reader factory and what is
//! attached to files, without a word; and it names files by path. A description names segments by id. Whoever makes the
//! scan again holds the segments that it may read ([`HeldSegments`](crate::HeldSegments)), and no other can be read.
//!
//! Rows in memory are not described: they stay on the machine that took them in. A scan of a source with both is a
//! union ([`source_union`](crate::source_union)) of a scan of segments and one of memory; only the first can be
//! described. `describe` makes descriptions, `described_scan` makes the scans again.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::stats::Precision,
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, projection::ProjectionExprs},
};
use serde::{Deserialize, Serialize};
use tidegate_model::TextCondition;
use uuid::Uuid;

use crate::{
    schema::{kind::Fields, tenant_path::TenantPath},
    segment::handle::Segment,
};

/// What [`ScanDescription::shape`] has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DescribedSchema<'s> {
    /// Those of the shape.
    pub(crate) fields: Cow<'s, Fields>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tenant_path: Cow<'s, TenantPath>,
}

fn is_default(path: &TenantPath) -> bool {
    path.is_default()
}

/// A segment as another machine knows it: if any of these differs, it is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentName {
    /// The id of its source: the name of the folder that has its file.
    pub source: Uuid,
    /// Its id, unique among all segments of a store.
    pub id: Uuid,
    /// The length of its file.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
    /// The root of its checksums; `None` for a file of a version without checksums.
    pub checksum: Option<u32>,
}

impl SegmentName {
    pub(crate) fn of(segment: &Segment) -> SegmentName {
        let Segment { source, id, bytes, rows, checksum, .. } = segment;
        SegmentName { source: *source, id: *id, bytes: *bytes, rows: *rows as u64, checksum: *checksum }
    }
}

/// What is read of a segment, as one file of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct FileDescription {
    /// The place of the segment in [`ScanDescription::segments`].
    pub segment: usize,
    /// For each row group of the segment whether it is read; `None` for all of them.
    pub row_groups: Option<Vec<bool>>,
    /// The row groups that are read are those whose middle lies in this range of bytes; `None` for the whole file.
    pub range: Option<(i64, i64)>,
    /// How many rows that are.
    pub rows: Precision<usize>,
    /// Their oldest and newest time, in microseconds since 1970.
    pub times: (i64, i64),
}

/// A scan of segments of one source. Expressions are over the columns of `schema`, unless it says otherwise.
#[derive(Debug, Clone)]
pub struct ScanDescription {
    /// The name of the source, for messages.
    pub source: Arc<str>,
    /// The logical schema of the source and the path of its tenants, as JSON.
    pub shape: Vec<u8>,
    /// The schema of the table, with the fields that the statement reads.
    pub schema: SchemaRef,
    /// The segments, each once.
    pub segments: Vec<SegmentName>,
    /// The files of each partition.
    pub partitions: Vec<Vec<FileDescription>>,
    /// How many rows the scan has before any condition.
    pub rows: Precision<usize>,
    /// What the scan hands on.
    pub projection: ProjectionExprs,
    /// Rows for which it is not true are left out.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What the conditions demand of texts: rows for which it does not hold may be left out.
    pub texts: Option<TextCondition>,
    /// The ids that the conditions demand, at most 64: row groups that have none of them may
    /// be left out.
    pub ids: Option<Vec<String>>,
    /// The orders in which the rows come.
    pub orders: Vec<LexOrdering>,
    /// Whether each partition reads its own files, in their order.
    pub preserves_order: bool,
    /// The order in which files and row groups are read first, where the scan promises none; over what it hands on.
    pub reading_order: Option<Vec<PhysicalSortExpr>>,
    /// How many rows each partition hands on at most.
    pub limit: Option<usize>,
}
