//! Errors of queries with status 200, for clients that read the text of an error only from answers that succeeded.
//!
//! Some log viewers have a server between the page and Tidegate that replaces every error status with one of its own and
//! drops the text. Where the server, the endpoint or the token says `errors = "ok"`, an error becomes
//! `{"result": null, "error": "text"}` with status 200. The true status is in a header, and it is what the log, the
//! metrics and the traces count. This is the last step of a refusal; how the request wants its errors was noted before
//! ([`crate::request_context`]).
//!
//! Only JSON has a place for an error beside the rows. In the other formats an error would be read as rows, so there it
//! keeps its status.

use std::sync::Arc;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidegate_model::Errors;
use tidegate_service::answer::Format;

use crate::accept::format_of_head;
use crate::app::App;
use crate::failure::ErrorText;
use crate::request_context::chosen;

/// The routes of queries.
pub(crate) const QUERY: &str = "/api/endpoints/query/{endpoint}";
pub(crate) const QUERY_IN_SHORT: &str = "/endpoints/query/{endpoint}";

/// The header with the status that an error would have.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("x-tidegate-status");

/// The real status of a response that is sent with another status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueStatus(pub(crate) StatusCode);

/// Middleware for all routes: sends errors of queries with the status that was chosen for them.
pub(crate) async fn choose_status(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if !matches!(route, Some(QUERY | QUERY_IN_SHORT)) {
        return next.run(request).await;
    }
    let asked = format_of_head(request.uri(), request.headers());
    let response = next.run(request).await;
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    let (errors, format) = chosen();
    match (errors.unwrap_or(app.service.options.server.errors), format.unwrap_or(asked)) {
        (Errors::Ok, Format::Json) => succeeded(response),
        (Errors::Status, _) | (_, Format::NdJson | Format::Csv | Format::Arrow) => response,
    }
}

/// Converts an error to a response with status 200.
fn succeeded(refused: Response) -> Response {
    let (mut head, _) = refused.into_parts();
    let status = std::mem::replace(&mut head.status, StatusCode::OK);
    let plain = || status.canonical_reason().unwrap_or("the request failed").to_owned();
    let text = head.extensions.get::<ErrorText>().map_or_else(plain, |text| text.0.clone());
    // These headers describe the old body.
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
        head.headers.remove(name);
    }
    let (form, body) = Json(json!({"result": null, "error": text})).into_response().into_parts();
    head.headers.extend(form.headers);
    head.headers.insert(STATUS, HeaderValue::from(status.as_u16()));
    // With this status, a cache between server and client might store the error.
    head.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    head.extensions.insert(TrueStatus(status));
    Response::from_parts(head, body)
}
