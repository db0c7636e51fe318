//! The service for authors of endpoints: one endpoint over given logs, without a server.
//!
//! Nothing is simulated. An endpoint passes the same gate, and a request runs through the same code from its parameters
//! to the encoded answer, as in a service over HTTP. The differences are:
//!
//! - The clock is frozen, and each [`Trial`] has its own temporary folder, which is removed with it.
//! - A statement runs in one partition and instructions are counted, so that a request costs the same each time.
//! - Sources that the endpoint names are created under those names, because it is unknown which sources the target
//!   server has.
//! - No token is needed, and answers are not cached.

mod check;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tidegate_model::{Failure, Limits, Manifest, number};
use tidegate_runtime::RuntimeOptions;
use tidegate_sql::EngineOptions;
use tidegate_store::{Store, StoreError, StoreOptions, event_time};

use crate::answer::{Encoded, Format};
use crate::clock::Clock;
use crate::engines::Engines;
use crate::execution::{RunRecord, RunReport, SentParameters, UsedParameters};
use crate::failures::document;
use crate::inspection::inspect;
use crate::options::Options;
use crate::registry::Endpoint;
use crate::save_request::SaveRequest;
use crate::service::Service;
use crate::standard_sources;
use crate::start_error::StartError;
use crate::tokens::{Access, Tokens};

pub use crate::gate::{Finding, Part};
pub use check::Checked;

/// Logs by the name of their source.
pub type Logs = BTreeMap<String, Vec<Value>>;

/// The input of a trial: logs and the current time.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Logs. A log without `timestamp` gets the time `now`. A log without `id` gets its position in its source as id,
    /// counted from 1.
    pub logs: Logs,
    /// The current time, in microseconds since 1970.
    pub now: i64,
    /// Returns the logs, at time `now`, of a source that the endpoint names and `logs` does not contain.
    pub others: fn(source: &str, now: i64) -> Vec<Value>,
}

impl Scene {
    /// No logs: for [`Scene::others`], if sources that are not given are empty.
    pub fn none(_: &str, _: i64) -> Vec<Value> {
        Vec::new()
    }
}

/// The parts that trials share: the query engine, the component runtime with its compiled code, and the threads.
#[derive(Debug)]
pub struct Workbench {
    engines: Engines,
    options: Options,
}

/// The failures of setting up a trial.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The service cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The temporary folder for the data cannot be used.
    #[error("a temporary folder cannot be used: {0}")]
    Folder(#[from] std::io::Error),
    /// The logs cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the logs is invalid.
    #[error("log {index} of {source_name}: {reason}")]
    Log {
        /// The source of the log.
        source_name: String,
        /// The index of the log in its source, from 0.
        index: usize,
        /// The reason.
        reason: String,
    },
    /// The gate refuses the endpoint.
    #[error("{0}")]
    Refused(Failure),
}

/// An endpoint over the logs of a scene, ready for requests.
#[derive(Debug)]
pub struct Trial {
    service: Arc<Service>,
    endpoint: Arc<Endpoint>,
    warnings: Vec<Failure>,
    unknown: Vec<String>,
    unread: Vec<String>,
    folder: TempDir,
}

/// A request to the endpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ask {
    /// The parameters, including `sql` and `lql`, as in the JSON body of a POST request: strings, numbers, booleans.
    pub parameters: Map<String, Value>,
    /// Whether personal data is masked. If it is absent, the setting of the endpoint holds.
    pub redact: Option<bool>,
}

/// The answer to a request, and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The HTTP status.
    pub status: u16,
    /// The body as JSON: `{"result": ...}` or `{"error": ...}`.
    pub body: Value,
    /// Whether the answer was cut at the limit of rows.
    pub truncated: bool,
    /// The notes of the component for the caller.
    pub notes: BTreeMap<String, String>,
    /// The resources that the component used.
    pub cost: Cost,
    /// The limits of those resources.
    pub limits: Limits,
}

/// The resources that one request used. The same request over the same logs at the same time has the same cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// WebAssembly instructions that the component executed, with the weights of the runtime.
    pub instructions: u64,
    /// Bytes of the component's linear memory and tables. They never shrink, so this is the maximum.
    pub guest_memory: u64,
    /// Calls from the component into the host.
    pub host_calls: u64,
    /// Statements that the component ran.
    pub statements: u64,
    /// Rows that the component read into its memory.
    pub guest_rows: u64,
    /// Bytes of column batches that the component read into its memory.
    pub guest_bytes: u64,
    /// Rows of the answer; 0 if the answer is not an array.
    pub answer_rows: u64,
}

