//! The routes of a connection in each phase of a service: opening, open, full, stopping.
//!
//! Probes are answered in every phase. A service whose data cannot be opened must still be healthy for its
//! orchestrator, and report the problem when it is asked. A service that is full must answer probes, or the
//! orchestrator would restart it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidegate_doors::shows_token;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::app::App;
use crate::failure::Refusal;
use crate::ready::{Problem, health, not_ready, ready};

/// How long a request waits for the service to open.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of a service as connections see it, from the start of the process: opening, failed to open, or open.
#[derive(Debug)]
pub struct Startup {
    open: OnceLock<(Arc<App>, Router)>,
    closed: OnceLock<Router>,
    problem: RwLock<Problem>,
    /// Whether an attempt to open the service has failed.
    failed: AtomicBool,
    /// Notified when the service is opened, or opening has failed.
    changed: Notify,
}

impl Startup {
    /// A service that is opening: `/health` is answered, and `/ready` says that the service is starting.
    pub fn new() -> Arc<Self> {
        let problem = RwLock::new(Problem::new("starting", "the server is starting"));
        let startup = Arc::new(Self {
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
            // A weak pointer, because the router is stored in the value itself.
            .with_state(Arc::downgrade(&startup));
        let _ = startup.closed.set(router);
        startup
    }

    /// A service that is open already.
    pub fn opened(service: Arc<Service>) -> Arc<Self> {
        let startup = Self::new();
        startup.open(service);
        startup
    }

    /// Serves the service from now on. Only the first call has an effect.
    pub fn open(&self, service: Arc<Service>) {
        let app = App::new(service);
        let router = crate::routes::router(Arc::clone(&app));
        let _ = self.open.set((app, router));
        self.changed.notify_waiters();
    }

    /// Records why the service does not open. `message` is shown to anyone who requests `/ready`.
    pub fn fail(&self, message: &str) {
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = Problem::new("start", message);
        self.failed.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Whether the service is open.
    pub fn is_open(&self) -> bool {
        self.open.get().is_some()
    }

    /// Has `GET /ready` say that the service ends, while everything is served as before. Whether the service is open.
    pub fn drain(&self) -> bool {
        self.app().inspect(|app| app.draining.store(true, Ordering::Release)).is_some()
    }

    /// The service, if it is open.
    pub(crate) fn app(&self) -> Option<&Arc<App>> {
        self.open.get().map(|(app, _)| app)
    }

    /// The service, when it is open.
    pub(crate) async fn until_open(&self) -> Arc<App> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(app) = self.app() {
                return Arc::clone(app);
            }
            changed.await;
        }
    }

    /// The routes for a connection's next request.
    pub(crate) fn router(&self) -> Option<Router> {
        self.open.get().map(|(_, router)| router).or(self.closed.get()).cloned()
    }

    fn problem(&self) -> Problem {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn starting(State(startup): State<std::sync::Weak<Startup>>) -> Response {
    let problem = startup.upgrade().map(|startup| startup.problem());
    not_ready(&problem.into_iter().collect::<Vec<_>>())
}

/// Handles all other requests while the service is not open. Opening takes a fraction of a second, so a client that
/// checks `/health` and then sends a request at once waits for it, unless opening has failed.
async fn not_open(State(startup): State<std::sync::Weak<Startup>>, request: Request) -> Response {
    let opened = async {
        loop {
            let startup = startup.upgrade()?;
            // Registered before the state is checked, so that a change in between is not missed.
            let mut changed = std::pin::pin!(startup.changed.notified());
            changed.as_mut().enable();
            if let Some((_, router)) = startup.open.get() {
                return Some(router.clone());
            }
            if startup.failed.load(Ordering::Relaxed) {
                return None;
            }
            changed.await;
        }
    };
    match tokio::time::timeout(OPENING_TIMEOUT, opened).await {
        Ok(Some(router)) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        _ => {
            let message = "the server is not open yet; GET /ready says why";
            Refusal(Failure::new(Code::Overloaded, message)).into_response()
        }
    }
}

/// The routes of a connection over the limit: `/health` is answered, and all other requests are told to try again
/// later.
pub(crate) fn overfull() -> Router {
    let fallback = async || not_now("the server has as many connections as it can serve; try again later");
    Router::new().route("/health", get(health)).fallback(fallback)
}

/// The routes of a connection beyond those that its address may have without a token: `/health` is answered, and
/// requests with a valid token are served.
pub(crate) fn crowded(startup: &Arc<Startup>) -> Router {
    Router::new().route("/health", get(health)).fallback(known_only).with_state(Arc::downgrade(startup))
}

async fn known_only(State(startup): State<std::sync::Weak<Startup>>, request: Request) -> Response {
    let open = startup.upgrade().and_then(|startup| startup.open.get().cloned());
    if let Some((app, router)) = open
        && shows_token(&*app, request.headers(), request.uri())
    {
        return router.oneshot(request).await.unwrap_or_else(|never| match never {});
    }
    not_now(
        "there are too many connections without an access token from this address; send a token, or try again later",
    )
}

/// The routes of a connection that is accepted after the shutdown has begun.
pub(crate) fn leaving(app: Arc<App>) -> Router {
    let fallback = async || not_now("the server is shutting down; try again later");
    Router::new().route("/health", get(health)).route("/ready", get(ready)).fallback(fallback).with_state(app)
}

fn not_now(message: &str) -> Response {
    let mut response = Refusal(Failure::new(Code::Overloaded, message)).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
