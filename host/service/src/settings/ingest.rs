//! `[ingest]` and `[store]`: what clients may send, and how long it is kept.

use std::time::Duration;

use tidegate_model::{Access, GIB, HOUR, KIB, MIB, Setting, Unit, bytes, count, time};
use tidegate_store::Retention;

use crate::options::Options;

pub(super) const INGEST: &[Setting<Options>] = &[
    bytes!("max_body", "the longest body, as sent and as decompressed", KIB, GIB, Options, ingest.max_body),
    Setting {
        name: "key_in_query",
        what: "whether a token may stand in the query string (?api_key=), where proxies log it",
        access: Access::Flag { get: |o: &Options| o.ingest.key_in_query, set: |o, flag| o.ingest.key_in_query = flag },
    },
    bytes!("event_bytes", "the longest event, as JSON", KIB, GIB, Options, store.max_event_bytes),
    bytes!(
        "buffer_bytes",
        "events that are in memory and not yet in segments; beyond, they are refused",
        MIB,
        1024 * GIB,
        Options,
        store.max_unflushed_bytes
    ),
    bytes!(
        "body_memory",
        "bodies that are received at once, and the events cut out of them until they are stored, half of it for one token; beyond, they are refused",
        KIB,
        1024 * GIB,
        Options,
        ingest.body_memory
    ),
    count!(
        "flush_rows",
        "events of one source in memory at which they become a segment",
        1,
        100_000_000,
        Options,
        store.flush_rows
    ),
    bytes!(
        "flush_bytes",
        "size of one source's events in memory at which they become a segment",
        KIB,
        1024 * GIB,
        Options,
        store.flush_bytes
    ),
    time!(
        "flush_interval",
        "how long events wait in memory before they become a segment; twelve times as long while they are under 1,000 of a source",
        10,
        24 * HOUR,
        Options,
        store.flush_interval
    ),
];

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const STORE: &[Setting<Retention>] = &[
    Setting {
        name: "retention_days",
        what: "days that logs are kept after they came in; 0 is for ever",
        access: Access::Number {
            unit: Unit::Count,
            least: 0,
            most: 36_500,
            get: |o: &Retention| o.max_age.map_or(0, |age| age.as_secs() / DAY.as_secs()),
            set: |o, n| o.max_age = u32::try_from(n).ok().filter(|days| *days > 0).map(|days| DAY * days),
        },
    },
    Setting {
        name: "retention_bytes",
        what: "size of one source's segments over which the oldest go; 0 is no limit",
        access: Access::Number {
            unit: Unit::Bytes,
            least: 0,
            most: 1024 * 1024 * GIB,
            get: |o: &Retention| o.max_bytes.unwrap_or(0),
            set: |o, n| o.max_bytes = Some(n).filter(|bytes| *bytes > 0),
        },
    },
];
