//! `GET /api/openapi`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tidegate_model::Manifest;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::Access;

use super::answers::answers;
use super::document::document;
use super::state::OpenApi;
use crate::auth::authenticate;
use crate::failure::Refusal;

/// `GET /api/openapi`.
pub(crate) async fn openapi(State(app): State<Arc<OpenApi>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let errors = app.service.options.server.errors;
    let mut response = if headers.contains_key("x-api-key") || headers.contains_key(AUTHORIZATION) {
        let access = authenticate(&app.service, &headers)?;
        app.limit_rate(RequestClass::Queries, access.identity)?;
        let mut entries = app.service.registry.all();
        entries.retain(|entry| access.may_query(&entry.name, Some(entry.id)));
        let described = answers(&app, access.account(), entries).await?.into_iter();
        Json(document(described.filter(|one| is_bound(&one.manifest, &access)), Some(&access), errors)).into_response()
    } else {
        app.fixed_document.response(&headers, || document(std::iter::empty(), None, errors).to_string())
    };
    // The document contains only what the token may see, so shared caches must not store it.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("authorization, x-api-key, accept-encoding"));
    Ok(response)
}

/// Whether the endpoint has all parameters that the token pins. An endpoint that lacks one refuses the token.
fn is_bound(manifest: &Manifest, access: &Access) -> bool {
    access.pinned.keys().all(|name| manifest.parameters.iter().any(|parameter| parameter.name == *name))
}
