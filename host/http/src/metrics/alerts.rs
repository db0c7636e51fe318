//! Alerts as metrics. The service counts them; this module only shows them.

use tidegate_service::alerts::{AlertCounts, AlertStates};

use super::figures::Figure;

/// Counters: numbers that only grow.
pub(super) const TOTALS: [Figure<AlertCounts>; 6] = [
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

/// Gauges: current numbers.
pub(super) const LEVELS: [Figure<AlertStates>; 3] = [
    ("tidegate_alerts", "Alerts of endpoints", |states| states.alerts),
    ("tidegate_alerts_firing", "Alerts whose condition holds", |states| states.firing),
    ("tidegate_alerts_messages_waiting", "Messages of alerts that are not confirmed", |states| states.waiting),
];
