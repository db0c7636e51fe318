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
mod service;
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
use tidegate_model::{Code, number};
use tidegate_runtime::{Class, PoolUse};
use tidegate_service::Service;
use tidegate_service::alerts::{AlertCounts, AlertStates};
use tidegate_service::follow::FollowNumbers;
use tidegate_store::StoreStats;

use self::doors::DoorMetrics;
use self::durations::DurationMetrics;
use self::figures::{Figures, add, add_with_unit};
use self::issuers::IssuerMetrics;
use self::process::ProcessMetrics;
use self::room::Disk;
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
    ingest_events: Counter,
    ingest_refused: Counter,
    unread_times: Counter,
    future_times: Counter,
    early_times: Counter,
    ingest_bytes: Counter,
    connections: Gauge,
    refused_connections: Counter,
    anonymous: Gauge,
    crowded_connections: Counter,
    process: ProcessMetrics,
    service: Figures<Service>,
    kept: Figures<(u64, u64)>,
    queries: Figures<(usize, usize, usize)>,
    pool: Figures<PoolUse>,
    store: Figures<StoreStats>,
    store_times: DurationMetrics<StoreStats>,
    objects: Figures<StoreStats>,
    /// The figures by door.
    pub(crate) doors: DoorMetrics,
    /// The figures of syslog over TCP and TLS.
    pub(crate) syslog: SyslogMetrics,
    alerts: Figures<AlertCounts>,
    alert_states: Figures<AlertStates>,
    issuers: IssuerMetrics,
    room: Figures<Service>,
    bodies: Figures<BodyMemory>,
    disk: Figures<Disk>,
    follow: Figures<FollowNumbers>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tidegate_build", "The running build", build);
        let seconds = Family::<_, _, fn() -> Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        let help = "Time from a request's head to the end of its answer";
        registry.register_with_unit("tidegate_request_duration", help, Unit::Seconds, seconds.clone());
        let all = &mut registry;
        Self {
            requests: add(all, "tidegate_requests", "Requests by route, method and class of status"),
            seconds,
            failures: add(all, "tidegate_failures", "Refused and failed requests by route and code"),
            cache: add(all, "tidegate_cache_lookups", "Lookups of kept answers"),
            components: add(
                all,
                "tidegate_component_outcomes",
                "Requests that came to a component, by how it ended and which limit or fault ended it",
            ),
            ingest_events: add(all, "tidegate_ingest_events", "Events that were acknowledged"),
            ingest_refused: add(all, "tidegate_ingest_refused_events", "Events that were refused"),
            unread_times: add(
                all,
                "tidegate_ingest_unread_times",
                "Acknowledged events with a time that is not understood; they have the time of their arrival",
            ),
            future_times: add(
                all,
                "tidegate_ingest_future_times",
                "Acknowledged events with a time more than a day after their arrival",
            ),
            early_times: add(all, "tidegate_ingest_early_times", "Acknowledged events with a time in 1970"),
            ingest_bytes: add_with_unit(
                all,
                "tidegate_ingest",
                "Bodies of events that were acknowledged, decompressed",
                Unit::Bytes,
            ),
            connections: add(all, "tidegate_connections", "Open connections"),
            refused_connections: add(
                all,
                "tidegate_connections_refused",
                "Connections over the limit, on which only /health was served",
            ),
            anonymous: add(
                all,
                "tidegate_connections_without_token",
                "Open connections on which no valid token was seen, when the last one came",
            ),
            crowded_connections: add(
                all,
                "tidegate_connections_crowded",
                "Connections beyond those that their address may have without a token, on which only /health and tokens are served",
            ),
            process: ProcessMetrics::register(all),
            service: Figures::register(all, &[], &service::LEVELS),
            kept: Figures::register(all, &[], &service::CACHE),
            queries: Figures::register(all, &[], &service::QUERIES),
            pool: Figures::register(all, &[], &service::POOL),
            store: Figures::register(all, &store::TOTALS, &store::LEVELS),
            store_times: DurationMetrics::register(all, &store::TIMES),
            objects: Figures::register(all, &objects::TOTALS, &objects::LEVELS),
            doors: DoorMetrics::register(all),
            syslog: SyslogMetrics::register(all),
            alerts: Figures::register(all, &alerts::TOTALS, &[]),
            alert_states: Figures::register(all, &[], &alerts::LEVELS),
            issuers: IssuerMetrics::register(all),
            room: Figures::register(all, &[], &room::LEVELS),
            bodies: Figures::register(all, &[], &room::BODIES),
            disk: Figures::register(all, &[], &room::DISK),
            follow: Figures::register(all, &follow::TOTALS, &follow::LEVELS),
            registry,
        }
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
        for (ended, count) in service.executor.outcomes().counts() {
            let class = ended.map_or("answered", Class::name);
            let reason = ended.map_or("", Class::reason);
            let counter = self.components.get_or_create(&ComponentLabels { class, reason });
            counter.inner().store(count, Ordering::Relaxed);
        }
        let stats = service.store.stats();
        self.process.measure(is_ready);
        self.service.measure(service);
        self.kept.measure(&service.cache.size());
        self.queries.measure(&service.executor.admission().numbers());
        self.pool.measure(&service.endpoints.pool_use());
        self.store.measure(&stats);
        self.store_times.measure(&stats);
        self.objects.measure(&stats);
        self.alerts.measure(&service.alerts.counts());
        if let Ok(states) = service.alerts.states() {
            self.alert_states.measure(&states);
        }
        self.issuers.measure(service);
        self.room.measure(service);
        self.bodies.measure(bodies);
        if let Some(disk) = Disk::of(&service.options.data_dir) {
            self.disk.measure(&disk);
        }
        self.follow.measure(&service.following.numbers());
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
