//! A segment as a file of a scan.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::SchemaRef,
    common::{Statistics, stats::Precision},
    datasource::listing::PartitionedFile,
    error::Result,
    scalar::ScalarValue,
};
use object_store::ObjectMeta;

use crate::{field_names::TIMESTAMP, scan::segment_reader::SegmentOfFile, segment::handle::Segment};

/// A segment, or a part of it with so many rows, as a file of a scan. `times` are the oldest and the newest time of its
/// rows: the planner proves from them that the files of a group follow each other.
pub(crate) fn segment_file(
    segment: &Arc<Segment>,
    schema: &SchemaRef,
    rows: Precision<usize>,
    times: (i64, i64),
) -> Result<PartitionedFile> {
    let meta = ObjectMeta {
        location: segment.location()?,
        // Segments never change, so that the footer cache may use any constant.
        last_modified: chrono::DateTime::UNIX_EPOCH,
        size: segment.bytes,
        e_tag: None,
        version: None,
    };
    let mut statistics = Statistics::new_unknown(schema);
    statistics.num_rows = rows;
    if let Some(time) = statistics.column_statistics.get_mut(schema.index_of(TIMESTAMP)?) {
        let bound = |at| Precision::Exact(ScalarValue::TimestampMicrosecond(Some(at), None));
        time.min_value = bound(times.0);
        time.max_value = bound(times.1);
        time.null_count = Precision::Exact(0);
    }
    Ok(PartitionedFile::new_from_meta(meta)
        .with_extension(SegmentOfFile(Arc::clone(segment)))
        .with_statistics(Arc::new(statistics)))
}
