//! The routes: the handler of each path and method, and the middleware around them.

use std::sync::{Arc, Once};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use tidegate_model::{Code, Failure};
use tower_http::cors::{Any, CorsLayer};

use crate::app::App;
use crate::failure::Refusal;
use crate::follow::LAST_EVENT_ID;
use crate::manage::{access, alerts, components, endpoints, issuers, sources, tokens, trial};
use crate::metrics_page::metrics;
use crate::middleware::await_key::await_key;
use crate::middleware::body_timeout::limit_body_time;
use crate::middleware::close_unread::announce_close;
use crate::middleware::compression::{compressed, count_compressed, reserve_compressor, tolerant};
use crate::middleware::counting::count_answers;
use crate::middleware::error_status::{QUERY, QUERY_IN_SHORT, choose_status};
use crate::middleware::request_log::log_request;
use crate::openapi::OpenApi;
use crate::openapi::page::openapi;
use crate::ready::{health, ready};
use crate::{console, doors, explain, query};

pub(crate) fn router(app: Arc<App>) -> Router {
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::ACCEPT,
            header::IF_NONE_MATCH,
            header::IF_MATCH,
            // Of senders of logs, this one and the next three.
            header::CONTENT_ENCODING,
            HeaderName::from_static("idempotency-key"),
            HeaderName::from_static("x-source-name"),
            HeaderName::from_static("x-source"),
            LAST_EVENT_ID,
            HeaderName::from_static("x-api-key"),
            HeaderName::from_static("x-request-id"),
            HeaderName::from_static("traceparent"),
            HeaderName::from_static("tracestate"),
            HeaderName::from_static("svc-endpoint-redact-pii"),
            HeaderName::from_static("lf-endpoint-redact-pii"),
        ])
        // All headers: the notes of components are headers whose names are not known here. Browsers send no cookies
        // with such a request, so the answer shows nothing that the page did not ask for itself.
        .expose_headers(Any)
        .max_age(Duration::from_secs(86_400));
    doors::add_routes(Router::new())
        .route(QUERY, get(query::query).post(query::query))
        .route(QUERY_IN_SHORT, get(query::query))
        .route("/api/sources", get(sources::list).post(sources::create))
        .route(
            "/api/sources/{source}",
            get(sources::show).put(sources::update).patch(sources::update).delete(sources::delete),
        )
        .route("/api/sources/{source}/schema", get(sources::schema))
        .route("/api/sources/{source}/fill-rates", get(sources::fill_rates))
        .route("/api/sources/{source}/recent", get(sources::recent))
        .route("/api/endpoint-statistics", get(endpoints::statistics))
        .route("/api/slow-queries", get(endpoints::slow_queries))
        .route("/api/endpoints", get(endpoints::list).post(endpoints::create))
        .route(
            "/api/endpoints/{endpoint}",
            get(endpoints::show).put(endpoints::update).patch(endpoints::update).delete(endpoints::delete),
        )
        .route("/api/endpoints/{endpoint}/check", post(endpoints::check))
        .route("/api/endpoints/{endpoint}/try", post(trial::run))
        .route("/api/endpoints/{endpoint}/explain", post(explain::explain))
        .route("/api/endpoints/{endpoint}/component", get(components::get).put(components::put))
        .route("/api/endpoints/{endpoint}/component/check", post(components::check))
        .route("/api/endpoints/{endpoint}/versions", get(endpoints::versions))
        .route("/api/endpoints/{endpoint}/versions/{version}/component", get(components::get_version))
        .route("/api/endpoints/{endpoint}/versions/{version}/restore", post(endpoints::restore))
        .route("/api/alerts", get(alerts::list_all))
        .route("/api/endpoints/{endpoint}/alerts", get(alerts::list).post(alerts::create))
        .route(
            "/api/endpoints/{endpoint}/alerts/{alert}",
            get(alerts::show).put(alerts::update).patch(alerts::update).delete(alerts::delete),
        )
        .route("/api/endpoints/{endpoint}/alerts/{alert}/runs", get(alerts::runs).post(alerts::run))
        .route("/api/endpoints/{endpoint}/alerts/{alert}/test", post(alerts::test))
        .route("/api/endpoints/{endpoint}/alerts/{alert}/secret", post(alerts::set_secret))
        .route("/api/access-tokens", get(tokens::list).post(tokens::create))
        .route("/api/access-tokens/current", get(tokens::current))
        .route("/api/access-tokens/current/access", get(access::of_itself))
        .route("/api/access-tokens/{token}/access", get(access::of_token))
        .route("/api/access", get(access::all))
        .route("/api/access-tokens/{token}", get(tokens::show).delete(tokens::revoke))
        .route("/api/issuers/denied", get(issuers::list).post(issuers::deny))
        .route("/api/issuers/denied/{denied}", delete(issuers::allow))
        .route("/api/openapi", get(openapi).with_state(OpenApi::new(Arc::clone(&app))))
        .route("/", get(start))
        .route("/console", get(console::page))
        .route("/console/", get(console::page))
        .route("/console/licenses.md", get(console::licences))
        .route("/console/assets/{name}", get(console::asset))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&app), await_key))
        .layer(from_fn(errors_as_json))
        .layer(from_fn_with_state(Arc::clone(&app), count_answers))
        .layer(from_fn(reserve_compressor))
        .layer(compressed())
        .layer(from_fn(count_compressed))
        .layer(from_fn(tolerant))
        .layer(from_fn_with_state(Arc::clone(&app), limit_body_time))
        .layer(from_fn_with_state(Arc::clone(&app), choose_status))
        .layer(from_fn(announce_close))
        .layer(cors)
        .layer(from_fn_with_state(Arc::clone(&app), log_request))
        .with_state(app)
}

