//! How a service is set up: every choice of the operator, with its default.
//!
//! How each is called in a configuration file, and between which bounds it may be set, is told in
//! [`crate::settings`].

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tidegate_model::{Errors, Limits};
use tidegate_runtime::{Compilation, CompileCommand};
use tidegate_store::StoreOptions;

/// How a service is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The folder that holds everything.
    pub data_dir: PathBuf,
    /// A token for everything, beside those in the catalog.
    pub private_token: Option<String>,
    /// A token for ingest, beside those in the catalog.
    pub public_token: Option<String>,
    /// What one request may use.
    pub limits: Limits,
    /// Listening, logging, connections.
    pub server: ServerOptions,
    /// What clients may send.
    pub ingest: IngestOptions,
    /// Kept answers.
    pub cache: CacheOptions,
    /// How the log store works.
    pub store: StoreOptions,
    /// The share of one token.
    pub rate: RateOptions,
    /// How much is done at once.
    pub admission: AdmissionOptions,
    /// Compiling components, and keeping them ready.
    pub components: ComponentOptions,
    /// Where traces go.
    pub traces: TraceOptions,
    /// Endpoints of packs, in the order in which they are saved: one that reads another comes after it.
    pub packs: Vec<PackEndpoint>,
}

impl Options {
    /// The defaults, over a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            private_token: None,
            public_token: None,
            limits: Limits::default(),
            server: ServerOptions::default(),
            ingest: IngestOptions::default(),
            cache: CacheOptions::default(),
            store: StoreOptions::default(),
            rate: RateOptions::default(),
            admission: AdmissionOptions::default(),
            components: ComponentOptions::default(),
            traces: TraceOptions::default(),
            packs: Vec::new(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new("tidegate-data")
    }
}

/// An endpoint of a pack, to be saved when the service starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackEndpoint {
    /// The name of the pack.
    pub pack: String,
    /// The endpoint's component, manifest included.
    pub component: Vec<u8>,
}

/// Listening, logging, connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The file with the certificate of the service and those that signed it, in PEM; with one, only TLS is
    /// spoken. It is read again when it changes.
    pub tls_certificate: Option<PathBuf>,
    /// The file with its private key, in PEM; there if and only if the certificate is.
    pub tls_key: Option<PathBuf>,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written: a level, or directives by module.
    pub log_level: String,
    /// With which status errors of queries are answered, where neither the token nor the endpoint says so.
    pub errors: Errors,
    /// How long a request's head may take to arrive; on a new connection, with the handshake of TLS.
    pub head_timeout: Duration,
    /// The longest pause while a request's body arrives. Over the whole body it is a head start,
    /// after which [`least_rate`](Self::least_rate) must hold.
    pub body_timeout: Duration,
    /// How long a connection without a request is kept.
    pub idle_timeout: Duration,
    /// The longest pause in which a client takes nothing of its answer; over the whole answer a
    /// head start, like [`body_timeout`](Self::body_timeout).
    pub write_timeout: Duration,
    /// Bytes a second that a client must send or take, on average.
    pub least_rate: u64,
    /// How long running requests may go on after a stop was asked for.
    pub grace: Duration,
    /// Connections that are served at once.
    pub max_connections: usize,
    /// Connections of one address on which no valid token was seen yet; 0 is no limit.
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
            // Longer than load balancers keep theirs (60 s), so that they are the ones who close.
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            least_rate: 4 << 10,
            grace: Duration::from_secs(10),
            max_connections: 4096,
            connections_without_token: 256,
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What clients may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestOptions {
    /// The longest body, in bytes, as sent and as decompressed.
    pub max_body: usize,
    /// Whether a token may stand in the query string (`?api_key=`) of an ingest request, where
    /// proxies log it.
    pub key_in_query: bool,
    /// Bytes of bodies that are received at once, and of the events cut out of them until they are
    /// stored; beyond, requests are refused.
    pub body_memory: usize,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self { max_body: 16 << 20, key_in_query: false, body_memory: 128 << 20 }
    }
}

/// Kept answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of answers that are kept.
    pub memory: usize,
    /// Endpoints that are warmed at once.
    pub warming_concurrency: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { memory: 256 << 20, warming_concurrency: 2 }
    }
}

/// The share of one token. Off unless set: one token often carries a whole product's traffic, and
/// what all tokens together may do is bounded by [`AdmissionOptions`]. It is for services that give
/// each customer a token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateOptions {
    /// Queries a second; 0 is no limit.
    pub queries_per_second: u64,
    /// Ingest requests a second; 0 is no limit.
    pub ingest_per_second: u64,
    /// Requests that may come at once after a pause; 0 is what two seconds allow.
    pub burst: u64,
}

/// How much is done at once, over all callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Queries that run at once; 0 is 8 for each processor and at least 32.
    pub concurrency: usize,
    /// Queries that may wait for their turn.
    pub queue: usize,
    /// How long one may wait.
    pub wait: Duration,
    /// Bytes of encoded answers that are not yet read by who asked for them; half for one token.
    pub answer_memory: usize,
}

impl AdmissionOptions {
    /// Queries that run at once, on this machine.
    pub fn places(&self) -> usize {
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

/// Compiling components, and keeping them ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentOptions {
    /// The program that compiles, with the command `compile-component`: this server's own. Without
    /// one, components are compiled in this process, and nothing holds them to the limits below.
    pub compiler: Option<PathBuf>,
    /// How long compiling one may take.
    pub compile_time: Duration,
    /// Bytes of memory that compiling one may take.
    pub compile_memory: u64,
    /// Bytes of compiled code that are kept ready in memory; the rest is on disk.
    pub code_memory: usize,
}

impl Default for ComponentOptions {
    fn default() -> Self {
        Self { compiler: None, compile_time: Duration::from_secs(30), compile_memory: 2 << 30, code_memory: 256 << 20 }
    }
}

impl ComponentOptions {
    /// How the runtime compiles.
    pub(crate) fn compilation(&self) -> Compilation {
        let Some(program) = self.compiler.clone() else { return Compilation::Here };
        // The clock ends it at its time; the processor's is the second bound, for when nobody looks at the clock.
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

/// Where traces go.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOptions {
    /// The address of an OTLP/HTTP receiver without its path, such as `http://127.0.0.1:4318` or
    /// `https://collector.example.com`; empty is none.
    pub endpoint: String,
    /// What this service is called there.
    pub service_name: String,
    /// The share of requests that are traced where the caller has not decided, from 0 to 1.
    pub sample: f64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { endpoint: String::new(), service_name: "tidegate".to_owned(), sample: 1.0 }
    }
}
