//! The routes: which path leads where.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, Method, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post, put};
use tidegate_model::{Code, Failure};
use tower_http::cors::{Any, CorsLayer};
use tower_http::decompression::RequestDecompressionLayer;

use crate::app::App;
use crate::failure::Refusal;
use crate::metrics::metrics;
use crate::ready::{health, ready};
use crate::{ingest, manage, query};

pub(crate) fn router(app: Arc<App>) -> Router {
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::ACCEPT,
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("x-request-id"),
            HeaderName::from_static("traceparent"),
            HeaderName::from_static("tracestate"),
            HeaderName::from_static("svc-endpoint-redact-pii"),
            HeaderName::from_static("lf-endpoint-redact-pii"),
        ])
        .expose_headers([
            header::RETRY_AFTER,
            HeaderName::from_static("x-result-truncated"),
            HeaderName::from_static("x-request-id"),
            HeaderName::from_static("ratelimit"),
            HeaderName::from_static("ratelimit-policy"),
        ])
        .max_age(Duration::from_secs(86_400));
    let events = || -> MethodRouter<Arc<App>> {
        post(ingest::ingest)
            .layer::<_, Infallible>(from_fn_with_state(Arc::clone(&app), crate::paced::count))
            .layer(RequestDecompressionLayer::new().gzip(true).zstd(true))
    };
    Router::new()
        .route("/api/endpoints/query/{endpoint}", get(query::query).post(query::query))
        .route("/endpoints/query/{endpoint}", get(query::query))
        .route("/api/logs", events())
        .route("/logs", events())
        .route("/api/events", events())
        .route("/api/sources", get(manage::list_sources).post(manage::create_source))
        .route("/api/endpoints", get(manage::list_endpoints).post(manage::create_endpoint))
        .route(
            "/api/endpoints/{endpoint}",
            get(manage::show_endpoint)
                .put(manage::update_endpoint)
                .patch(manage::update_endpoint)
                .delete(manage::delete_endpoint),
        )
        .route("/api/endpoints/{endpoint}/component", put(manage::put_component))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&app), crate::paced::pace))
        .layer(from_fn(crate::unread::announce_close))
        .layer(cors)
        .layer(from_fn_with_state(Arc::clone(&app), crate::observe::observe))
        .with_state(app)
}

async fn no_route(request: Request) -> Refusal {
    let message = format!("there is nothing at {}", request.uri().path());
    Failure::new(Code::NotFound, message).into()
}

async fn no_method(request: Request) -> Refusal {
    let message = format!("{} is not possible at {}", request.method(), request.uri().path());
    Failure::new(Code::MethodNotAllowed, message).into()
}
