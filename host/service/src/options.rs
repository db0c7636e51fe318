//! The options of a service: every setting of the operator, with its default.
//!
//! The names of the settings in a configuration file, and the bounds of their values, are in [`crate::settings`].

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tidegate_model::{Errors, Limits, SourceTenancy};
use tidegate_runtime::{Compilation, CompileCommand};
use tidegate_sql::EngineOptions;
use tidegate_store::StoreOptions;

use crate::cluster_options::ClusterOptions;
use crate::door_options::DoorOptions;
use crate::issuer_options::IssuerOptions;
use crate::networks::Network;
use crate::syslog_options::SyslogOptions;

/// The options of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The data folder. It holds the catalog, the logs and the endpoints.
    pub data_dir: PathBuf,
    /// A token that allows everything, in addition to the tokens in the catalog.
    pub private_token: Option<String>,
    /// A token that allows ingest, in addition to the tokens in the catalog.
    pub public_token: Option<String>,
    /// The limits of one request.
    pub limits: Limits,
    /// Listening address, TLS, logging and connections.
    pub server: ServerOptions,
    /// Limits of ingest requests.
    pub ingest: IngestOptions,
    /// Where events go whose requests name no source.
    pub doors: DoorOptions,
    /// Syslog over TCP and TLS.
    pub syslog: SyslogOptions,
    /// The cache of answers.
    pub cache: CacheOptions,
    /// The options of the log store.
    pub store: StoreOptions,
    /// Bytes of footers of segments, with their tables of checksums, that stay in memory.
    pub footer_memory: usize,
    /// The rate limits of one token.
    pub rate: RateOptions,
    /// Admission control: how many queries run and wait at the same time.
    pub admission: AdmissionOptions,
    /// Queries whose answer is followed.
    pub follow: FollowOptions,
    /// How components are compiled, and how much compiled code stays in memory.
    pub components: ComponentOptions,
    /// The alerts of endpoints.
    pub alerts: AlertOptions,
    /// The export of traces.
    pub traces: TraceOptions,
    /// Workers that run parts of statements.
    pub cluster: ClusterOptions,
    /// Issuers whose JWTs are access tokens.
    pub issuers: Vec<IssuerOptions>,
    /// The endpoints of packs, in the order in which they are saved. An endpoint that reads another comes after it.
    pub packs: Vec<PackEndpoint>,
    /// What packs declare of sources.
    pub pack_sources: Vec<PackSource>,
}

impl Options {
    /// The default options, for a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            private_token: None,
            public_token: None,
            limits: Limits::default(),
            server: ServerOptions::default(),
            ingest: IngestOptions::default(),
            doors: DoorOptions::default(),
            syslog: SyslogOptions::default(),
            cache: CacheOptions::default(),
            store: StoreOptions::default(),
            footer_memory: EngineOptions::default().footer_memory,
            rate: RateOptions::default(),
            admission: AdmissionOptions::default(),
            follow: FollowOptions::default(),
            components: ComponentOptions::default(),
            alerts: AlertOptions::default(),
            traces: TraceOptions::default(),
            cluster: ClusterOptions::default(),
            issuers: Vec::new(),
            packs: Vec::new(),
            pack_sources: Vec::new(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new("tidegate-data")
    }
}

/// An endpoint of a pack, which is saved when the service starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackEndpoint {
    /// The name of the pack.
    pub pack: String,
    /// The component of the endpoint, including its manifest.
    pub component: Vec<u8>,
}

/// What a pack declares of a source: whose its rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackSource {
    /// The name of the pack.
    pub pack: String,
    /// The name of the source.
    pub name: String,
    /// Whose its rows are, unless the source says it already.
    pub tenant: SourceTenancy,
}

