//! The check of all endpoints after the start.
//!
//! The endpoints of the catalog came through the gate when they were saved, and are served from the
//! first moment. But the server may be another one since: its limits, its dialect, its engine. So
//! each is looked at again in the background, at half a processor's pace, and its compiled code is
//! made anew where it does not fit any more. One that would be refused now is told of in `/ready`,
//! in the list and in the log; the others are not held up by it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use tidegate_compiler::{inspect, is_generated_code};
use tidegate_model::{Code, Failure};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admit::{Saving, code, refused};
use crate::app::App;
use crate::registry::{Entry, Found};
use crate::tables::StoredTables;

/// The check, while it runs.
#[derive(Debug, Default)]
pub(crate) struct Recheck {
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Recheck {
    /// Begins to check all endpoints that are there now.
    pub(crate) fn start(&self, app: &Arc<App>) {
        let task = tokio::spawn(all(Arc::downgrade(app), app.registry.all(), self.stop.clone()));
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Ends it, at the latest behind the endpoint that is being checked: a service that is closed
    /// leaves nothing behind that still reads its catalog.
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

async fn all(app: Weak<App>, entries: Vec<Arc<Entry>>, stop: CancellationToken) {
    let mut codes = Codes::since(SystemTime::now());
    for entry in entries {
        let Some(app) = app.upgrade().filter(|_| !stop.is_cancelled()) else { return };
        let began = Instant::now();
        let found = match one(&app, &entry, &mut codes, &stop).await {
            Ok(warnings) => Some(Found { version: entry.version, broken: None, warnings }),
            // What cannot be told now is no fault of the endpoint: its callers will find out.
            Err(failure) if failure.code.status() >= 500 => {
                tracing::warn!(endpoint = entry.name, %failure, "the endpoint cannot be checked now");
                codes.all_seen = false;
                None
            }
            Err(failure) => {
                tracing::error!(endpoint = entry.name, %failure, "the endpoint cannot be used");
                Some(Found { version: entry.version, broken: Some(failure), warnings: Vec::new() })
            }
        };
        app.registry.checked(entry.id, found);
        drop(app);
        stop.run_until_cancelled(tokio::time::sleep(began.elapsed())).await;
    }
    if let Some(app) = app.upgrade().filter(|_| !stop.is_cancelled()) {
        codes.sweep(app).await;
    }
}

/// The code of the endpoints, by digest.
struct Codes {
    began: SystemTime,
    live: HashSet<[u8; 32]>,
    /// Found to compile.
    compiled: HashSet<[u8; 32]>,
    /// Whether that of each endpoint is known, so far.
    all_seen: bool,
}

impl Codes {
    fn since(began: SystemTime) -> Self {
        Self { began, live: HashSet::new(), compiled: HashSet::new(), all_seen: true }
    }

    /// Removes what was compiled for endpoints that are gone. What an earlier version of one needs is
    /// compiled again if anyone goes back to it.
    async fn sweep(mut self, app: Arc<App>) {
        if !self.all_seen {
            return;
        }
        self.live.insert(app.registry.adhoc_code);
        let sweep = move || app.runtime.sweep(&self.live, self.began);
        match tokio::task::spawn_blocking(sweep).await {
            Ok(0) => {}
            Ok(files) => tracing::info!(files, "compiled code that no endpoint needs any more was removed"),
            Err(error) => tracing::error!(%error, "compiled code could not be swept"),
        }
    }
}

/// Checks one endpoint; what it would be warned of when it was saved now.
async fn one(
    app: &Arc<App>,
    entry: &Arc<Entry>,
    codes: &mut Codes,
    stop: &CancellationToken,
) -> Result<Vec<Failure>, Failure> {
    let (this, entry) = (Arc::clone(app), Arc::clone(entry));
    let work = async move {
        let component = this.stored_component(&entry.component)?;
        let inspection = inspect(&component).map_err(|error| refused(error.to_string()))?;
        let endpoint = this.registry.peek(&this.store, &entry)?;
        if endpoint.manifest.name != inspection.manifest.name {
            return Err(refused("its component is that of another endpoint".to_owned()));
        }
        let problems = endpoint.manifest.problems();
        let (passing, lasting): (Vec<_>, Vec<_>) = problems.iter().partition(|problem| problem.is_of_saving());
        if let Some(failure) = Failure::of_all(lasting.into_iter().map(crate::manage::of_manifest)) {
            return Err(failure);
        }
        let saved = endpoint.saved()?;
        this.reserve_fields(saved, &entry.tables);
        let (id, known) = (Some(entry.id), entry.tables.clone());
        let saving = Saving { id, known, same_query: true, ..Saving::default() };
        let sources = StoredTables::while_saving(&this, &saving, endpoint.manifest.name.as_str(), saved);
        let checked = this.check_statements(&endpoint.manifest, saved, &sources);
        let mut warnings = match checked {
            // What logs have made of a query is told and no more: other logs will come, others go.
            Err(failure) => match this.check_statements(&endpoint.manifest, saved, &sources.without_logs()) {
                Ok(_) => vec![failure],
                Err(_) => return Err(failure),
            },
            Ok(warnings) => warnings,
        };
        warnings.extend(passing.into_iter().map(crate::manage::of_manifest));
        Ok((warnings, code(&component)?))
    };
    // Planning may be deep, and is done where requests compute.
    let (mut warnings, (digest, code)) = app.compute.run(work).await?;
    codes.live.insert(digest);
    if !is_generated_code(&digest) && !codes.compiled.contains(&digest) {
        // Compiling may take long, and is not waited for by a service that stops.
        let Some(checked) = stop.run_until_cancelled(app.runtime.check(&code, digest)).await else {
            return Err(Failure::new(Code::Overloaded, "the server is shutting down"));
        };
        match checked {
            Ok(()) => drop(codes.compiled.insert(digest)),
            // A compiler that was killed or took too long may do better when the endpoint is called.
            Err(error) => warnings.push(error.into()),
        }
    }
    Ok(warnings)
}
