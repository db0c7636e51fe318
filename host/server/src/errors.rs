//! Errors of queries with status 200, for clients that read what is wrong only from answers that succeeded.
//!
//! Some log viewers have a server of their own between the page and this one, which makes of any error status
//! one of its own and drops the text. Where the server, the endpoint or the token says `errors = "ok"`, an error
//! becomes `{"result": null, "error": "text"}` with status 200. The true status stands in a header, and is what
//! the log, the metrics and the traces count. This is done last, to whatever refused the request; what is known
//! of the request by then has been noted on the way ([`observe::note`]).
//!
//! Only answers in JSON have a place for an error beside the rows. In the other formats it would be read as
//! rows, so there an error keeps its status.

use std::sync::Arc;

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidegate_model::Errors;

use crate::answer::Format;
use crate::app::App;
use crate::observe;

/// The routes of queries.
pub(crate) const QUERY: &str = "/api/endpoints/query/{endpoint}";
pub(crate) const QUERY_IN_SHORT: &str = "/endpoints/query/{endpoint}";

/// The header with the status that an error would have.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("x-tidegate-status");

/// What is wrong, in words; with every refusal, for who writes it in another form.
#[derive(Debug, Clone)]
pub(crate) struct Words(pub(crate) String);

/// The status of an answer that is sent with another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrueStatus(pub(crate) StatusCode);

/// Middleware for all routes: errors of queries in the form that was chosen.
pub(crate) async fn as_chosen(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if !matches!(route, Some(QUERY | QUERY_IN_SHORT)) {
        return next.run(request).await;
    }
    let asked = Format::of_head(request.uri(), request.headers());
    let response = next.run(request).await;
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return response;
    }
    let (errors, format) = observe::chosen();
    match (errors.unwrap_or(app.options.server.errors), format.unwrap_or(asked)) {
        (Errors::Ok, Format::Json) => succeeded(response),
        (Errors::Status, _) | (_, Format::NdJson | Format::Csv | Format::Arrow) => response,
    }
}

/// An error as an answer that succeeded.
fn succeeded(refused: Response) -> Response {
    let (mut head, _) = refused.into_parts();
    let status = std::mem::replace(&mut head.status, StatusCode::OK);
    let plain = || status.canonical_reason().unwrap_or("the request failed").to_owned();
    let text = head.extensions.get::<Words>().map_or_else(plain, |words| words.0.clone());
    // Those of the old body.
    for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
        head.headers.remove(name);
    }
    let (form, body) = Json(json!({"result": null, "error": text})).into_response().into_parts();
    head.headers.extend(form.headers);
    head.headers.insert(STATUS, HeaderValue::from(status.as_u16()));
    // With this status it might be kept by what lies between.
    head.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    head.extensions.insert(TrueStatus(status));
    Response::from_parts(head, body)
}
