//! `[compaction]`: how small segments become large ones in the background.

use tidegate_model::{Access, GIB, MIB, Setting, Unit, bytes, count};
use tidegate_store::StoreOptions;

pub(super) const COMPACTION: &[Setting<StoreOptions>] = &[
    count!(
        "rows",
        "events of a full segment; smaller neighbours are merged until they have about so many",
        1_000,
        100_000_000,
        StoreOptions,
        compaction_rows
    ),
    bytes!(
        "bytes",
        "size of a full segment's file; a source with a retention by bytes has smaller ones",
        MIB,
        64 * GIB,
        StoreOptions,
        compaction_bytes
    ),
    count!(
        "fan_in",
        "neighbours of a similar size that are merged into one",
        2,
        1_000,
        StoreOptions,
        compaction_fan_in
    ),
    bytes!(
        "memory",
        "events that a merge holds at once, about; segments with too large events stay as they are",
        MIB,
        1024 * GIB,
        StoreOptions,
        compaction_memory
    ),
    Setting {
        name: "percent",
        what: "the part of the time of one processor that merging may take; it takes less while queries wait",
        access: Access::Number {
            unit: Unit::Count,
            least: 1,
            most: 100,
            get: |o: &StoreOptions| u64::from(o.compaction_percent),
            set: |o, n| o.compaction_percent = u32::try_from(n).unwrap_or(100),
        },
    },
];
