//! `GET /api/openapi`: this service, and each saved endpoint, in OpenAPI 3.1.
//!
//! Most of the document is made of what is saved (endpoints, their parameters, the columns of
//! their queries), which no macro over Rust types can see, so all of it is written as JSON:
//!
//! - `routes`: the fixed routes, one table;
//! - `schemas`: what they take and answer;
//! - `endpoints`: an operation for each saved endpoint;
//! - `columns`: what a row of an endpoint looks like.
//!
//! Strangers are told the fixed routes. Names and parameters of endpoints are told to tokens that
//! may query them.

mod columns;
mod endpoints;
mod routes;
mod schemas;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tidegate_model::{Errors, Manifest};

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::rate::Share;
use crate::tokens::Access;

use columns::Answer;
pub(crate) use columns::Described;

/// `GET /api/openapi`.
pub(crate) async fn openapi(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let errors = app.options.server.errors;
    let document = if headers.contains_key("x-api-key") || headers.contains_key(AUTHORIZATION) {
        let access = authenticate(&app, &headers, app.clock.now())?;
        app.take_share(Share::Queries)?;
        let mut entries = app.registry.all();
        entries.retain(|entry| access.may_query(&entry.name, Some(entry.id)));
        let described = columns::answers(&app, entries).await?.into_iter();
        document(described.filter(|(manifest, _)| is_bound(manifest, &access)), Some(&access), errors)
    } else {
        document(std::iter::empty(), None, errors)
    };
    let mut response = Json(document).into_response();
    // What it says is what the token may know.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("authorization, x-api-key"));
    Ok(response)
}

/// Whether the endpoint has all parameters that the token fixes: others refuse the token.
fn is_bound(manifest: &Manifest, access: &Access) -> bool {
    access.pinned.keys().all(|name| manifest.parameters.iter().any(|parameter| parameter.name == *name))
}

fn document(endpoints: impl Iterator<Item = (Manifest, Answer)>, access: Option<&Access>, errors: Errors) -> Value {
    let of_caller = access.and_then(|access| access.errors).unwrap_or(errors);
    let mut paths = Map::new();
    for route in routes::ROUTES {
        if let Value::Object(path) = paths.entry(route.path).or_insert_with(|| json!({})) {
            path.insert(route.method.to_owned(), route.operation(of_caller));
        }
    }
    let mut ids = endpoints::Ids::default();
    for (manifest, answer) in endpoints {
        let (path, operation) = endpoints::operation(&manifest, &answer, access, errors, &mut ids);
        paths.insert(path, json!({"get": operation}));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Saved SQL over logs, as HTTP endpoints.",
            "description": "With an access token, this document also has the saved endpoints that the token may query.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"bearer": []}],
        "tags": [
            {"name": "endpoints", "description": "The saved endpoints."},
            {"name": "query", "description": "Running an endpoint, saved or with an ad-hoc query."},
            {"name": "logs", "description": "Sending logs."},
            {"name": "management", "description": "Endpoints, sources and access tokens; for private tokens."},
            {"name": "operation", "description": "What watches the service."},
        ],
        "paths": paths,
        "components": schemas::components(),
    })
}
