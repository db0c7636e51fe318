//! Memory and disk against their limits: what an operator looks at before something is refused for want of room.

use std::path::Path;

use tidegate_model::number;
use tidegate_service::Service;

use tidegate_doors::BodyMemory;

use super::figures::Figure;

/// The budgets of the process: what is held of each, and the most that may be. What is held of those
/// that are not read here stands in [`BODIES`], in the figures of the cache and in those of the store.
pub(super) const LEVELS: [Figure<Service>; 9] = [
    ("tidegate_statements_memory_bytes", "Memory that running statements and components have reserved", |service| {
        number(service.executor.statement_memory())
    }),
    ("tidegate_statements_memory_limit_bytes", "The most of it ([limits] total_memory)", |service| {
        number(service.options.limits.total_memory)
    }),
    ("tidegate_answers_bytes", "Answers that are not yet read, and bodies of other requests than ingest", |service| {
        number(service.executor.answers().used())
    }),
    ("tidegate_answers_limit_bytes", "The most of them ([admission] answer_memory)", |service| {
        number(service.options.admission.answer_memory)
    }),
    ("tidegate_ingest_body_limit_bytes", "The most bodies of events ([ingest] body_memory)", |service| {
        number(service.options.ingest.body_memory)
    }),
    ("tidegate_cache_limit_bytes", "The most of it ([cache] memory)", |service| number(service.options.cache.memory)),
    (
        "tidegate_store_unflushed_limit_bytes",
        "The most of the unflushed bytes, beyond which events are refused ([ingest] buffer_bytes)",
        |service| number(service.options.store.max_unflushed_bytes),
    ),
    ("tidegate_footers_bytes", "Footers of segments that stay in memory", |service| {
        number(service.executor.footers_kept())
    }),
    ("tidegate_footers_limit_bytes", "The most of them ([storage] footer_memory)", |service| {
        number(service.options.footer_memory)
    }),
];

/// What is held for events that are being received.
pub(super) const BODIES: [Figure<BodyMemory>; 1] =
    [("tidegate_ingest_body_bytes", "Bodies of events that are being received", |bodies| number(bodies.used()))];

/// The disk of the data folder, in bytes. What only the system may take (`f_bfree` without `f_bavail`) counts as neither used
/// nor free.
#[derive(Debug)]
pub(super) struct Disk {
    used: u64,
    size: u64,
}

impl Disk {
    /// The one of a folder, as it is now.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(folder).ok()?;
        let used = disk.f_blocks.saturating_sub(disk.f_bfree).saturating_mul(disk.f_frsize);
        Some(Self { used, size: used.saturating_add(disk.f_bavail.saturating_mul(disk.f_frsize)) })
    }
}

/// Its figures.
pub(super) const DISK: [Figure<Disk>; 2] = [
    ("tidegate_disk_used_bytes", "What is taken of the disk that has the data folder", |disk| disk.used),
    ("tidegate_disk_bytes", "The size of that disk, without what only the system may take", |disk| disk.size),
];
