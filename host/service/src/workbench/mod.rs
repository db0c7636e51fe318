//! The service on an author's own machine: one endpoint over logs that are given, without a server.
//!
//! Nothing is imitated. An endpoint passes the same gate, and a request takes the same way from its
//! parameters to the encoded answer, as in a service that is reached over HTTP. What differs:
//!
//! - the clock stands still, and every [`Trial`] has a folder of its own that is gone with it;
//! - a statement runs in one part and instructions are counted, so that a request costs the same
//!   every time it is made;
//! - sources that the endpoint names are made as they are named, because what exists on the server that
//!   it is meant for is not known here;
//! - nobody is asked for a token, and no answer is kept.

mod check;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tidegate_model::{Failure, Limits, Manifest, number};
use tidegate_runtime::RuntimeOptions;
use tidegate_store::{Store, StoreError, StoreOptions, event_time};

use crate::answer::{Encoded, Format};
use crate::clock::Clock;
use crate::engines::Engines;
use crate::execution::{RunRecord, RunReport, SentParameters, UsedParameters, check_request};
use crate::failures::document;
use crate::inspection::inspect;
use crate::options::Options;
use crate::registry::Endpoint;
use crate::save_request::SaveRequest;
use crate::service::Service;
use crate::standard_sources::SOURCES;
use crate::start_error::StartError;
use crate::tokens::{Access, Tokens};

pub use crate::gate::{Finding, Part};
pub use check::Checked;

/// Logs by the names of their sources.
pub type Logs = BTreeMap<String, Vec<Value>>;

/// What there is to read, and when.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Logs. Those without `timestamp` are of `now`; those without `id` get their number in their
    /// source, from 1.
    pub logs: Logs,
    /// The time, in microseconds since 1970.
    pub now: i64,
    /// The logs of a source that the endpoint names and `logs` does not, at that time.
    pub others: fn(source: &str, now: i64) -> Vec<Value>,
}

impl Scene {
    /// No logs: of sources that are empty where nothing is given.
    pub fn none(_: &str, _: i64) -> Vec<Value> {
        Vec::new()
    }
}

/// What trials share: the query engine, the component runtime with compiled code, threads.
#[derive(Debug)]
pub struct Workbench {
    engines: Engines,
    options: Options,
}

/// Why an endpoint cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The service does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The temporary folder for its data cannot be used.
    #[error("a temporary folder cannot be used: {0}")]
    Folder(#[from] std::io::Error),
    /// The logs cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the logs is none.
    #[error("log {index} of {source_name}: {reason}")]
    Log {
        /// Its source.
        source_name: String,
        /// Which of the source's logs, from 0.
        index: usize,
        /// Why.
        reason: String,
    },
    /// The gate refuses the endpoint.
    #[error("{0}")]
    Refused(Failure),
}

/// An endpoint over its logs, ready to be asked.
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
    /// The parameters, `sql` and `lql` among them, as in the body of a POST: texts, numbers, booleans.
    pub parameters: Map<String, Value>,
    /// Whether personal data is masked; the endpoint's own setting if absent.
    pub redact: Option<bool>,
}

/// The answer to a request, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The HTTP status.
    pub status: u16,
    /// The body as JSON: `{"result": ...}` or `{"error": ...}`.
    pub body: Value,
    /// Whether there were more rows than the cap.
    pub truncated: bool,
    /// The component's remarks for the caller.
    pub notes: BTreeMap<String, String>,
    /// What the component used.
    pub cost: Cost,
    /// What it might have used.
    pub limits: Limits,
}

/// What one request used. The same request over the same logs at the same time uses the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cost {
    /// WebAssembly instructions that the component executed, as the engine weighs them.
    pub instructions: u64,
    /// Bytes of memory and tables that the component held; memory does not shrink, so this is the most.
    pub guest_memory: u64,
    /// Calls from the component into the host.
    pub host_calls: u64,
    /// Statements that it record.
    pub statements: u64,
    /// Rows that it read into its memory.
    pub guest_rows: u64,
    /// Bytes of column batches that it read into its memory.
    pub guest_bytes: u64,
    /// Rows of the answer; 0 if the answer is no array.
    pub answer_rows: u64,
}

impl Workbench {
    /// Starts the engines, with the limits of a server that nobody has configured.
    ///
    /// # Errors
    /// What does not start.
    pub fn start() -> Result<Self, StartError> {
        let mut options = Options::default();
        // No background work: it would depend on the real time, and old logs would be deleted by it. And
        // no waiting for a disk: nothing outlives the trial.
        options.store = StoreOptions { manual_flush: true, durable: false, ..options.store };
        let runtime = RuntimeOptions {
            concurrency: 1,
            limits: options.limits.clone(),
            count_instructions: true,
            ..RuntimeOptions::default()
        };
        // In one partition, batches and the order of rows do not depend on the number of processors.
        let engines = Engines::start(runtime, 1)?;
        Ok(Self { engines, options })
    }

