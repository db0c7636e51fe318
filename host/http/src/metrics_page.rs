//! `GET /metrics`.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use tidegate_model::{Code, Failure};

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::metrics::cluster;
use crate::ready;

/// Measures, and writes all metrics. Blocks the thread.
fn text(app: &App, names_workers: bool) -> String {
    app.metrics.measure(&app.service, &app.bodies, ready::is_ready(app));
    let mut text = String::new();
    let written = encode_registry(&mut text, &app.metrics.registry)
        .and_then(|()| encode_registry(&mut text, &cluster::measured(&app.service, names_workers)))
        .and_then(|()| encode_eof(&mut text));
    if written.is_err() {
        let _ = writeln!(text, "# the rest could not be written");
    }
    text
}

/// `GET /metrics`. It needs no token. One that is sent is noted, so that the answer counts in the memory of the token and
/// callers without one do not stand in its way; a private one is told of each worker by its address.
pub(crate) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let names_workers = authenticate(&app.service, &headers).is_ok_and(|access| access.is_private());
    // The catalog and the file system may be slow, so it is measured on a blocking thread.
    let text = match tokio::task::spawn_blocking(move || text(&app, names_workers)).await {
        Ok(text) => text,
        Err(error) => {
            tracing::error!(%error, "measuring broke off");
            let message = "the metrics could not be measured; the server's log has the details";
            return Refusal(Failure::new(Code::Internal, message)).into_response();
        }
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], text).into_response()
}
