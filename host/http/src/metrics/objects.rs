//! The copies of segments and of the catalog in an object store as metrics. The store counts them; all are 0 where there are no copies.

use tidegate_store::StoreStats;

use super::figures::Figure;

/// Counters: numbers that only grow.
pub(super) const TOTALS: [Figure<StoreStats>; 7] = [
    ("tidegate_objects_put", "Segments that were put into the object store", |stats| stats.object_puts),
    ("tidegate_objects_put_bytes", "Bytes of those segments", |stats| stats.object_put_bytes),
    ("tidegate_objects_put_failed", "Attempts to put a segment that failed", |stats| stats.failed_object_puts),
    ("tidegate_objects_deleted", "Copies of dropped segments that were deleted", |stats| stats.deleted_objects),
    ("tidegate_objects_catalog_put", "Copies of the catalog that were put into the object store", |stats| {
        stats.catalog_copies
    }),
    ("tidegate_objects_catalog_put_bytes", "Bytes of those copies", |stats| stats.catalog_copy_bytes),
    ("tidegate_objects_catalog_put_failed", "Attempts to put a copy of the catalog that failed", |stats| {
        stats.failed_catalog_copies
    }),
];

/// Present values.
pub(super) const LEVELS: [Figure<StoreStats>; 6] = [
    ("tidegate_objects_missing", "Segments that are not in the object store yet", |stats| stats.missing_objects),
    ("tidegate_objects_failing", "1 while segments cannot be put into the object store, and stay in memory", |stats| {
        u64::from(stats.objects_failing)
    }),
    (
        "tidegate_objects_catalog_behind_seconds",
        "For how long the catalog has had what its newest copy lacks",
        |stats| stats.catalog_copy_behind_seconds,
    ),
    (
        "tidegate_objects_catalog_timestamp_seconds",
        "When the newest copy of the catalog was taken; 0 without one",
        |stats| stats.catalog_copied_at.unsigned_abs() / 1_000_000,
    ),
    ("tidegate_objects_epoch", "The epoch of this data folder in the object store; 0 without one", |stats| {
        stats.objects_epoch
    }),
    ("tidegate_objects_replaced", "1 when another server has taken over the object store", |stats| {
        u64::from(stats.objects_replaced)
    }),
];
