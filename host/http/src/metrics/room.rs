//! Memory and disk against their limits: what an operator looks at before something is refused for want of room.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_model::number;
use tidegate_service::Service;

use tidegate_doors::BodyMemory;

/// What is held, and the most that may be held, in bytes.
#[derive(Debug, Default)]
struct Room {
    used: Gauge,
    limit: Gauge,
}

impl Room {
    fn set(&self, used: u64, limit: u64) {
        for (gauge, bytes) in [(&self.used, used), (&self.limit, limit)] {
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
}

/// The budgets of the process, and the disk of the data folder.
#[derive(Debug, Default)]
pub(super) struct RoomMetrics {
    statements: Room,
    answers: Room,
    bodies: Room,
    cache: Room,
    unflushed: Room,
    footers: Room,
    disk: Room,
}

impl RoomMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        for (name, help, gauge) in [
            (
                "tidegate_statements_memory_bytes",
                "Memory that running statements and components have reserved",
                &all.statements.used,
            ),
            ("tidegate_statements_memory_limit_bytes", "The most of it ([limits] total_memory)", &all.statements.limit),
            (
                "tidegate_answers_bytes",
                "Answers that are not yet read, and bodies of other requests than ingest",
                &all.answers.used,
            ),
            ("tidegate_answers_limit_bytes", "The most of them ([admission] answer_memory)", &all.answers.limit),
            ("tidegate_ingest_body_bytes", "Bodies of events that are being received", &all.bodies.used),
            ("tidegate_ingest_body_limit_bytes", "The most of them ([ingest] body_memory)", &all.bodies.limit),
            ("tidegate_cache_bytes", "Size of the kept answers", &all.cache.used),
            ("tidegate_cache_limit_bytes", "The most of it ([cache] memory)", &all.cache.limit),
            (
                "tidegate_store_unflushed_bytes",
                "Bytes of memory that hold events that no segment holds yet",
                &all.unflushed.used,
            ),
            (
                "tidegate_store_unflushed_limit_bytes",
                "The most of them, beyond which events are refused ([ingest] buffer_bytes)",
                &all.unflushed.limit,
            ),
            ("tidegate_footers_bytes", "Footers of segments that stay in memory", &all.footers.used),
            ("tidegate_footers_limit_bytes", "The most of them ([storage] footer_memory)", &all.footers.limit),
            ("tidegate_disk_used_bytes", "What is taken of the disk that has the data folder", &all.disk.used),
            ("tidegate_disk_bytes", "The size of that disk, without what only the system may take", &all.disk.limit),
        ] {
            registry.register(name, help, gauge.clone());
        }
        all
    }

    pub(super) fn measure(&self, service: &Service, bodies: &BodyMemory, unflushed: u64) {
        let options = &service.options;
        let statements = number(service.executor.statement_memory());
        self.statements.set(statements, number(options.limits.total_memory));
        self.answers.set(number(service.executor.answers().used()), number(options.admission.answer_memory));
        self.bodies.set(number(bodies.used()), number(options.ingest.body_memory));
        self.cache.set(service.cache.size().1, number(options.cache.memory));
        self.unflushed.set(unflushed, number(options.store.max_unflushed_bytes));
        self.footers.set(number(service.executor.footers_kept()), number(options.footer_memory));
        if let Ok(disk) = rustix::fs::statvfs(&options.data_dir) {
            // What only the system may take (`f_bfree` without `f_bavail`) counts as neither used nor free.
            let used = disk.f_blocks.saturating_sub(disk.f_bfree).saturating_mul(disk.f_frsize);
            self.disk.set(used, used.saturating_add(disk.f_bavail.saturating_mul(disk.f_frsize)));
        }
    }
}
