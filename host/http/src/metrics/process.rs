//! The process itself and its readiness, under the names that all exporters of Prometheus use.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::figures::{add, add_with_unit};

/// The unit of processor times in `/proc`, in parts of a second: the same on all machines that Linux runs on.
const TICKS: f64 = 100.0;

/// What the system says of the process; all 0 where it has no `/proc`.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    processor: Counter<f64, AtomicU64>,
    memory: Gauge,
    files: Gauge,
    most_files: Gauge,
    started: Gauge,
    ready: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            processor: add_with_unit(registry, "process_cpu", "Processor time that the process used", Unit::Seconds),
            memory: add(registry, "process_resident_memory_bytes", "Memory of the process that is resident"),
            files: add(registry, "process_open_fds", "Open files of the process"),
            most_files: add(registry, "process_max_fds", "Files that the process may have open"),
            started: add(registry, "process_start_time_seconds", "When the process started, since 1970"),
            ready: add(registry, "tidegate_ready", "1 while GET /ready is 200"),
        }
    }

    /// Takes over the numbers as they are now. Blocks the thread.
    pub(super) fn measure(&self, is_ready: bool) {
        self.ready.set(i64::from(is_ready));
        // The name of the program may have blanks.
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let used = (ticks(11) + ticks(12)) / TICKS;
        self.processor.inner().store(used.to_bits(), Ordering::Relaxed);
        let kilobytes = line("/proc/self/status", "VmRSS:").unwrap_or(0);
        self.memory.set(kilobytes.saturating_mul(1024));
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.files.set(i64::try_from(files).unwrap_or(i64::MAX));
        self.most_files.set(line("/proc/self/limits", "Max open files").unwrap_or(0));
        let booted = line("/proc/stat", "btime").unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, reason = "a time since the system began")]
        let since = (ticks(19) / TICKS) as i64;
        self.started.set(booted.saturating_add(since));
    }
}

/// The first number after a word at the beginning of a line of a file.
fn line(file: &str, word: &str) -> Option<i64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}