    /// Puts an endpoint over the logs of a scene: they are all that it can read.
    ///
    /// # Errors
    /// What the gate refuses; logs that cannot be read; a temporary folder that cannot be used.
    pub async fn trial(&self, component: &[u8], scene: Scene) -> Result<Trial, TrialError> {
        let manifest = inspect(component).map_err(TrialError::Refused)?.manifest;
        let given: Vec<String> = scene.logs.keys().cloned().collect();
        let Stage { service, unknown, folder } = self.stage(&manifest, scene).await?;
        let request = SaveRequest { author: "the workbench", ..SaveRequest::default() };
        let endpoint = service.registrar.register_component(component, request).await.map_err(TrialError::Refused)?;
        let warnings = service.registry.check_result(endpoint.id).map_or_else(Vec::new, |found| found.warnings.clone());
        // With the sandbox off, ad-hoc text may read any.
        let is_unread = |source: &String| manifest.settings.sandboxable && !endpoint.tables.contains_key(source);
        let unread = given.into_iter().filter(is_unread).collect();
        Ok(Trial { service, endpoint, warnings, unknown, unread, folder })
    }

    /// A service with the logs of a scene, and with the sources that an endpoint names.
    async fn stage(&self, manifest: &Manifest, scene: Scene) -> Result<Stage, TrialError> {
        let folder = tempfile::Builder::new().prefix("tidegate-").tempdir()?;
        let options = Options { data_dir: folder.path().join("data"), ..self.options.clone() };
        let store = Store::open(&options.data_dir, options.store.clone())?;
        let tokens = Tokens::open(store.catalog(), &options)?;
        let service = Service::over(options, store, tokens, &self.engines, Clock::Frozen(scene.now)).await?;
        for (source, events) in scene.logs {
            fill(&service, source, events).await?;
        }
        let made =
            service.registrar.create_missing_sources(manifest, &BTreeMap::new()).await.map_err(TrialError::Refused)?;
        let mut unknown = Vec::new();
        for source in made {
            let events = (scene.others)(&source, scene.now);
            if events.is_empty() && !SOURCES.contains(&source.as_str()) {
                unknown.push(source.clone());
            }
            fill(&service, source, events).await?;
        }
        Ok(Stage { service, unknown, folder })
    }
}

/// A service with logs and without an endpoint.
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
        // A server takes such a log, and the time of its arrival for it. Here it is a mistake.
        if let Some(time) = event.get("timestamp").filter(|time| !time.is_null() && event_time(time).is_none()) {
            let reason = format!("its timestamp is {time}, which is no time such as \"2026-01-31T12:00:00Z\"");
            return Err(TrialError::Log { source_name: source, index, reason });
        }
    }
    service.store.ensure_source(&source)?;
    let told = service.ingest(&source, events).await?;
    match told.refused.into_iter().next() {
        Some(refused) => Err(TrialError::Log { source_name: source, index: refused.index, reason: refused.reason }),
        None => Ok(()),
    }
}

impl Trial {
    /// The endpoint's name.
    pub fn name(&self) -> &str {
        self.endpoint.manifest.name.as_str()
    }

    /// Sources that the endpoint names, that no logs were given for, and that a server does not have
    /// from its first start. Here they are empty.
    pub fn unknown_sources(&self) -> &[String] {
        &self.unknown
    }

    /// Sources that logs were given for and that the endpoint does not read.
    pub fn unread_sources(&self) -> &[String] {
        &self.unread
    }

    /// The sources that the endpoint reads.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.endpoint.tables.keys().map(String::as_str)
    }

    /// Parameters of a request that make no difference to the endpoint's answer.
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

    /// Columns that its statements name and that no log has had, and what else may not be meant as it
    /// was written.
    pub fn warnings(&self) -> &[Failure] {
        &self.warnings
    }

    /// Asks the endpoint, as somebody who may ask for anything.
    pub async fn ask(&self, ask: Ask) -> Outcome {
        let record = RunRecord::default();
        let answered = self.answer(ask, Arc::clone(&record)).await;
        let (status, body, truncated, notes) = match answered {
            Ok(encoded) => (200, json(&encoded.concat()), encoded.truncated, encoded.metadata.notes),
            Err(failure) => (failure.code.status(), document(&failure), false, BTreeMap::new()),
        };
        let none = RunReport::default();
        let RunReport { usage, ended: _ } = record.get().unwrap_or(&none);
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

    async fn answer(&self, ask: Ask, record: RunRecord) -> Result<Encoded, Failure> {
        let sent = SentParameters::of_object(ask.parameters)?;
        let redact = ask.redact.unwrap_or(self.endpoint.manifest.settings.redact_pii);
        let access = Access::to_all("the workbench");
        let reads = self.service.registry.load_reads(&self.service.store, &self.endpoint.tables)?;
        let request = check_request(
            &self.service.options.limits,
            Arc::clone(&self.endpoint),
            &reads,
            &access,
            sent,
            Format::Json,
            redact,
        )?;
        let tenant = request.tenant;
        let now = self.service.clock.now();
        Arc::clone(&self.service.executor).execute(Arc::new(request), now, tenant, record).await
    }

    /// What a request may use: the server's limits and the endpoint's own.
    fn limits(&self) -> Limits {
        let mut limits = self.service.options.limits.lowered_by(&self.endpoint.manifest.limits);
        let own = usize::try_from(self.endpoint.manifest.settings.max_limit).unwrap_or(usize::MAX);
        limits.rows = limits.rows.min(own);
        limits
    }

    /// Ends the trial and removes its folder.
    ///
    /// # Errors
    /// What cannot be closed or removed.
    pub async fn close(self) -> Result<(), TrialError> {
        let Self { service, unknown, folder, .. } = self;
        Stage { service, unknown, folder }.close().await
    }
}

/// The body as JSON; one that nests deeper than is read, as its text.
fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}
