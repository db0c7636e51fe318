//! What stands at the port from the first moment: health at once, the service when it is open.
//!
//! A service whose data cannot be opened must still be healthy for the stack around it, and say
//! what is wrong when asked; one that is full must still answer the probes that would otherwise
//! restart it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidegate_model::{Code, Failure};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::ready::{Problem, health, not_ready, ready};

/// How long a request waits for the service to open.
const OPENING: Duration = Duration::from_secs(10);

/// The way into a service.
#[derive(Debug)]
pub struct Door {
    open: OnceLock<(Arc<App>, Router)>,
    closed: OnceLock<Router>,
    problem: RwLock<Problem>,
    /// It could not be opened so far.
    failed: AtomicBool,
    /// It was opened, or could not be.
    changed: Notify,
}

impl Door {
    /// A closed door: `/health` is answered, `/ready` says that the service is starting.
    pub fn new() -> Arc<Self> {
        let problem = RwLock::new(Problem::new("starting", "the server is starting"));
        let door = Arc::new(Self {
            open: OnceLock::new(),
            closed: OnceLock::new(),
            problem,
            failed: AtomicBool::new(false),
            changed: Notify::new(),
        });
        let router = Router::new()
            .route("/health", get(health))
            .route("/ready", get(starting))
            .fallback(not_open)
            // A closed door holds the problem, not the door itself: no cycle.
            .with_state(Arc::downgrade(&door));
        let _ = door.closed.set(router);
        door
    }

    /// A door to a service that is open already.
    pub fn to(app: Arc<App>) -> Arc<Self> {
        let door = Self::new();
        door.open(app);
        door
    }

    /// Opens it, once.
    pub fn open(&self, app: Arc<App>) {
        let router = crate::routes::router(Arc::clone(&app));
        let _ = self.open.set((app, router));
        self.changed.notify_waiters();
    }

    /// Says why it does not open, in words that anyone may read.
    pub fn fail(&self, message: &str) {
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = Problem::new("start", message);
        self.failed.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// The service, if it is open.
    pub(crate) fn app(&self) -> Option<&Arc<App>> {
        self.open.get().map(|(app, _)| app)
    }

    /// The routes for a connection's next request.
    pub(crate) fn router(&self) -> Option<Router> {
        self.open.get().map(|(_, router)| router).or(self.closed.get()).cloned()
    }

    fn problem(&self) -> Problem {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn starting(State(door): State<std::sync::Weak<Door>>) -> Response {
    let problem = door.upgrade().map(|door| door.problem());
    not_ready(&problem.into_iter().collect::<Vec<_>>())
}

/// Opening takes a part of a second. Whoever asks for health and then sends at once is let wait for it,
/// but not for what cannot be opened.
async fn not_open(State(door): State<std::sync::Weak<Door>>, request: Request) -> Response {
    let opened = async {
        loop {
            let door = door.upgrade()?;
            // Asked for before it is looked at, so that an opening in between is not missed.
            let mut changed = std::pin::pin!(door.changed.notified());
            changed.as_mut().enable();
            if let Some((_, router)) = door.open.get() {
                return Some(router.clone());
            }
            if door.failed.load(Ordering::Relaxed) {
                return None;
            }
            changed.await;
        }
    };
    match tokio::time::timeout(OPENING, opened).await {
        Ok(Some(router)) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        _ => {
            let message = "the server is not open yet; GET /ready says why";
            Refusal(Failure::new(Code::Overloaded, message)).into_response()
        }
    }
}

/// The routes of a connection over the limit: probes are answered, the rest is told to come again.
pub(crate) fn overfull() -> Router {
    let fallback = async || not_now("the server has as many connections as it can serve; try again later");
    Router::new().route("/health", get(health)).fallback(fallback)
}

/// The routes of a connection beyond those that its address may have without a token: probes are answered, and whoever
/// shows a valid token is served.
pub(crate) fn crowded(door: &Arc<Door>) -> Router {
    Router::new().route("/health", get(health)).fallback(known_only).with_state(Arc::downgrade(door))
}

async fn known_only(State(door): State<std::sync::Weak<Door>>, request: Request) -> Response {
    let open = door.upgrade().and_then(|door| door.open.get().cloned());
    if let Some((app, router)) = open
        && authenticate(&app, request.headers(), app.clock.now()).is_ok()
    {
        return router.oneshot(request).await.unwrap_or_else(|never| match never {});
    }
    not_now(
        "there are too many connections without an access token from this address; send a token, or try again later",
    )
}

/// The routes of a connection that comes after a stop was asked for.
pub(crate) fn leaving(app: Arc<App>) -> Router {
    let fallback = async || not_now("the server is shutting down; try again later");
    Router::new().route("/health", get(health)).route("/ready", get(ready)).fallback(fallback).with_state(app)
}

fn not_now(message: &str) -> Response {
    let mut response = Refusal(Failure::new(Code::Overloaded, message)).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
