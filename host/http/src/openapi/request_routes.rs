//! The routes of queries, of events in Tidegate's own form and OpenTelemetry's, and of what watches the service.

use super::route::{Gives, LOGS_REFUSALS, QUERY_REFUSALS, Route, Takes, Who, get, post};

/// How a request names the source of its events, and itself.
pub(super) const SOURCE: &[&str] = &["source_name", "source_id", "x-source-name", "idempotency-key"];

const QUERY: &str = "/api/endpoints/query/{endpoint}";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let queries = [
        get(QUERY, "query", "Run an endpoint")
            .tells(
                "Parameters of the endpoint are sent in the query string; what it does not declare is ignored. `sql` and `lql` \
                 run an ad-hoc query over its tables. Also at /endpoints/query/{endpoint}. Remarks of an endpoint's code are \
                 headers x-tidegate-note-KEY, percent-encoded.",
            )
            .with(&["sql", "lql", "format", "redact", "follow_rows", "follow_since", "last-event-id"]),
        post(QUERY, "query_by_post", "Run an endpoint")
            .tells("As by GET; parameters in the body count as those in the query string.")
            .with(&["format", "redact"])
            .body(Takes::Parameters),
    ];
    let events = [
        post("/api/logs", "send_logs", "Send events to a source")
            .tells(
                "The events are on stable storage when the answer comes. Also at /logs and /api/events. The body may be \
                 compressed (Content-Encoding: gzip, zstd).",
            )
            .body(Takes::Events)
            .answers(200, Gives::Untyped("Logged")),
        post("/v1/logs", "send_otlp_logs", "Send logs with OpenTelemetry")
            .tells("OTLP over HTTP, as protobuf or JSON. Name the source in the header x-source-name.")
            .body(Takes::Otlp)
            .answers(200, Gives::Otlp),
    ];
    let probes = [
        get("/health", "health", "Whether the process answers").answers(200, Gives::Untyped("Health")).refuses(&[500]),
        get("/ready", "ready", "Whether requests can be served")
            .answers(200, Gives::Untyped("Health"))
            .refuses(&[500, 503]),
        get("/metrics", "metrics", "Figures for Prometheus").answers(200, Gives::Metrics).refuses(&[500]),
    ];
    let document = get("/api/openapi", "openapi", "This document")
        .by(Who::Anyone)
        .tells("With an access token it has the endpoints that the token may query, too.")
        .answers(200, Gives::Untyped("OpenApi"))
        .refuses(&[401, 429, 500, 503, 504]);
    let queries = queries.map(|route| route.by(Who::Query).answers(200, Gives::Rows).refuses(QUERY_REFUSALS));
    let events = events.map(|route| route.by(Who::Ingest).with(SOURCE).refuses(LOGS_REFUSALS));
    let probes = probes.map(|route| route.by(Who::Nobody));
    queries.into_iter().chain(events).chain(probes).chain([document]).collect()
}
