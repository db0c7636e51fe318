//! The metrics of workers. The service counts their tasks; this module only shows them.
//!
//! The page needs no token, and the address of a worker is nobody's business who has none: only a private token gets each
//! worker by its address, everybody else their sums. So these metrics are made for each page, and shared by none.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_service::Service;

/// Labels that may be left out.
type Labels = Vec<(&'static str, String)>;

/// The metrics of workers; empty on a server that has none. `named` gives each by its address.
pub(crate) fn measured(service: &Service, named: bool) -> Registry {
    let mut registry = Registry::default();
    let Some(workers) = &service.workers else { return registry };
    let (tasks, by_worker): (Family<Labels, Counter>, Family<Labels, Gauge>) = Default::default();
    let (known, usable): (Gauge, Gauge) = Default::default();
    for view in workers.views() {
        known.inc();
        let is_usable = i64::from(view.unusable.is_none());
        usable.inc_by(is_usable);
        let worker: Labels = if named { vec![("worker", view.name.to_string())] } else { Labels::new() };
        by_worker.get_or_create(&worker).set(is_usable);
        for (outcome, count) in view.tasks {
            let labels = [worker.clone(), vec![("outcome", outcome.name().to_owned())]].concat();
            tasks.get_or_create(&labels).inc_by(count);
        }
    }
    registry.register("tidegate_cluster_workers", "Workers that are known", known);
    let help = "Parts of statements that were given to workers, by how they ended";
    registry.register("tidegate_cluster_tasks", help, tasks);
    let (name, help) = ("tidegate_cluster_worker_usable", "Workers that are used");
    if named {
        registry.register(name, help, by_worker)
    } else {
        registry.register(name, help, usable)
    }
    registry
}
