//! The routes of all doors.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri};
use axum::routing::post;
use tidegate_service::Service;

use super::door::Door;
use super::doors::{DOORS, questions};
use super::intake::access_of;
use super::json_door::Logs;
use super::otlp::Otlp;
use super::otlp_grpc::OtlpGrpc;
use super::otlp_signal::other_signal;
use super::receive::receive;
use crate::app::App;

/// The doors with a format of their own.
static OWN: [&dyn Door; 3] = [&Logs, &Otlp, &OtlpGrpc];

/// All doors.
pub(super) fn doors() -> impl Iterator<Item = &'static dyn Door> {
    OWN.iter().chain(DOORS).copied()
}

/// Whether a request shows a valid token, in a place where any route or any door takes it.
pub(crate) fn shows_token(service: &Service, headers: &HeaderMap, uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default().as_bytes();
    let in_query = form_urlencoded::parse(query).filter(|(name, _)| name == "api_key").last().map(|(_, key)| key);
    let shows = |keys| access_of(service, headers, in_query.as_deref(), keys).is_ok();
    // Each protocol by itself, because one that looks at the places of another might find something else there.
    shows(&[]) || doors().map(Door::keys).filter(|keys| !keys.is_empty()).any(shows)
}

/// Adds the routes at which events come in.
pub(crate) fn add_routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    let routes = doors().flat_map(|door| door.paths().iter().map(move |path| (door, *path)));
    questions(routes.fold(router, |router, (door, path)| {
        let handler = move |State(app): State<Arc<App>>, request: Request| receive(app, door, request);
        router.route(path, if door.takes_put() { post(handler).put(handler) } else { post(handler) })
    }))
    .route("/v1/traces", post(other_signal))
    .route("/v1/metrics", post(other_signal))
}
