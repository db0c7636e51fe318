//! Durations that a part of the service counts itself, as histograms in seconds.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tidegate_store::Durations;

/// Reads the durations of one kind.
type Read<S> = fn(&S) -> Durations;

/// The name of a histogram without its unit, what it counts, and how it is read.
pub(super) type Timed<S> = (&'static str, &'static str, Read<S>);

/// The histograms of one part.
#[derive(Debug)]
pub(super) struct DurationMetrics<S>(Vec<(Shown, Read<S>)>);

impl<S> DurationMetrics<S> {
    pub(super) fn register(registry: &mut Registry, all: &[Timed<S>]) -> Self {
        let of = |(name, help, read): &Timed<S>| {
            let shown = Shown::default();
            registry.register_with_unit(*name, *help, Unit::Seconds, shown.clone());
            (shown, *read)
        };
        Self(all.iter().map(of).collect())
    }

    /// Takes over the durations as they are now.
    pub(super) fn measure(&self, numbers: &S) {
        for (shown, read) in &self.0 {
            *shown.0.lock().unwrap_or_else(PoisonError::into_inner) = read(numbers);
        }
    }
}

/// A histogram as it was measured last.
#[derive(Debug, Clone, Default)]
struct Shown(Arc<Mutex<Durations>>);

impl EncodeMetric for Shown {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Durations { counts, micros } = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The last is written as +Inf.
        let bounds = Durations::SECONDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        #[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact")]
        let seconds = micros as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(seconds, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
