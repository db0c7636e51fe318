//! `[cache]`, `[rate]`, `[admission]` and `[components]`: how much is done at once, and how much is kept in memory for it.

use tidegate_model::{GIB, HOUR, MIB, Setting, bytes, count, time};

use crate::options::{AdmissionOptions, CacheOptions, ComponentOptions, RateOptions};

pub(super) const CACHE: &[Setting<CacheOptions>] = &[
    bytes!("memory", "answers that are kept; 0 keeps none", 0, 1024 * GIB, CacheOptions, memory),
    count!("warming_concurrency", "endpoints that are warmed at once", 1, 1_000, CacheOptions, warming_concurrency),
];

pub(super) const RATE: &[Setting<RateOptions>] = &[
    count!("queries_per_second", "queries of one token; 0 is no limit", 0, 1_000_000, RateOptions, queries_per_second),
    count!(
        "ingest_per_second",
        "ingest requests of one token; 0 is no limit",
        0,
        1_000_000,
        RateOptions,
        ingest_per_second
    ),
    count!(
        "burst",
        "requests that may come at once after a pause; 0 is what two seconds allow",
        0,
        10_000_000,
        RateOptions,
        burst
    ),
];

pub(super) const ADMISSION: &[Setting<AdmissionOptions>] = &[
    count!(
        "concurrency",
        "queries that run at once, half of them for one token; 0 is 8 for each processor and at least 32",
        0,
        1_000,
        AdmissionOptions,
        concurrency
    ),
    count!("queue", "queries that may wait for their turn", 0, 100_000, AdmissionOptions, queue),
    time!("wait", "how long one may wait", 0, 60_000, AdmissionOptions, wait),
    bytes!(
        "answer_memory",
        "answers that are not yet read by who asked for them, and bodies of requests that are not ingest, half of it for one token",
        MIB,
        16 * 1024 * GIB,
        AdmissionOptions,
        answer_memory
    ),
];

pub(super) const COMPONENTS: &[Setting<ComponentOptions>] = &[
    time!(
        "compile_time",
        "how long compiling one may take before it is refused",
        100,
        HOUR,
        ComponentOptions,
        compile_time
    ),
    bytes!(
        "compile_memory",
        "memory that compiling one may take before it is refused",
        256 * MIB,
        1024 * GIB,
        ComponentOptions,
        compile_memory
    ),
    bytes!(
        "code_memory",
        "compiled code that is kept ready; the rest is read from disk when it is called",
        MIB,
        1024 * GIB,
        ComponentOptions,
        code_memory
    ),
];
