//! Figures by door: the protocol in which events came in.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};
use tidegate_model::number;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DoorLabels {
    door: &'static str,
}

/// Counters by door.
#[derive(Debug, Default)]
pub(crate) struct DoorMetrics {
    events: Family<DoorLabels, Counter>,
    refused: Family<DoorLabels, Counter>,
    bytes: Family<DoorLabels, Counter>,
    failed: Family<DoorLabels, Counter>,
}

impl DoorMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("tidegate_door_events", "Events that were acknowledged, by door", all.events.clone());
        registry.register("tidegate_door_refused_events", "Events that were refused, by door", all.refused.clone());
        registry.register_with_unit(
            "tidegate_door",
            "Bodies of events that were acknowledged, decompressed, by door",
            Unit::Bytes,
            all.bytes.clone(),
        );
        registry.register(
            "tidegate_door_refused_requests",
            "Requests that were refused whole, by door",
            all.failed.clone(),
        );
        all
    }

    /// Counts the events of a request.
    pub(crate) fn counted(&self, door: &'static str, accepted: usize, refused: usize) {
        self.events.get_or_create(&DoorLabels { door }).inc_by(number(accepted));
        self.refused.get_or_create(&DoorLabels { door }).inc_by(number(refused));
    }

    /// Counts the bytes of a body that was acknowledged.
    pub(crate) fn bytes(&self, door: &'static str, bytes: usize) {
        self.bytes.get_or_create(&DoorLabels { door }).inc_by(number(bytes));
    }

    /// Counts a request that was refused whole.
    pub(crate) fn failed(&self, door: &'static str) {
        self.failed.get_or_create(&DoorLabels { door }).inc();
    }
}
