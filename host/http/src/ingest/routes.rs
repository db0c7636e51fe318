//! The routes of all doors.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::post;

use super::door::Door;
use super::doors::{DOORS, questions};
use super::json_door::Logs;
use super::otlp::Otlp;
use super::otlp_grpc::OtlpGrpc;
use super::receive::receive;
use crate::app::App;

/// The doors with a format of their own.
static OWN: [&dyn Door; 3] = [&Logs, &Otlp, &OtlpGrpc];

/// All doors.
pub(super) fn doors() -> impl Iterator<Item = &'static dyn Door> {
    OWN.iter().chain(DOORS).copied()
}

/// Adds the routes at which events come in.
pub(crate) fn add_routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    let routes = doors().flat_map(|door| door.paths().iter().map(move |path| (door, *path)));
    questions(routes.fold(router, |router, (door, path)| {
        let handler = move |State(app): State<Arc<App>>, request: Request| receive(app, door, request);
        router.route(path, if door.takes_put() { post(handler).put(handler) } else { post(handler) })
    }))
}
