//! The routes at which events come in by the protocols of other services. `docs/ingest.md` has a configuration for each
//! sender.

use super::route::{Gives, LOGS_REFUSALS, Route, Takes, Who, route};

/// How a request names its source at most of them.
const SOURCE: &[&str] = &["source_name", "source_id", "x-source-name", "idempotency-key"];

/// A door for records in JSON, whose fields become those of `metadata`.
const fn records(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    Route {
        description: "The fields of a record become those of metadata. Also below /api. The answer and the errors are those \
                      of POST /api/logs.",
        parameters: SOURCE,
        body: Takes::Events,
        success: &[(200, Gives::Json("Logged"))],
        refusals: LOGS_REFUSALS,
        ..route(path, "post", id, Who::Ingest, summary)
    }
}

/// A door of another protocol.
const fn foreign(
    path: &'static str,
    id: &'static str,
    kinds: &'static [&'static str],
    success: &'static [(u16, Gives)],
    summary: &'static str,
) -> Route {
    Route { parameters: SOURCE, body: Takes::Foreign(kinds), success, ..route(path, "post", id, Who::Ingest, summary) }
}

const JSON: &[&str] = &["application/json"];

/// All routes of the doors.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "OTLP over gRPC, on the port of all routes. The metadata of the call has the token and the source, as headers \
                      have them at /v1/logs. What may pass is UNAVAILABLE, with RetryInfo.",
        ..foreign(
            "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            "export_otlp_logs",
            &["application/grpc"],
            &[(200, Gives::Foreign("ExportLogsServiceResponse in a frame of gRPC, or the status in the headers."))],
            "Send logs with OpenTelemetry over gRPC",
        )
    },
    records("/logs/json", "send_json_records", "Send records in JSON"),
    records("/logs/vector", "send_vector_records", "Send records with Vector"),
    records("/logs/elixir/logger", "send_elixir_records", "Send records with a logger of Elixir"),
    records("/logs/cloudflare", "send_cloudflare_records", "Send records with Cloudflare Logpush"),
    records("/logs/vercel", "send_vercel_records", "Send records with a drain of Vercel"),
    records("/logs/netlify", "send_netlify_records", "Send records with a drain of Netlify"),
    Route {
        description: "Syslog messages, each after its length in bytes. Also below /api. Logplex-Frame-Id is the name under which \
                      a request is stored once.",
        ..foreign(
            "/logs/logplex",
            "send_logplex_messages",
            &["application/logplex-1"],
            &[(204, Gives::Nothing)],
            "Send syslog messages with a drain of Heroku",
        )
    },
    Route {
        description: "Loki's push API, in JSON or in Protocol Buffers packed with Snappy. The header X-Scope-OrgID names the \
                      source, too. Also at /api/v1/push. Refused entries are told by the status 400; the others are stored.",
        ..foreign(
            "/loki/api/v1/push",
            "send_loki_entries",
            &["application/json", "application/x-protobuf"],
            &[(204, Gives::Nothing)],
            "Send entries with a client of Loki",
        )
    },
    Route {
        description: "Elasticsearch's bulk API: the actions create and index. The index names the source. Also by PUT, and below \
                      /elasticsearch, where what its clients ask before they send is answered, too.",
        ..foreign(
            "/_bulk",
            "send_bulk",
            &["application/x-ndjson"],
            &[(200, Gives::Foreign("What became of each event."))],
            "Send events with a client of Elasticsearch",
        )
    },
    Route {
        description: "As without an index.",
        parameters: &["index"],
        ..foreign(
            "/{index}/_bulk",
            "send_bulk_to_index",
            &["application/x-ndjson"],
            &[(200, Gives::Foreign("What became of each event."))],
            "Send events with a client of Elasticsearch",
        )
    },
    Route {
        description: "Splunk's HTTP Event Collector: objects behind each other. Also at /services/collector.",
        ..foreign(
            "/services/collector/event",
            "send_splunk_events",
            JSON,
            &[(200, Gives::Foreign("All events are stored."))],
            "Send events with a client of Splunk",
        )
    },
    Route {
        description: "One event per line.",
        ..foreign(
            "/services/collector/raw",
            "send_splunk_lines",
            &["text/plain"],
            &[(200, Gives::Foreign("All events are stored."))],
            "Send lines with a client of Splunk",
        )
    },
    Route {
        success: &[(200, Gives::Foreign("The collector answers."))],
        refusals: &[500],
        ..route(
            "/services/collector/health",
            "get",
            "splunk_health",
            Who::Nobody,
            "Whether the collector for clients of Splunk answers",
        )
    },
    foreign(
        "/api/v2/logs",
        "send_datadog_logs",
        &["application/json", "text/plain"],
        &[(202, Gives::Foreign("The events are stored."))],
        "Send logs with a client of Datadog",
    ),
    Route {
        description: "Records in Base64. Also below /api. The attribute source_name of the stream names the source, too.",
        ..foreign(
            "/logs/firehose",
            "send_firehose_records",
            JSON,
            &[(200, Gives::Foreign("The records are stored."))],
            "Send records with Amazon Data Firehose",
        )
    },
];