/// Listening address, TLS, logging and connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The PEM file with the certificate chain of the service. If it is set, the service accepts TLS connections only.
    /// The file is read again when it changes.
    pub tls_certificate: Option<PathBuf>,
    /// The PEM file with the private key. It is set if and only if the certificate is set.
    pub tls_key: Option<PathBuf>,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The filter for log lines: a level, or directives by module.
    pub log_level: String,
    /// The HTTP status of failed queries, where neither the token nor the endpoint sets it.
    pub errors: Errors,
    /// The time for the head of a request to arrive. On a new connection it includes the TLS handshake.
    pub head_timeout: Duration,
    /// The longest pause while the body of a request arrives. It is also a grace period for the body as a whole: after
    /// it, the average must be at least [`least_rate`](Self::least_rate).
    pub body_timeout: Duration,
    /// The time that a connection without a request is kept open.
    pub idle_timeout: Duration,
    /// The longest pause in which a client reads nothing of its answer. It is also a grace period for the answer as a
    /// whole, as with [`body_timeout`](Self::body_timeout).
    pub write_timeout: Duration,
    /// The bytes per second that a client must send or read, on average.
    pub least_rate: u64,
    /// How long `GET /ready` says that the service ends, and everything is served, before new connections are refused.
    pub drain_delay: Duration,
    /// The time that running requests have to end after the service was asked to stop.
    pub grace: Duration,
    /// The most connections that are open at the same time.
    pub max_connections: usize,
    /// The most connections of one address that have not presented a valid token yet; 0 means no limit.
    pub connections_without_token: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)),
            tls_certificate: None,
            tls_key: None,
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
            errors: Errors::Status,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(15),
            // Longer than the idle timeout of load balancers (60 s), so that the load balancer closes the connection
            // and not the service.
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            least_rate: 4 << 10,
            drain_delay: Duration::ZERO,
            grace: Duration::from_secs(10),
            max_connections: 4096,
            connections_without_token: 256,
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Limits of ingest requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestOptions {
    /// The largest body in bytes. It holds for the body as sent, and for the body after decompression.
    pub max_body: usize,
    /// Whether an ingest request may have its token in the query string (`?api_key=`). Proxies write query strings to
    /// their logs.
    pub key_in_query: bool,
    /// The bytes of all bodies that are being received, plus the events cut out of them until these are stored.
    /// Requests beyond that are refused. One token may use half of it.
    pub body_memory: usize,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self { max_body: 16 << 20, key_in_query: false, body_memory: 128 << 20 }
    }
}

/// The cache of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// The most bytes of cached answers.
    pub memory: usize,
    /// The number of endpoints that are warmed at the same time.
    pub warming_concurrency: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { memory: 256 << 20, warming_concurrency: 2 }
    }
}

/// The rate limits of one token. They are off by default: one token often carries the traffic of a whole product, and
/// [`AdmissionOptions`] bounds what all tokens do together. Rate limits are for services that give each customer a
/// token of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateOptions {
    /// Queries per second; 0 means no limit.
    pub queries_per_second: u64,
    /// Ingest requests per second; 0 means no limit.
    pub ingest_per_second: u64,
    /// The number of requests that may come at once after a pause; 0 means as many as the rate allows in two seconds.
    pub burst: u64,
}

/// Admission control for all callers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// The number of queries that run at the same time; 0 means 8 per processor, and at least 32.
    pub concurrency: usize,
    /// The number of queries that may wait to run.
    pub queue: usize,
    /// The longest time that a query waits.
    pub wait: Duration,
    /// The most bytes of encoded answers that callers have not read yet. One token may use half of it.
    pub answer_memory: usize,
}

impl AdmissionOptions {
    /// The number of queries that run at the same time, on this machine.
    pub fn permits(&self) -> usize {
        match self.concurrency {
            0 => (std::thread::available_parallelism().map_or(2, usize::from) * 8).max(32),
            set => set,
        }
    }
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        Self { concurrency: 0, queue: 256, wait: Duration::from_secs(1), answer_memory: 256 << 20 }
    }
}

