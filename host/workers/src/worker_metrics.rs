//! The figures of a worker for operators, in the text format of Prometheus.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::messages::WorkerStatus;
use crate::worker::Worker;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// As the server has it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The page of a worker.
pub(crate) fn page(worker: &Worker) -> String {
    let mut registry = Registry::default();
    registry.register("tidegate_build", "The running build", Info::new([("version", VERSION)]));
    let WorkerStatus { protocol: _, build: _, draining, tasks, max_tasks, memory_held, memory_limit } = worker.status();
    for (name, help, value) in [
        ("tidegate_worker_tasks", "Tasks that run", tasks),
        ("tidegate_worker_places", "Tasks that may run at once", max_tasks),
        ("tidegate_worker_memory_bytes", "Memory that tasks hold", memory_held),
        ("tidegate_worker_memory_limit_bytes", "Memory that tasks may hold together", memory_limit),
        ("tidegate_worker_draining", "Whether the worker takes no new tasks, because it ends", usize::from(draining)),
        ("process_resident_memory_bytes", "Resident memory of the process", resident_memory().unwrap_or(0)),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    }
    let starts = Family::<OutcomeLabels, Counter>::default();
    for (outcome, count) in [
        ("started", &worker.counts.started),
        ("busy", &worker.counts.busy),
        ("refused", &worker.counts.refused),
        ("failed", &worker.counts.failed),
    ] {
        starts.get_or_create(&OutcomeLabels { outcome }).inc_by(count.load(Ordering::Relaxed));
    }
    registry.register("tidegate_worker_tasks_asked", "Tasks that came, by what became of their start", starts);
    let handshakes: Counter = Counter::default();
    handshakes.inc_by(worker.counts.handshakes.load(Ordering::Relaxed));
    let help = "Connections whose other end may not connect: without a certificate, or with one of others";
    registry.register("tidegate_worker_connections_refused", help, handshakes);
    let (rows, bytes): (Counter, Counter) = Default::default();
    rows.inc_by(worker.sent.rows.load(Ordering::Relaxed));
    bytes.inc_by(worker.sent.bytes.load(Ordering::Relaxed));
    registry.register("tidegate_worker_sent_rows", "Rows that tasks have sent", rows);
    registry.register_with_unit("tidegate_worker_sent", "Rows that tasks have sent", Unit::Bytes, bytes);
    let stats = worker.object_stats();
    for (name, help, count) in [
        ("tidegate_worker_store_requests", "Requests to the object store", stats.requests),
        (
            "tidegate_worker_store_failed_requests",
            "Requests to the object store that failed in the end",
            stats.failed_requests,
        ),
        (
            "tidegate_worker_store_refused_requests",
            "Requests to the object store that were not sent, because it had just failed",
            stats.refused_requests,
        ),
        ("tidegate_worker_store_fetched_bytes", "Bytes that came from the object store", stats.fetched_bytes),
        ("tidegate_worker_cache_hits", "Blocks that were read from the cache on disk", stats.hits),
        ("tidegate_worker_cache_misses", "Blocks that were fetched, because they were not there", stats.misses),
        (
            "tidegate_worker_store_damaged",
            "Times that an object was found damaged or missing, and a part of a statement ended because of it",
            stats.damaged,
        ),
        (
            "tidegate_worker_cache_damaged",
            "Segments whose blocks were thrown away, because a checksum was wrong",
            stats.forgotten,
        ),
    ] {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
    for (name, help, value) in [
        ("tidegate_worker_cache_bytes", "Bytes of the cache on disk", stats.cached_bytes),
        (
            "tidegate_worker_store_failing",
            "Whether the last request to the object store failed, a short time ago",
            u64::from(stats.is_failing),
        ),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    }
    let mut page = String::new();
    // Writing to a text never fails.
    let _ = encode(&mut page, &registry);
    page
}

/// The resident memory of the process in bytes, where the system reports it.
fn resident_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}
