//! `GET /metrics`.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;

use crate::app::App;

/// `GET /metrics`.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    app.metrics.measure(&app.service, &app.bodies);
    let mut text = String::new();
    if encode(&mut text, &app.metrics.registry).is_err() {
        let _ = writeln!(text, "# the rest could not be written");
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], text).into_response()
}