/// Queries whose answer is followed: their rows are sent on as they come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowOptions {
    /// The most followers at the same time.
    pub followers: usize,
    /// The most followers with one token.
    pub followers_of_token: usize,
    /// The most bytes of new rows that followers have not read yet: half for events as they were sent in, half for encoded
    /// rows.
    pub memory: usize,
    /// The least time between two looks at the new rows of a source.
    pub interval: Duration,
    /// The time after which a stream without rows gets a comment, so that nobody between closes it.
    pub heartbeat: Duration,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            followers: 1000,
            followers_of_token: 100,
            memory: 64 << 20,
            interval: Duration::from_millis(50),
            heartbeat: Duration::from_secs(15),
        }
    }
}

/// How components are compiled, and how much compiled code stays in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentOptions {
    /// The program that compiles components with its command `compile-component`; usually the server's own binary. If
    /// it is not set, components are compiled in this process, and the limits on time and memory below do not apply.
    pub compiler: Option<PathBuf>,
    /// The time limit for compiling one component.
    pub compile_time: Duration,
    /// The memory limit for compiling one component, in bytes.
    pub compile_memory: u64,
    /// The most bytes of compiled code in memory. Other compiled code is read from disk.
    pub code_memory: usize,
}

impl Default for ComponentOptions {
    fn default() -> Self {
        Self { compiler: None, compile_time: Duration::from_secs(30), compile_memory: 2 << 30, code_memory: 256 << 20 }
    }
}

impl ComponentOptions {
    /// The compilation settings of the runtime.
    pub(crate) fn compilation(&self) -> Compilation {
        let Some(program) = self.compiler.clone() else { return Compilation::Here };
        // The runtime ends the process after `compile_time` of wall-clock time. The limit on processor time, two
        // seconds later, is a second bound in case the parent process no longer watches the clock.
        let seconds = self.compile_time.as_secs().saturating_add(2);
        let arguments = [
            "compile-component".to_owned(),
            format!("--seconds={seconds}"),
            format!("--memory={}", self.compile_memory),
        ];
        let arguments = arguments.into_iter().map(OsString::from).collect();
        Compilation::Subprocess(CompileCommand { program, arguments, time: self.compile_time })
    }
}

/// How alerts are run, and where their messages may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertOptions {
    /// Whether alerts are run and messages sent. Without it only tests and runs that somebody asks for are made.
    pub run: bool,
    /// The most alerts of all endpoints together.
    pub most: usize,
    /// The number of alerts that are run at the same time; one endpoint has one of them.
    pub concurrency: usize,
    /// The number of messages that are sent at the same time; one host gets half of them.
    pub send_concurrency: usize,
    /// The time limit for sending one message, from the look-up of the host to the answer.
    pub send_time: Duration,
    /// The time limit for connecting to a receiver.
    pub connect_time: Duration,
    /// How often a message is tried before it is given up.
    pub attempts: usize,
    /// The pause after the first attempt that failed. It doubles with each, up to an hour.
    pub retry_wait: Duration,
    /// The networks that receivers may be in though they are not of the public internet.
    pub allow_networks: Vec<Network>,
}

impl Default for AlertOptions {
    fn default() -> Self {
        Self {
            run: true,
            most: 1_000,
            concurrency: 4,
            send_concurrency: 8,
            send_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(5),
            attempts: 8,
            retry_wait: Duration::from_secs(10),
            allow_networks: Vec::new(),
        }
    }
}

/// The export of traces.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOptions {
    /// The address of an OTLP/HTTP receiver without its path, such as `http://127.0.0.1:4318` or
    /// `https://collector.example.com`. If it is empty, traces are not exported.
    pub endpoint: String,
    /// The service name in the traces.
    pub service_name: String,
    /// The fraction of requests that are traced if the caller has not decided it, from 0 to 1.
    pub sample: f64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { endpoint: String::new(), service_name: "tidegate".to_owned(), sample: 1.0 }
    }
}
