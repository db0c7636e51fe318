//! Figures of syslog over TCP and TLS: its connections, and what was not kept.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_model::number;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// The figures of syslog. Events and bytes are counted by door, as those of all protocols.
#[derive(Debug, Default)]
pub(crate) struct SyslogMetrics {
    refused: Family<ReasonLabels, Counter>,
    connections: Gauge,
    refused_connections: Counter,
}

impl SyslogMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "tidegate_syslog_refused_messages",
            "Syslog messages over TCP and TLS that were not kept, by reason",
            all.refused.clone(),
        );
        registry.register("tidegate_syslog_connections", "Open connections of syslog", all.connections.clone());
        registry.register(
            "tidegate_syslog_connections_refused",
            "Connections of syslog over a limit, which were closed at once",
            all.refused_connections.clone(),
        );
        all
    }

    /// Counts messages that were not kept.
    pub(crate) fn refused(&self, reason: &'static str, count: usize) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc_by(number(count));
    }

    /// Counts a connection that was closed because there are too many.
    pub(crate) fn refused_connection(&self) {
        self.refused_connections.inc();
    }

    /// Counts an open connection until the result is dropped.
    pub(crate) fn connection(&self) -> OpenSyslog {
        self.connections.inc();
        OpenSyslog(self.connections.clone())
    }
}

/// An open connection of syslog.
#[derive(Debug)]
pub(crate) struct OpenSyslog(Gauge);

impl Drop for OpenSyslog {
    fn drop(&mut self) {
        self.0.dec();
    }
}
