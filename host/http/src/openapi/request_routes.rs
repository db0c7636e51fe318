//! The routes of queries and of events in Tidegate's own form and OpenTelemetry's.

use super::route::{Gives, LOGS_REFUSALS, QUERY_REFUSALS, Route, Takes, Who, route};

/// All routes of queries and events.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "Parameters of the endpoint are sent in the query string; what it does not declare is ignored. \
                      `sql` and `lql` run an ad-hoc query over its tables. Also at /endpoints/query/{endpoint}. Remarks of an \
                      endpoint's code are headers x-tidegate-note-KEY, percent-encoded.",
        parameters: &["endpoint", "sql", "lql", "format", "redact", "follow_rows", "follow_since", "last-event-id"],
        success: &[(200, Gives::Rows)],
        refusals: QUERY_REFUSALS,
        ..route("/api/endpoints/query/{endpoint}", "get", "query", Who::Query, "Run an endpoint")
    },
    Route {
        description: "As by GET; parameters in the body count as those in the query string.",
        parameters: &["endpoint", "format", "redact"],
        body: Takes::Parameters,
        success: &[(200, Gives::Rows)],
        refusals: QUERY_REFUSALS,
        ..route("/api/endpoints/query/{endpoint}", "post", "query_by_post", Who::Query, "Run an endpoint")
    },
    Route {
        description: "The events are on stable storage when the answer comes. Also at /logs and /api/events. The body may \
                      be compressed (Content-Encoding: gzip, zstd).",
        parameters: &["source_name", "source_id", "x-source-name", "idempotency-key"],
        body: Takes::Events,
        success: &[(200, Gives::Json("Logged"))],
        refusals: LOGS_REFUSALS,
        ..route("/api/logs", "post", "send_logs", Who::Ingest, "Send events to a source")
    },
    Route {
        description: "OTLP over HTTP, as protobuf or JSON. Name the source in the header x-source-name.",
        parameters: &["source_name", "source_id", "x-source-name", "idempotency-key"],
        body: Takes::Otlp,
        success: &[(200, Gives::Otlp)],
        refusals: LOGS_REFUSALS,
        ..route("/v1/logs", "post", "send_otlp_logs", Who::Ingest, "Send logs with OpenTelemetry")
    },
];
