//! What the service does now, as metrics: queries, components, kept answers. The service counts it; this module only shows it.

use tidegate_model::number;
use tidegate_runtime::PoolUse;
use tidegate_service::Service;

use super::figures::Figure;

/// Gauges: current numbers.
pub(super) const LEVELS: [Figure<Service>; 2] = [
    (
        "tidegate_answers_without_room",
        "Answers that found no room among those that are not yet read, since the start",
        |service| service.executor.answers().refused(),
    ),
    ("tidegate_endpoints_unusable", "Saved endpoints that cannot be used", |service| {
        number(service.registry.unusable().0)
    }),
];

/// Gauges of the kept answers: their number and their bytes.
pub(super) const CACHE: [Figure<(u64, u64)>; 2] = [
    ("tidegate_cache_entries", "Kept answers", |(entries, _)| *entries),
    ("tidegate_cache_bytes", "Size of the kept answers", |(_, bytes)| *bytes),
];

/// Gauges of the queries: those that run, that may run, and that wait.
pub(super) const QUERIES: [Figure<(usize, usize, usize)>; 3] = [
    ("tidegate_queries_running", "Queries that run", |(running, _, _)| number(*running)),
    ("tidegate_queries_places", "Queries that may run at once", |(_, most, _)| number(*most)),
    ("tidegate_queries_waiting", "Queries that wait for their turn", |(_, _, waiting)| number(*waiting)),
];

/// Gauges of the components.
pub(super) const POOL: [Figure<PoolUse>; 7] = [
    ("tidegate_components_running", "Components that run", |pool| number(pool.running)),
    ("tidegate_components_places", "Components that may run at once", |pool| number(pool.places)),
    ("tidegate_components_memories", "Memories of the pool in use", |pool| number(pool.memories)),
    ("tidegate_components_stacks", "Stacks of the pool in use", |pool| number(pool.stacks)),
    ("tidegate_components_idle_bytes", "Resident memory of the pool that is not in use", |pool| {
        number(pool.idle_bytes)
    }),
    ("tidegate_components_ready", "Components that are kept ready in memory", |pool| number(pool.ready)),
    ("tidegate_components_ready_bytes", "Compiled code of the components that are kept ready", |pool| {
        number(pool.ready_bytes)
    }),
];
