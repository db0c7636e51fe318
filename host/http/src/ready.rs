//! Health and readiness: the routes for probes.
//!
//! `/health` says only that the process answers, whatever is wrong: containers that wait for a healthy one must not
//! hang because a disk is full. `/ready` says what is wrong, without names or paths, because it needs no token; names
//! and paths are in the log, and addresses of workers are told to private tokens. Stored logs that cannot be read do not make the service unready, because all others can be
//! read: the status is then `degraded`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidegate_store::StoreStats;
use tidegate_workers::WorkerView;

use crate::app::App;
use crate::auth::authenticate;

/// The free space below which the disk counts as full, in bytes: a write-ahead log and a segment must still fit.
const LEAST_FREE: u64 = 64 << 20;

/// From this on it is told that the copy of the catalog is behind, in seconds. A large one takes some time.
const LONG_BEHIND: u64 = 60;

/// A problem that the service reports to probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    what: &'static str,
    message: String,
}

impl Problem {
    pub(crate) fn new(what: &'static str, message: impl Into<String>) -> Self {
        Self { what, message: message.into() }
    }

    fn json(&self) -> Value {
        json!({"what": self.what, "message": self.message})
    }
}

/// The answer of a service that is not ready.
pub(crate) fn not_ready(problems: &[Problem]) -> Response {
    let problems: Vec<Value> = problems.iter().map(Problem::json).collect();
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not_ready", "problems": problems}))).into_response()
}

/// `GET /health`.
pub(crate) async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// `GET /ready`.
pub(crate) async fn ready(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    // The catalog and the file system may be slow, so the checks run on a blocking thread.
    let shared = Arc::clone(&app);
    let problems = tokio::task::spawn_blocking(move || problems(&shared)).await;
    let problems = problems.unwrap_or_else(|_| vec![Problem::new("internal", "the checks broke off")]);
    if !problems.is_empty() {
        return not_ready(&problems);
    }
    let (running, places, waiting) = app.service.executor.admission().numbers();
    let mut warnings = Vec::new();
    let (unusable, unchecked) = app.service.registry.unusable();
    match unusable {
        0 => {}
        n => warnings.push(
            Problem::new(
                "endpoints",
                format!("{n} of the saved endpoints cannot be used; the server's log has the reasons"),
            )
            .json(),
        ),
    }
    let stats = app.service.store.stats();
    warnings.extend(copy_behind(&stats).iter().map(Problem::json));
    warnings.extend(retention(&stats).iter().map(Problem::json));
    let damage = damage(&stats);
    let issuers = issuers(app.service.issuers.failing());
    let status = if damage.is_empty() && issuers.is_none() { "ok" } else { "degraded" };
    warnings.extend(damage.iter().chain(&issuers).map(Problem::json));
    let mut body = json!({
        "status": status,
        "running": running,
        "places": places,
        "waiting": waiting,
        "unchecked_endpoints": unchecked,
        "warnings": warnings,
    });
    if let (Some(workers), Some(body)) = (&app.service.workers, body.as_object_mut()) {
        let names = authenticate(&app.service, &headers).is_ok_and(|access| access.is_private());
        body.insert("workers".to_owned(), workers.views().iter().map(|view| worker(view, names)).collect());
    }
    Json(body).into_response()
}

/// A worker, by its address and with the reason if it is `named`. One that is not used does not make the service unready:
/// statements run without it.
fn worker(view: &WorkerView, named: bool) -> Value {
    let used = view.unusable.is_none();
    if named {
        json!({"name": view.name.as_ref(), "used": used, "reason": view.unusable})
    } else {
        json!({"used": used})
    }
}

/// What a recovery from the object store would miss for long. Events are safe on the disk of the server meanwhile.
fn copy_behind(stats: &StoreStats) -> Option<Problem> {
    let seconds = stats.catalog_copy_behind_seconds;
    (seconds >= LONG_BEHIND).then(|| {
        let message = format!(
            "the copy of the catalog in the object store is {seconds} seconds behind; if the disk were lost now, what was \
             written since would be, too; the server's log has the reason"
        );
        Problem::new("catalog_copy", message)
    })
}

