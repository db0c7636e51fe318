//! Metrics for operators, in the text format of Prometheus.
//!
//! Labels hold only values that are few and not secret: route templates (never paths), methods, classes of status,
//! codes of failures, names of issuers. Names of endpoints, sources and tokens are left out, because the page needs no token;
//! addresses of workers are told to private tokens only.

mod alerts;
pub(crate) mod cluster;
mod doors;
mod durations;
mod figures;
mod follow;
mod issuers;
mod objects;
mod process;
mod room;
mod store;
mod syslog;

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tidegate_doors::BodyMemory;
use tidegate_model::{Code, number, size};
use tidegate_runtime::Class;
use tidegate_service::Service;
use tidegate_service::follow::FollowNumbers;
use tidegate_store::StoreStats;

use self::alerts::AlertMetrics;
use self::doors::DoorMetrics;
use self::durations::DurationMetrics;
use self::figures::Figures;
use self::issuers::IssuerMetrics;
use self::process::ProcessMetrics;
use self::room::RoomMetrics;
use self::syslog::SyslogMetrics;

/// Upper bounds of the latency histogram, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    route: String,
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ComponentLabels {
    class: &'static str,
    reason: &'static str,
}

/// A request whose response is complete.
#[derive(Debug)]
pub(crate) struct RequestOutcome<'a> {
    pub(crate) route: &'a str,
    pub(crate) method: &'static str,
    pub(crate) status: u16,
    pub(crate) code: Option<Code>,
    pub(crate) taken: Duration,
}