impl Workbench {
    /// Starts the engines, with the default limits of a server.
    ///
    /// # Errors
    /// One of the engines cannot start.
    pub fn start() -> Result<Self, StartError> {
        let mut options = Options::default();
        // No background work, because it depends on the real time and would delete old logs. No sync to disk, because
        // the data does not outlive the trial.
        options.store = StoreOptions { manual_flush: true, durable: false, ..options.store };
        let runtime = RuntimeOptions {
            concurrency: 1,
            limits: options.limits.clone(),
            count_instructions: true,
            ..RuntimeOptions::default()
        };
        // With one partition, batches and the order of rows do not depend on the number of processors.
        let engines = Engines::start(runtime, EngineOptions { partitions: 1, ..EngineOptions::default() }, None)?;
        Ok(Self { engines, options })
    }

    /// Registers an endpoint over the logs of a scene. The endpoint can read no other logs.
    ///
    /// # Errors
    /// The gate refuses the endpoint; logs that cannot be read; a temporary folder that cannot be used.
    pub async fn trial(&self, component: &[u8], scene: Scene) -> Result<Trial, TrialError> {
        let manifest = inspect(component).map_err(TrialError::Refused)?.manifest;
        let given: Vec<String> = scene.logs.keys().cloned().collect();
        let Stage { service, unknown, folder } = self.stage(&manifest, scene).await?;
        let request = SaveRequest { author: "the workbench", for_author: true, ..SaveRequest::default() };
        let saved = service.registrar.save_component(component, request).await.map_err(TrialError::Refused)?;
        let endpoint = saved.endpoint;
        let found = service.registry.check_result(endpoint.id);
        let mut warnings = found.map_or_else(Vec::new, |found| found.warnings.clone());
        warnings.extend(saved.remarks);
        // With the sandbox off, ad-hoc queries may read every source.
        let is_unread = |source: &String| manifest.settings.sandboxable && !endpoint.tables.contains_key(source);
        let unread = given.into_iter().filter(is_unread).collect();
        Ok(Trial { service, endpoint, warnings, unknown, unread, folder })
    }

    /// Starts a service that holds the logs of a scene and the sources that an endpoint names.
    async fn stage(&self, manifest: &Manifest, scene: Scene) -> Result<Stage, TrialError> {
        let folder = tempfile::Builder::new().prefix("tidegate-").tempdir()?;
        let options = Options { data_dir: folder.path().join("data"), ..self.options.clone() };
        let store = Store::open(&options.data_dir, options.store.clone())?;
        let tokens = Tokens::open(store.catalog(), &options)?;
        let service = Service::over(options, store, tokens, &self.engines, None, Clock::Frozen(scene.now)).await?;
        for (source, events) in scene.logs {
            fill(&service, source, events).await?;
        }
        let made =
            service.registrar.create_missing_sources(manifest, &BTreeMap::new()).await.map_err(TrialError::Refused)?;
        let mut unknown = Vec::new();
        for source in made {
            let events = (scene.others)(&source, scene.now);
            if events.is_empty() && standard_sources::names().all(|name| name != source) {
                unknown.push(source.clone());
            }
            fill(&service, source, events).await?;
        }
        Ok(Stage { service, unknown, folder })
    }
}

/// A service with logs, before an endpoint is registered.
struct Stage {
    service: Arc<Service>,
    unknown: Vec<String>,
    folder: TempDir,
}

impl Stage {
    async fn close(self) -> Result<(), TrialError> {
        self.service.close().await?;
        self.folder.close()?;
        Ok(())
    }
}

/// Stores the logs of one source.
async fn fill(service: &Arc<Service>, source: String, mut events: Vec<Value>) -> Result<(), TrialError> {
    for (index, event) in events.iter_mut().enumerate() {
        if let Value::Object(fields) = event
            && fields.get("id").is_none_or(Value::is_null)
        {
            fields.insert("id".to_owned(), Value::from((index + 1).to_string()));
        }
        // A server accepts such a log and uses its arrival time. Here an invalid time is a mistake of the author.
        if let Some(time) = event.get("timestamp").filter(|time| !time.is_null() && event_time(time).is_none()) {
            let reason = format!("its timestamp is {time}, which is no time such as \"2026-01-31T12:00:00Z\"");
            return Err(TrialError::Log { source_name: source, index, reason });
        }
    }
    service.store.ensure_source(&source)?;
    let receipt = service.ingest(&source, events).await?;
    match receipt.refused.into_iter().next() {
        Some(refused) => Err(TrialError::Log { source_name: source, index: refused.index, reason: refused.reason }),
        None => Ok(()),
    }
}