/// What retention waits for the operator's word with. Nothing is lost meanwhile.
fn retention(stats: &StoreStats) -> Vec<Problem> {
    let mut found = Vec::new();
    if stats.clock_ahead_seconds > 0 {
        let seconds = stats.clock_ahead_seconds;
        let message = format!(
            "the clock is {seconds} seconds ahead of what is plausible, so that logs do not grow older by that; tidegate retention \
             tells what to do when it is right"
        );
        found.push(Problem::new("clock", message));
    }
    if stats.expired_rows_waiting > 0 {
        let rows = stats.expired_rows_waiting;
        let message = format!(
            "{rows} events are too old and wait, because retention drops at most half of a source at once; tidegate \
             retention lists the sources"
        );
        found.push(Problem::new("retention", message));
    }
    found
}

/// Issuers whose keys cannot be read. Tokens that the known keys fit are good for a day, so the service stays ready.
fn issuers((all, failing): (usize, usize)) -> Option<Problem> {
    (failing > 0).then(|| {
        let message = format!(
            "the keys of {failing} of {all} issuers cannot be read; those from before are used for a day at most, and the \
             server's log has the reason"
        );
        Problem::new("issuers", message)
    })
}

/// The damage to the stored logs. All other logs are served, so the service stays ready and says that it is degraded.
fn damage(stats: &StoreStats) -> Vec<Problem> {
    let mut found = Vec::new();
    if stats.damaged_segments > 0 {
        let (segments, rows) = (stats.damaged_segments, stats.damaged_rows);
        found.push(Problem::new(
            "damage",
            format!(
                "{segments} segments with {rows} events are damaged or missing, and queries that need them fail; \
                 tidegate verify lists them, tidegate repair sets them aside"
            ),
        ));
    }
    if stats.set_aside_segments > 0 {
        let (segments, rows) = (stats.set_aside_segments, stats.set_aside_rows);
        found.push(Problem::new(
            "quarantine",
            format!(
                "{segments} segments with {rows} events are set aside, and queries do not see them; \
                 tidegate verify lists them, tidegate repair takes back what is whole"
            ),
        ));
    }
    if stats.log_is_cut {
        let message = "the start found the catalog's write-ahead file truncated or missing: what was acknowledged last and was in no \
                       segment yet is lost; the server's log has more";
        found.push(Problem::new("catalog_log", message));
    }
    if stats.lost_transactions > 0 {
        let events = match stats.lost_events {
            Some(events) => format!("{events} events that were in no segment yet"),
            None => "an unknown number of events".to_owned(),
        };
        let lost = match stats.lost_transactions {
            1 => format!(
                "its last transaction, with {events}, is dropped; nothing acknowledged is lost if a power cut had \
                 interrupted it"
            ),
            n => format!("{n} transactions, with {events}, are lost"),
        };
        let message =
            format!("the start found the catalog's write-ahead file damaged: {lost}; the server's log has more");
        found.push(Problem::new("catalog_log", message));
    }
    found
}

/// Whether `GET /ready` is 200. Blocks the thread.
pub(crate) fn is_ready(app: &App) -> bool {
    problems(app).is_empty()
}

fn problems(app: &App) -> Vec<Problem> {
    let mut problems = Vec::new();
    if app.draining.load(Ordering::Acquire) {
        problems.push(Problem::new("draining", "the server is shutting down"));
    }
    if !app.service.can_read_catalog() {
        problems.push(Problem::new("catalog", "the catalog cannot be read; the server's log has the details"));
    }
    let stats = app.service.store.stats();
    if stats.read_only {
        let message = "nothing can be stored, because a write failed; it is tried every 2 seconds, reads go on, and the \
                       server's log has the details";
        problems.push(Problem::new("store", message));
    }
    if stats.objects_replaced {
        let message = "another server was recovered from the object store and has taken over; no events are taken in here, \
                       reads go on, and the server's log has more";
        problems.push(Problem::new("replaced", message));
    }
    if stats.objects_failing && !stats.objects_replaced {
        let message = "segments cannot be put into the object store; new events stay in memory and in the write-ahead log \
                       until they can, reads go on, and the server's log has the reason";
        problems.push(Problem::new("objects", message));
    }
    if stats.checkpoint_failing {
        let message = "the write-ahead log cannot be moved into the catalog, and grows until it can; the server's log \
                       has the details";
        problems.push(Problem::new("checkpoint", message));
    }
    match rustix::fs::statvfs(&app.service.options.data_dir) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST_FREE => {
            problems.push(Problem::new("disk", "the disk is nearly full: less than 64 MiB are free"));
        }
        Ok(_) => {}
        Err(error) => {
            tracing::error!(%error, "the data folder cannot be read");
            problems.push(Problem::new("disk", "the data folder cannot be read; the server's log has the details"));
        }
    }
    problems
}
