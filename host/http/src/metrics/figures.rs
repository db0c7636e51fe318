//! How metrics are made: each is named where it is registered, and nowhere else. Numbers that a part of the service counts
//! itself are a table of their names and of how each is read.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

/// A new metric under a name, with what it counts.
pub(super) fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// As [`add`]; the unit becomes the end of the name.
pub(super) fn add_with_unit<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Unit,
) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

/// Reads one number.
type Read<S> = fn(&S) -> u64;

/// The name of a metric, what it counts, and how it is read.
pub(super) type Figure<S> = (&'static str, &'static str, Read<S>);

/// The metrics of one part.
#[derive(Debug)]
pub(super) struct Figures<S> {
    totals: Vec<(Counter, Read<S>)>,
    levels: Vec<(Gauge, Read<S>)>,
}

impl<S> Figures<S> {
    /// `totals` only grow, `levels` are current numbers.
    pub(super) fn register(registry: &mut Registry, totals: &[Figure<S>], levels: &[Figure<S>]) -> Self {
        let mut all = Self { totals: Vec::new(), levels: Vec::new() };
        for (name, help, read) in totals {
            all.totals.push((add(registry, name, help), *read));
        }
        for (name, help, read) in levels {
            all.levels.push((add(registry, name, help), *read));
        }
        all
    }

    /// Takes over the numbers as they are now.
    pub(super) fn measure(&self, numbers: &S) {
        for (counter, read) in &self.totals {
            counter.inner().store(read(numbers), Ordering::Relaxed);
        }
        for (gauge, read) in &self.levels {
            gauge.set(i64::try_from(read(numbers)).unwrap_or(i64::MAX));
        }
    }
}