/// `GET /`: for clients of Elasticsearch, which have a token, the answer that they expect; for browsers the console.
async fn start(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    match tidegate_doors::start(&*app, &head) {
        Some(answer) => doors::respond(answer),
        None => console::start(&head.headers),
    }
}

/// The paths at which log viewers look for log drains, which this service does not have.
const DRAINS: [&str; 2] = ["/api/backends", "/api/rules"];

fn is_of_drains(path: &str) -> bool {
    DRAINS.iter().any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

async fn no_route(request: Request) -> Refusal {
    // A page that shows log drains requests them again and again, so the log explains these 404s only once.
    static LOGGED: Once = Once::new();
    let path = request.uri().path();
    let mut message = format!("there is nothing at {path}");
    if is_of_drains(path) {
        message.push_str(
            ": log drains (backends and rules) are no part of this service; logs are read by queries, at \
             /api/endpoints/query/NAME",
        );
        LOGGED.call_once(|| {
            tracing::info!(
                path,
                "a client asks for log drains (backends and rules), which are no part of this service: it is answered \
                 404, and everything else that it shows is not touched by that"
            );
        });
    }
    Failure::new(Code::NotFound, message).into()
}

async fn no_method(request: Request) -> Refusal {
    let message = format!("{} is not possible at {}", request.method(), request.uri().path());
    Failure::new(Code::MethodNotAllowed, message).into()
}

/// Middleware that converts the framework's own errors to JSON. A request that the framework refuses before a handler
/// runs (a path that is not UTF-8, a parameter that is given twice) gets an error in plain text, but clients read every
/// error as JSON.
async fn errors_as_json(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_text =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
    // A refusal has its code. Those in text are of a protocol that wants text.
    let is_ours = response.extensions().get::<Code>().is_some();
    if !response.status().is_client_error() || !is_text || is_ours {
        return response;
    }
    let code = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        _ => Code::InvalidParameter,
    };
    let text = to_bytes(response.into_body(), 4 << 10).await.unwrap_or_default();
    let message = format!("the request cannot be read: {}", String::from_utf8_lossy(&text));
    Refusal::from(Failure::new(code, message)).into_response()
}
