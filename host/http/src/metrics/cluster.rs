//! The metrics of workers. The service counts their tasks; this module only shows them.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_service::Service;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    worker: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabels {
    worker: String,
}

/// The metrics of workers; empty on a server that has none.
#[derive(Debug)]
pub(super) struct ClusterMetrics {
    tasks: Family<TaskLabels, Counter>,
    usable: Family<WorkerLabels, Gauge>,
}

impl ClusterMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self { tasks: Family::default(), usable: Family::default() };
        registry.register(
            "tidegate_cluster_tasks",
            "Parts of statements that were given to workers, by how they ended",
            all.tasks.clone(),
        );
        registry.register("tidegate_cluster_worker_usable", "Whether a worker is used", all.usable.clone());
        all
    }

    pub(super) fn measure(&self, service: &Service) {
        let Some(workers) = &service.workers else { return };
        // Workers that are gone for good are not shown any more.
        self.tasks.clear();
        self.usable.clear();
        for view in workers.views() {
            let worker = view.name.to_string();
            let usable = WorkerLabels { worker: worker.clone() };
            self.usable.get_or_create(&usable).set(i64::from(view.unusable.is_none()));
            for (outcome, count) in view.tasks {
                let labels = TaskLabels { worker: worker.clone(), outcome: outcome.name() };
                self.tasks.get_or_create(&labels).inner().store(count, Ordering::Relaxed);
            }
        }
    }
}
