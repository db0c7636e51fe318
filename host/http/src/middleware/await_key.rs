//! Waits for the key of the request's token, if its issuer is to be asked for it now: handlers look tokens up and never wait.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::auth::token_of;

/// Middleware for all routes.
pub(crate) async fn await_key(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Some(token) = token_of(request.headers()) {
        app.service.issuers.prepare(token, app.service.clock.now()).await;
    }
    next.run(request).await
}
