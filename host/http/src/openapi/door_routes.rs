//! The routes at which events come in by the protocols of other services. `docs/senders.md` has a configuration for each
//! sender. OTLP over gRPC is not among them: its status does not stand in the answer's head, so this document cannot
//! describe it.

use super::route::{Gives, LOGS_REFUSALS, Route, Takes, Who, route};

/// How a request names its source at most of them.
const SOURCE: &[&str] = &["source_name", "source_id", "x-source-name", "idempotency-key"];

/// The same for a protocol with an idempotency key of its own.
const NAMED_SOURCE: &[&str] = &["source_name", "source_id", "x-source-name"];

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

/// The bulk API of Elasticsearch.
const fn bulk(path: &'static str, method: &'static str, id: &'static str) -> Route {
    Route {
        description: "As POST /_bulk.",
        parameters: SOURCE,
        body: Takes::Foreign(&["application/x-ndjson"]),
        success: &[(200, Gives::Foreign("What became of each event."))],
        ..route(path, method, id, Who::Ingest, "Send events with a client of Elasticsearch")
    }
}

/// One document of Elasticsearch.
const fn document(
    path: &'static str,
    method: &'static str,
    id: &'static str,
    parameters: &'static [&'static str],
) -> Route {
    Route {
        description: "One document as an event, as with POST /_bulk. Its id makes it idempotent.",
        parameters,
        body: Takes::Foreign(JSON),
        success: &[(201, Gives::Foreign("The document is stored."))],
        refusals: &[400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503],
        ..route(path, method, id, Who::Ingest, "Send an event with a client of Elasticsearch")
    }
}

const JSON: &[&str] = &["application/json"];

/// All routes of the doors.
pub(super) const ROUTES: &[Route] = &[
    records("/logs/json", "send_json_records", "Send records in JSON"),
    records("/logs/vector", "send_vector_records", "Send records with Vector"),
    records("/logs/elixir/logger", "send_elixir_records", "Send records with a logger of Elixir"),
    records("/logs/cloudflare", "send_cloudflare_records", "Send records with Cloudflare Logpush"),
    Route {
        // What it sends to see whether the door is there has no event, or no body at all.
        body: Takes::Foreign(&["application/json", "application/x-ndjson"]),
        ..records("/logs/vercel", "send_vercel_records", "Send records with a drain of Vercel")
    },
    Route {
        description: "What a drain of Vercel asks before it sends: the header x-vercel-verify of the answer has the setting \
                      `[doors] vercel_verify`.",
        success: &[(200, Gives::Nothing)],
        refusals: &[500],
        ..route("/logs/vercel", "get", "verify_vercel_drain", Who::Nobody, "Verify a drain of Vercel")
    },
    records("/logs/netlify", "send_netlify_records", "Send records with a drain of Netlify"),
    Route {
        description: "Syslog messages, each after its length in bytes. Also below /api. Logplex-Frame-Id is the name under which \
                      a request is stored once.",
        parameters: NAMED_SOURCE,
        ..foreign(
            "/logs/logplex",
            "send_logplex_messages",
            &["application/logplex-1"],
            &[(200, Gives::Foreign("Messages are stored; the body tells of refused ones.")), (204, Gives::Nothing)],
            "Send syslog messages with a drain of Heroku",
        )
    },
    Route {
        description: "Loki's push API, in JSON or in Protocol Buffers packed with Snappy. The header X-Scope-OrgID names the \
                      source, too. Also at /api/v1/push. What is to be told of refused entries stands in the body of a 200.",
        ..foreign(
            "/loki/api/v1/push",
            "send_loki_entries",
            &["application/json", "application/x-protobuf"],
            &[
                (200, Gives::Foreign("Entries are stored; the text tells of refused ones and of odd times.")),
                (204, Gives::Nothing),
            ],
            "Send entries with a client of Loki",
        )
    },
    Route {
        description: "Elasticsearch's bulk API: the actions create and index. The index names the source. Also below \
                      /elasticsearch, where what its clients ask before they send is answered, too.",
        ..bulk("/_bulk", "post", "send_bulk")
    },
    bulk("/_bulk", "put", "put_bulk"),
    Route { parameters: &["index"], ..bulk("/{index}/_bulk", "post", "send_bulk_to_index") },
    Route { parameters: &["index"], ..bulk("/{index}/_bulk", "put", "put_bulk_to_index") },
    document("/{index}/_doc", "post", "send_document", &["index"]),
    document("/{index}/_doc", "put", "put_document", &["index"]),
    document("/{index}/_doc/{id}", "post", "send_document_of_id", &["index", "id"]),
    document("/{index}/_doc/{id}", "put", "put_document_of_id", &["index", "id"]),
    document("/{index}/_create/{id}", "post", "create_document", &["index", "id"]),
    document("/{index}/_create/{id}", "put", "put_new_document", &["index", "id"]),
    Route {
        description: "Splunk's HTTP Event Collector: objects behind each other. Also at /services/collector.",
        ..foreign(
            "/services/collector/event",
            "send_splunk_events",
            JSON,
            &[(200, Gives::Foreign("Events are stored; refused ones are told."))],
            "Send events with a client of Splunk",
        )
    },
    Route {
        description: "One event per line.",
        ..foreign(
            "/services/collector/raw",
            "send_splunk_lines",
            &["text/plain"],
            &[(200, Gives::Foreign("Lines are stored; refused ones are told."))],
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
    Route {
        description: "The dataset names the source.",
        parameters: &["dataset", "idempotency-key"],
        ..foreign(
            "/v1/datasets/{dataset}/ingest",
            "send_axiom_events",
            &["application/json", "application/x-ndjson"],
            &[(200, Gives::Foreign("Events are stored; refused ones are told."))],
            "Send events with a client of Axiom",
        )
    },
    Route {
        description: "What clients of Elasticsearch ask before they send. Without a token a browser is sent to the console, and others get \
                      404.",
        success: &[
            (200, Gives::Foreign("A version of Elasticsearch.")),
            (401, Gives::Foreign("The token is unknown, in the words of Elasticsearch.")),
            (403, Gives::Foreign("The token may not send, in the words of Elasticsearch.")),
        ],
        refusals: &[404, 429, 500, 503],
        ..route(
            "/",
            "get",
            "show_elasticsearch_version",
            Who::Nobody,
            "Tell a client of Elasticsearch what it talks to",
        )
    },
    Route {
        description: "The answer is that of POST /api/logs; too much at once is 503.",
        parameters: SOURCE,
        body: Takes::Foreign(&["application/json", "application/x-ndjson", "application/msgpack"]),
        success: &[(202, Gives::Json("Logged"))],
        refusals: LOGS_REFUSALS,
        ..route("/", "post", "send_logtail_events", Who::Ingest, "Send events with a client of Better Stack")
    },
    Route {
        description: "Entries of any number. Each is stored once, by its cursor; one that cannot be stored is counted and passed over.",
        parameters: NAMED_SOURCE,
        ..foreign(
            "/upload",
            "upload_journal",
            &["application/vnd.fdo.journal"],
            &[(202, Gives::Text("All entries are stored."))],
            "Send entries with systemd-journal-upload",
        )
    },
    Route {
        description: "As POST /upload. The path names the source.",
        parameters: &["source"],
        ..foreign(
            "/journal/{source}/upload",
            "upload_journal_to_source",
            &["application/vnd.fdo.journal"],
            &[(202, Gives::Text("All entries are stored."))],
            "Send entries with systemd-journal-upload to a source",
        )
    },
];
