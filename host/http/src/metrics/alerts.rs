//! The metrics of alerts. The service counts them; this module only shows them.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_service::Service;
use tidegate_service::alerts::AlertCounts;

use super::figures::{Figure, Figures};

/// Counters: numbers that only grow.
const TOTALS: [Figure<AlertCounts>; 6] = [
    ("tidegate_alerts_runs", "Runs of alerts that found whether the condition holds", |counts| counts.runs),
    ("tidegate_alerts_runs_failed", "Runs of alerts that failed", |counts| counts.failed_runs),
    ("tidegate_alerts_runs_postponed", "Runs of alerts that were put off because the server was busy", |counts| {
        counts.postponed
    }),
    ("tidegate_alerts_messages_sent", "Messages of alerts that a receiver confirmed", |counts| counts.sent),
    ("tidegate_alerts_attempts_failed", "Attempts to send a message of an alert that failed", |counts| {
        counts.failed_sends
    }),
    ("tidegate_alerts_messages_given_up", "Messages of alerts that were given up", |counts| counts.given_up),
];

/// The metrics of alerts.
#[derive(Debug)]
pub(super) struct AlertMetrics {
    totals: Figures<AlertCounts>,
    alerts: Gauge,
    firing: Gauge,
    waiting: Gauge,
}

impl AlertMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let totals = Figures::register(registry, &TOTALS, &[]);
        let all = Self { totals, alerts: Gauge::default(), firing: Gauge::default(), waiting: Gauge::default() };
        registry.register("tidegate_alerts", "Alerts of endpoints", all.alerts.clone());
        registry.register("tidegate_alerts_firing", "Alerts whose condition holds", all.firing.clone());
        registry.register(
            "tidegate_alerts_messages_waiting",
            "Messages of alerts that are not confirmed",
            all.waiting.clone(),
        );
        all
    }

    pub(super) fn measure(&self, service: &Service) {
        self.totals.measure(&service.alerts.counts());
        let Ok(numbers) = service.store.catalog().count_alerts() else { return };
        for (gauge, number) in [(&self.alerts, numbers.0), (&self.firing, numbers.1), (&self.waiting, numbers.2)] {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }
}