/// All metrics. Those that the service counts are read when the page is requested.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    failures: Family<FailureLabels, Counter>,
    cache: Family<CacheLabels, Counter>,
    components: Family<ComponentLabels, Counter>,
    cache_entries: Gauge,
    ingest_events: Counter,
    ingest_refused: Counter,
    unread_times: Counter,
    future_times: Counter,
    early_times: Counter,
    ingest_bytes: Counter,
    answers_refused: Gauge,
    running: Gauge,
    places: Gauge,
    waiting: Gauge,
    instances: Gauge,
    instance_places: Gauge,
    pool_memories: Gauge,
    pool_stacks: Gauge,
    pool_idle: Gauge,
    ready: Gauge,
    ready_bytes: Gauge,
    connections: Gauge,
    refused_connections: Counter,
    anonymous: Gauge,
    crowded_connections: Counter,
    process: ProcessMetrics,
    store: Figures<StoreStats>,
    store_times: DurationMetrics<StoreStats>,
    objects: Figures<StoreStats>,
    /// The figures by door.
    pub(crate) doors: DoorMetrics,
    /// The figures of syslog over TCP and TLS.
    pub(crate) syslog: SyslogMetrics,
    alerts: AlertMetrics,
    issuers: IssuerMetrics,
    room: RoomMetrics,
    follow: Figures<FollowNumbers>,
    unusable: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tidegate_build", "The running build", build);
        let mut all = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            failures: Family::default(),
            cache: Family::default(),
            components: Family::default(),
            cache_entries: Gauge::default(),
            ingest_events: Counter::default(),
            ingest_refused: Counter::default(),
            unread_times: Counter::default(),
            future_times: Counter::default(),
            early_times: Counter::default(),
            ingest_bytes: Counter::default(),
            answers_refused: Gauge::default(),
            running: Gauge::default(),
            places: Gauge::default(),
            waiting: Gauge::default(),
            instances: Gauge::default(),
            instance_places: Gauge::default(),
            pool_memories: Gauge::default(),
            pool_stacks: Gauge::default(),
            pool_idle: Gauge::default(),
            ready: Gauge::default(),
            ready_bytes: Gauge::default(),
            connections: Gauge::default(),
            refused_connections: Counter::default(),
            anonymous: Gauge::default(),
            crowded_connections: Counter::default(),
            process: ProcessMetrics::register(&mut registry),
            store: Figures::register(&mut registry, &store::TOTALS, &store::LEVELS),
            store_times: DurationMetrics::register(&mut registry, &store::TIMES),
            objects: Figures::register(&mut registry, &objects::TOTALS, &objects::LEVELS),
            doors: DoorMetrics::register(&mut registry),
            syslog: SyslogMetrics::register(&mut registry),
            alerts: AlertMetrics::register(&mut registry),
            issuers: IssuerMetrics::register(&mut registry),
            room: RoomMetrics::register(&mut registry),
            follow: Figures::register(&mut registry, &follow::TOTALS, &follow::LEVELS),
            unusable: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("tidegate_requests", "Requests by route, method and class of status", all.requests.clone());
        registry.register_with_unit(
            "tidegate_request_duration",
            "Time from a request's head to the end of its answer",
            Unit::Seconds,
            all.seconds.clone(),
        );
        registry.register("tidegate_failures", "Refused and failed requests by route and code", all.failures.clone());
        registry.register("tidegate_cache_lookups", "Lookups of kept answers", all.cache.clone());
        registry.register(
            "tidegate_component_outcomes",
            "Requests that came to a component, by how it ended and which limit or fault ended it",
            all.components.clone(),
        );
        registry.register("tidegate_ingest_events", "Events that were acknowledged", all.ingest_events.clone());
        registry.register("tidegate_ingest_refused_events", "Events that were refused", all.ingest_refused.clone());
        registry.register(
            "tidegate_ingest_unread_times",
            "Acknowledged events with a time that is not understood; they have the time of their arrival",
            all.unread_times.clone(),
        );
        registry.register(
            "tidegate_ingest_future_times",
            "Acknowledged events with a time more than a day after their arrival",
            all.future_times.clone(),
        );
        registry.register(
            "tidegate_ingest_early_times",
            "Acknowledged events with a time in 1970",
            all.early_times.clone(),
        );
        registry.register_with_unit(
            "tidegate_ingest",
            "Bodies of events that were acknowledged, decompressed",
            Unit::Bytes,
            all.ingest_bytes.clone(),
        );
        registry.register(
            "tidegate_connections_refused",
            "Connections over the limit, on which only /health was served",
            all.refused_connections.clone(),
        );
        registry.register(
            "tidegate_connections_crowded",
            "Connections beyond those that their address may have without a token, on which only /health and tokens are served",
            all.crowded_connections.clone(),
        );
        for (name, help, gauge) in [
            ("tidegate_cache_entries", "Kept answers", &all.cache_entries),
            (
                "tidegate_answers_without_room",
                "Answers that found no room among those that are not yet read, since the start",
                &all.answers_refused,
            ),
            ("tidegate_queries_running", "Queries that run", &all.running),
            ("tidegate_queries_places", "Queries that may run at once", &all.places),
            ("tidegate_queries_waiting", "Queries that wait for their turn", &all.waiting),
            ("tidegate_components_running", "Components that run", &all.instances),
            ("tidegate_components_places", "Components that may run at once", &all.instance_places),
            ("tidegate_components_memories", "Memories of the pool in use", &all.pool_memories),
            ("tidegate_components_stacks", "Stacks of the pool in use", &all.pool_stacks),
            ("tidegate_components_idle_bytes", "Resident memory of the pool that is not in use", &all.pool_idle),
            ("tidegate_components_ready", "Components that are kept ready in memory", &all.ready),
            (
                "tidegate_components_ready_bytes",
                "Compiled code of the components that are kept ready",
                &all.ready_bytes,
            ),
            ("tidegate_connections", "Open connections", &all.connections),
            (
                "tidegate_connections_without_token",
                "Open connections on which no valid token was seen, when the last one came",
                &all.anonymous,
            ),
            ("tidegate_endpoints_unusable", "Saved endpoints that cannot be used", &all.unusable),
        ] {
            registry.register(name, help, gauge.clone());
        }
        all.registry = registry;
        all
    }

    /// Counts a request whose response is complete.
    pub(crate) fn answered(&self, answered: &RequestOutcome<'_>) {
        let status = match answered.status {
            100..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let route = answered.route.to_owned();
        let method = answered.method;
        self.requests.get_or_create(&RequestLabels { route: route.clone(), method, status }).inc();
        if let Some(code) = answered.code {
            self.failures.get_or_create(&FailureLabels { route: route.clone(), code: code.name() }).inc();
        }
        self.seconds.get_or_create(&RouteLabels { route }).observe(answered.taken.as_secs_f64());
    }

    /// Counts the events of a request.
    pub(crate) fn ingested(&self, accepted: usize, refused: usize) {
        self.ingest_events.inc_by(number(accepted));
        self.ingest_refused.inc_by(number(refused));
    }

    /// Counts the bytes of a body whose events were acknowledged.
    pub(crate) fn ingested_bytes(&self, bytes: usize) {
        self.ingest_bytes.inc_by(number(bytes));
    }

    /// Counts the acknowledged events of a request whose time could not be parsed, is far in the future, or in 1970.
    pub(crate) fn odd_times(&self, unread: usize, future: usize, early: usize) {
        self.unread_times.inc_by(number(unread));
        self.future_times.inc_by(number(future));
        self.early_times.inc_by(number(early));
    }

    /// Counts the result of a cache lookup: `hit`, `stale`, `miss`, `collapsed`.
    pub(crate) fn cache_lookup(&self, state: &'static str) {
        self.cache.get_or_create(&CacheLabels { state }).inc();
    }

    /// Counts an open connection. `refused` says that it is over the limit.
    pub(crate) fn connection(&self, refused: bool) -> OpenConnection {
        if refused {
            self.refused_connections.inc();
        }
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// Records at a new connection how many connections have no valid token, and whether its address has too many.
    pub(crate) fn anonymous(&self, open: usize, crowded: bool) {
        self.anonymous.set(i64::try_from(open).unwrap_or(i64::MAX));
        if crowded {
            self.crowded_connections.inc();
        }
    }

    /// Reads the values that other components hold.
    pub(crate) fn measure(&self, service: &Service, bodies: &BodyMemory, is_ready: bool) {
        let set = |gauge: &Gauge, n: usize| {
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        };
        let (running, places, waiting) = service.executor.admission().numbers();
        set(&self.running, running);
        set(&self.places, places);
        set(&self.waiting, waiting);
        set(&self.answers_refused, size(service.executor.answers().refused()));
        let pool = service.endpoints.pool_use();
        set(&self.instances, pool.running);
        set(&self.instance_places, pool.places);
        set(&self.pool_memories, pool.memories);
        set(&self.pool_stacks, pool.stacks);
        set(&self.pool_idle, pool.idle_bytes);
        set(&self.ready, pool.ready);
        set(&self.ready_bytes, pool.ready_bytes);
        for (ended, count) in service.executor.outcomes().counts() {
            let class = ended.map_or("answered", Class::name);
            let reason = ended.map_or("", Class::reason);
            let counter = self.components.get_or_create(&ComponentLabels { class, reason });
            counter.inner().store(count, Ordering::Relaxed);
        }
        let (entries, _) = service.cache.size();
        set(&self.cache_entries, size(entries));
        let stats = service.store.stats();
        self.process.measure(is_ready);
        self.store.measure(&stats);
        self.store_times.measure(&stats);
        self.room.measure(service, bodies, stats.unflushed_bytes);
        self.objects.measure(&stats);
        self.alerts.measure(service);
        self.issuers.measure(service);
        self.follow.measure(&service.following.numbers());
        set(&self.unusable, service.registry.unusable().0);
    }
}

/// One of the open connections, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
