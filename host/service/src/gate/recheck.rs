//! The check of all endpoints after a start.
//!
//! The endpoints of the catalog passed the gate when they were saved, and are served from the first moment. But this
//! program may have changed since: its limits, its dialect, its engine. So each endpoint is checked again in the
//! background, with pauses as long as the checks, and its code is compiled again where the compiled form does not fit any
//! more. An endpoint that would be refused now is reported in `/ready`, in the list of endpoints and in the log; the
//! others do not wait for it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use tidegate_compiler::is_generated_code;
use tidegate_model::{Code, Failure};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Gate, manifest_findings};
use crate::catalog::EndpointEntry;
use crate::compute::Compute;
use crate::endpoints::Endpoints;
use crate::failures::refused;
use crate::inspection::{ComponentCode, inspect};
use crate::registry::CheckResult;
use crate::save_request::SaveRequest;
use crate::tables::StoredTables;

/// The check, while it runs.
#[derive(Debug)]
pub(crate) struct Recheck {
    /// The task holds no more than a weak pointer to it, so that it ends with the service.
    checker: Arc<Checker>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Recheck {
    pub(crate) fn new(checker: Checker) -> Self {
        Self { checker: Arc::new(checker), stop: CancellationToken::new(), task: Mutex::default() }
    }

    /// Begins to check all endpoints that are registered now.
    pub(crate) fn start(&self) {
        let entries = self.checker.endpoints.registry().all();
        let task = tokio::spawn(check_all(Arc::downgrade(&self.checker), entries, self.stop.clone()));
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Stops the check, at the latest after the current endpoint, so that a service that is closed does not read its
    /// catalog any more.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the check of the endpoints broke off");
        }
    }
}

async fn check_all(checker: Weak<Checker>, entries: Vec<Arc<EndpointEntry>>, stop: CancellationToken) {
    let mut codes = Codes::since(SystemTime::now());
    for entry in entries {
        let Some(checker) = checker.upgrade().filter(|_| !stop.is_cancelled()) else { return };
        let began = Instant::now();
        let result = match checker.check(&entry, &mut codes, &stop).await {
            Ok(warnings) => Some(CheckResult { version: entry.version, broken: None, warnings }),
            // A check that is not possible now is no fault of the endpoint: its callers will see.
            Err(failure) if failure.code.status() >= 500 => {
                tracing::warn!(endpoint = entry.name, %failure, "the endpoint cannot be checked now");
                codes.all_seen = false;
                None
            }
            Err(failure) => {
                tracing::error!(endpoint = entry.name, %failure, "the endpoint cannot be used");
                Some(CheckResult { version: entry.version, broken: Some(failure), warnings: Vec::new() })
            }
        };
        checker.endpoints.registry().checked(entry.id, result);
        drop(checker);
        stop.run_until_cancelled(tokio::time::sleep(began.elapsed())).await;
    }
    if let Some(checker) = checker.upgrade().filter(|_| !stop.is_cancelled()) {
        codes.sweep(checker).await;
    }
}

/// What the check needs; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Checker {
    pub(crate) gate: Gate,
    pub(crate) endpoints: Endpoints,
    pub(crate) compute: Arc<Compute>,
}

impl Checker {
    /// Checks one endpoint. Returns the warnings that it would get if it were saved now.
    async fn check(
        &self,
        entry: &Arc<EndpointEntry>,
        codes: &mut Codes,
        stop: &CancellationToken,
    ) -> Result<Vec<Failure>, Failure> {
        let (own, entry) = (self.clone(), Arc::clone(entry));
        // On the compute threads, because plans may be deep.
        let work = async move { own.check_definition(&entry) };
        let (mut warnings, ComponentCode { bytes, digest }) = self.compute.run(work).await?;
        codes.live.insert(digest);
        if !is_generated_code(&digest) && !codes.compiled.contains(&digest) {
            // Compiling may take long; a service that stops does not wait for it.
            let compiling = self.endpoints.runtime().check(&bytes, digest);
            let Some(checked) = stop.run_until_cancelled(compiling).await else {
                return Err(Failure::new(Code::Overloaded, "the server is shutting down"));
            };
            match checked {
                Ok(()) => drop(codes.compiled.insert(digest)),
                // A compiler that was killed or took too long may succeed when the endpoint is called.
                Err(error) => warnings.push(error.into()),
            }
        }
        Ok(warnings)
    }

    fn check_definition(&self, entry: &EndpointEntry) -> Result<(Vec<Failure>, ComponentCode), Failure> {
        let (store, registry) = (self.endpoints.store(), self.endpoints.registry());
        let component = self.endpoints.stored_component(&entry.component)?;
        let inspection = inspect(&component)?;
        let endpoint = registry.peek(store, entry)?;
        if endpoint.manifest.name != inspection.manifest.name {
            return Err(refused("its component is that of another endpoint".to_owned()));
        }
        let of_saving = manifest_findings(&endpoint.manifest).allow_use()?;
        let saved = endpoint.saved()?;
        self.gate.prepare_sources(saved, &entry.tables);
        let (id, known) = (Some(entry.id), entry.tables.clone());
        let request = SaveRequest { id, known, same_query: true, ..SaveRequest::default() };
        let (name, tells_rows) = (endpoint.manifest.name.as_str(), self.gate.clock.is_real());
        let sources = StoredTables::while_saving(store, registry, &request, name, saved, tells_rows);
        let check =
            |tables: &StoredTables<'_>| self.gate.statement_findings(&endpoint.manifest, saved, tables).into_warnings();
        let mut warnings = match check(&sources) {
            // A failure that comes from the logs that are stored now is a warning: other logs will be stored.
            Err(failure) => match check(&sources.without_logs()) {
                Ok(_) => vec![failure],
                Err(_) => return Err(failure),
            },
            Ok(warnings) => warnings,
        };
        warnings.extend(of_saving);
        Ok((warnings, ComponentCode::of(&component)?))
    }
}

/// The code of the endpoints, by digest.
struct Codes {
    began: SystemTime,
    live: HashSet<[u8; 32]>,
    /// Code that compiles.
    compiled: HashSet<[u8; 32]>,
    /// Whether the code of every endpoint so far is known.
    all_seen: bool,
}

impl Codes {
    fn since(began: SystemTime) -> Self {
        Self { began, live: HashSet::new(), compiled: HashSet::new(), all_seen: true }
    }

    /// Removes compiled code that no endpoint needs. Code of earlier versions is compiled again when somebody restores
    /// them.
    async fn sweep(mut self, checker: Arc<Checker>) {
        if !self.all_seen {
            return;
        }
        self.live.insert(checker.endpoints.registry().adhoc_code);
        let sweep = move || checker.endpoints.runtime().sweep(&self.live, self.began);
        match tokio::task::spawn_blocking(sweep).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "compiled code that no endpoint needs any more was removed"),
            Err(error) => tracing::error!(%error, "compiled code could not be swept"),
        }
    }
}
