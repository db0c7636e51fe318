//! The copies of segments in an object store as metrics. The store counts them; all are 0 where there are no copies.

use tidegate_store::StoreStats;

use super::figures::Figure;

/// Counters: numbers that only grow.
pub(super) const TOTALS: [Figure<StoreStats>; 4] = [
    ("tidegate_objects_put", "Segments that were put into the object store", |stats| stats.object_puts),
    ("tidegate_objects_put_bytes", "Bytes of those segments", |stats| stats.object_put_bytes),
    ("tidegate_objects_put_failed", "Attempts to put a segment that failed", |stats| stats.failed_object_puts),
    ("tidegate_objects_deleted", "Copies of dropped segments that were deleted", |stats| stats.deleted_objects),
];

/// Present values.
pub(super) const LEVELS: [Figure<StoreStats>; 2] = [
    ("tidegate_objects_missing", "Segments that are not in the object store yet", |stats| stats.missing_objects),
    ("tidegate_objects_failing", "1 while segments cannot be put into the object store, and stay in memory", |stats| {
        u64::from(stats.objects_failing)
    }),
];