impl Trial {
    /// The name of the endpoint.
    pub fn name(&self) -> &str {
        self.endpoint.manifest.name.as_str()
    }

    /// Sources that the endpoint names, that no logs were given for, and that a new server does not have. In the trial
    /// they are empty.
    pub fn unknown_sources(&self) -> &[String] {
        &self.unknown
    }

    /// Sources that logs were given for, but that the endpoint does not read.
    pub fn unread_sources(&self) -> &[String] {
        &self.unread
    }

    /// The sources that the endpoint reads.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.endpoint.tables.keys().map(String::as_str)
    }

    /// Parameters of a request that do not affect the answer of the endpoint.
    pub fn unknown_parameters<'a>(&'a self, ask: &'a Ask) -> impl Iterator<Item = &'a str> {
        let adhoc = SentParameters::of_object(ask.parameters.clone()).ok().and_then(|sent| sent.adhoc);
        let used = UsedParameters::of(&self.endpoint.manifest, adhoc.as_ref());
        let is_used = move |name: &str| matches!(name, "sql" | "lql") || used.has(name);
        ask.parameters.keys().map(String::as_str).filter(move |name| !is_used(name))
    }

    /// The parameters that the endpoint takes.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.endpoint.manifest.parameters.iter().map(|parameter| parameter.name.as_str())
    }

    /// Warnings about the endpoint: columns that its statements name and that no log has had, and other texts that may
    /// not mean what the author intended.
    pub fn warnings(&self) -> &[Failure] {
        &self.warnings
    }

    /// Sends a request to the endpoint, with access to everything.
    pub async fn ask(&self, ask: Ask) -> Outcome {
        let record = Arc::<RunRecord>::default();
        let answered = self.answer(ask, Arc::clone(&record)).await;
        let (status, body, truncated, notes) = match answered {
            Ok(encoded) => (200, json(&encoded.concat()), encoded.truncated, encoded.metadata.notes),
            Err(failure) => (failure.code.status(), document(&failure), false, BTreeMap::new()),
        };
        let none = RunReport::default();
        let RunReport { usage, ended: _ } = record.report().unwrap_or(&none);
        let cost = Cost {
            instructions: usage.instructions.unwrap_or_default(),
            guest_memory: number(usage.guest_memory),
            host_calls: usage.host_calls,
            statements: usage.statements.into(),
            guest_rows: usage.guest_rows,
            guest_bytes: number(usage.guest_bytes),
            answer_rows: body.get("result").and_then(Value::as_array).map_or(0, |rows| number(rows.len())),
        };
        Outcome { status, body, truncated, notes, cost, limits: self.limits() }
    }

    async fn answer(&self, ask: Ask, record: Arc<RunRecord>) -> Result<Encoded, Failure> {
        let sent = SentParameters::of_object(ask.parameters)?;
        let redact = ask.redact.unwrap_or(self.endpoint.manifest.settings.redact_pii);
        let access = Access::to_all("the workbench");
        let reads = self.service.registry.load_reads(&self.service.store, &self.endpoint.tables)?;
        let request = self.service.executor.check_request(
            Arc::clone(&self.endpoint),
            &reads,
            &access,
            sent,
            Format::Json,
            redact,
        )?;
        let account = request.account;
        let now = self.service.clock.now();
        Arc::clone(&self.service.executor).execute(Arc::new(request), now, account, record).await
    }

    /// The limits of a request: the lower of the server's limits and the endpoint's own.
    fn limits(&self) -> Limits {
        let mut limits = self.service.options.limits.lowered_by(&self.endpoint.manifest.limits);
        let own = usize::try_from(self.endpoint.manifest.settings.max_limit).unwrap_or(usize::MAX);
        limits.rows = limits.rows.min(own);
        limits
    }

    /// Ends the trial and removes its folder.
    ///
    /// # Errors
    /// The service cannot be closed, or the folder cannot be removed.
    pub async fn close(self) -> Result<(), TrialError> {
        let Self { service, unknown, folder, endpoint: _, warnings: _, unread: _ } = self;
        Stage { service, unknown, folder }.close().await
    }
}

/// The body as JSON. If it nests too deeply to be parsed, its text as a JSON string.
fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}
