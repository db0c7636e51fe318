//! What followed queries use, as metrics. The service counts it; this module only shows it.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_model::number;
use tidegate_service::follow::FollowNumbers;

type Read = fn(&FollowNumbers) -> u64;

/// Counters: numbers that only grow.
const TOTALS: [(&str, &str, Read); 4] = [
    ("tidegate_follow_rows_sent", "Rows that were sent to followers", |follow| follow.sent),
    ("tidegate_follow_rows_missed", "Rows that followers missed because they read too slowly", |follow| follow.missed),
    ("tidegate_follow_looks", "Runs of a followed query over new rows", |follow| follow.looks),
    ("tidegate_follow_refused", "Followers that were refused because there are enough", |follow| follow.refused),
];

/// Gauges: current numbers.
const LEVELS: [(&str, &str, Read); 3] = [
    ("tidegate_followers", "Followers of queries", |follow| number(follow.followers)),
    ("tidegate_follow_queries", "Different queries that are followed", |follow| number(follow.hubs)),
    ("tidegate_follow_bytes", "Bytes of new rows that are kept for followers", |follow| number(follow.held)),
];

/// The metrics of followed queries.
#[derive(Debug)]
pub(super) struct FollowMetrics {
    totals: Vec<(Counter, Read)>,
    levels: Vec<(Gauge, Read)>,
}

impl FollowMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut all = Self { totals: Vec::new(), levels: Vec::new() };
        for (name, help, read) in TOTALS {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            all.totals.push((counter, read));
        }
        for (name, help, read) in LEVELS {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            all.levels.push((gauge, read));
        }
        all
    }

    pub(super) fn measure(&self, follow: &FollowNumbers) {
        for (counter, read) in &self.totals {
            counter.inner().store(read(follow), Ordering::Relaxed);
        }
        for (gauge, read) in &self.levels {
            gauge.set(i64::try_from(read(follow)).unwrap_or(i64::MAX));
        }
    }
}
