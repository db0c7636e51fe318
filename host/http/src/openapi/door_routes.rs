//! The routes at which events come in by the protocols of other services. `docs/senders.md` has a configuration for each
//! sender. OTLP over gRPC is not among them: its status does not stand in the answer's head, so this document cannot
//! describe it.

use super::request_routes::SOURCE;
use super::route::{Gives, LOGS_REFUSALS, Route, Takes, Who, get, post, put};

/// How a request names its source in a protocol with an idempotency key of its own.
const NAMED_SOURCE: &[&str] = &["source_name", "source_id", "x-source-name"];

const JSON: &[&str] = &["application/json"];
const JSON_OR_LINES: &[&str] = &["application/json", "application/x-ndjson"];
const JOURNAL: &[&str] = &["application/vnd.fdo.journal"];

/// A door for records in JSON, whose fields become those of `metadata`.
fn records(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    post(path, id, summary)
        .tells(
            "The fields of a record become those of metadata. Also below /api. The answer and the errors are those of POST \
             /api/logs.",
        )
        .by(Who::Ingest)
        .with(SOURCE)
        .body(Takes::Events)
        .answers(200, Gives::Untyped("Logged"))
        .refuses(LOGS_REFUSALS)
}

/// A door of another protocol.
fn foreign(path: &'static str, id: &'static str, kinds: &'static [&'static str], summary: &'static str) -> Route {
    post(path, id, summary).by(Who::Ingest).body(Takes::Foreign(kinds))
}

/// The bulk API of Elasticsearch.
fn bulk(route: Route) -> Route {
    route
        .by(Who::Ingest)
        .body(Takes::Foreign(&["application/x-ndjson"]))
        .answers(200, Gives::Foreign("What became of each event."))
}

/// One document of Elasticsearch, by POST and by PUT.
fn document(path: &'static str, by_post: &'static str, by_put: &'static str) -> [Route; 2] {
    let summary = "Send an event with a client of Elasticsearch";
    [post(path, by_post, summary), put(path, by_put, summary)].map(|route| {
        route
            .tells("One document as an event, as with POST /_bulk. Its id makes it idempotent.")
            .by(Who::Ingest)
            .body(Takes::Foreign(JSON))
            .answers(201, Gives::Foreign("The document is stored."))
    })
}

/// All routes of the doors.
pub(super) fn routes() -> Vec<Route> {
    [records_in_json(), elasticsearch(), others(), journal()].into_iter().flatten().collect()
}

fn records_in_json() -> Vec<Route> {
    vec![
        records("/logs/json", "send_json_records", "Send records in JSON"),
        records("/logs/vector", "send_vector_records", "Send records with Vector"),
        records("/logs/elixir/logger", "send_elixir_records", "Send records with a logger of Elixir"),
        records("/logs/cloudflare", "send_cloudflare_records", "Send records with Cloudflare Logpush"),
        // What it sends to see whether the door is there has no event, or no body at all.
        records("/logs/vercel", "send_vercel_records", "Send records with a drain of Vercel")
            .body(Takes::Foreign(JSON_OR_LINES)),
        get("/logs/vercel", "verify_vercel_drain", "Verify a drain of Vercel")
            .tells(
                "What a drain of Vercel asks before it sends: the header x-vercel-verify of the answer has the setting `[doors] \
                 vercel_verify`.",
            )
            .by(Who::Nobody)
            .answers(200, Gives::Nothing)
            .refuses(&[500]),
        records("/logs/netlify", "send_netlify_records", "Send records with a drain of Netlify"),
    ]
}

fn elasticsearch() -> Vec<Route> {
    let summary = "Send events with a client of Elasticsearch";
    let all = "Elasticsearch's bulk API: the actions create and index. The index names the source. Also below /elasticsearch, \
               where what its clients ask before they send is answered, too.";
    let version = get("/", "show_elasticsearch_version", "Tell a client of Elasticsearch what it talks to")
        .tells(
            "What clients of Elasticsearch ask before they send. Without a token a browser is sent to the console, and others get \
             404.",
        )
        .by(Who::Nobody)
        .answers(200, Gives::Foreign("A version of Elasticsearch."))
        .answers(401, Gives::Foreign("The token is unknown, in the words of Elasticsearch."))
        .answers(403, Gives::Foreign("The token may not send, in the words of Elasticsearch."))
        .refuses(&[404, 429, 500, 503]);
    let bulks = [
        bulk(post("/_bulk", "send_bulk", summary)).tells(all).with(SOURCE),
        bulk(put("/_bulk", "put_bulk", summary)).tells("As POST /_bulk.").with(SOURCE),
        bulk(post("/{index}/_bulk", "send_bulk_to_index", summary)).tells("As POST /_bulk."),
        bulk(put("/{index}/_bulk", "put_bulk_to_index", summary)).tells("As POST /_bulk."),
    ];
    let documents = [
        document("/{index}/_doc", "send_document", "put_document"),
        document("/{index}/_doc/{id}", "send_document_of_id", "put_document_of_id"),
        document("/{index}/_create/{id}", "create_document", "put_new_document"),
    ];
    bulks.into_iter().chain(documents.into_iter().flatten()).chain([version]).collect()
}

fn others() -> Vec<Route> {
    vec![
        foreign(
            "/logs/logplex",
            "send_logplex_messages",
            &["application/logplex-1"],
            "Send syslog messages with a drain of Heroku",
        )
        .tells(
            "Syslog messages, each after its length in bytes. Also below /api. Logplex-Frame-Id is the name under which a request \
             is stored once.",
        )
        .with(NAMED_SOURCE)
        .answers(200, Gives::Foreign("Messages are stored; the body tells of refused ones."))
        .answers(204, Gives::Nothing),
        foreign(
            "/loki/api/v1/push",
            "send_loki_entries",
            &["application/json", "application/x-protobuf"],
            "Send entries with a client of Loki",
        )
        .tells(
            "Loki's push API, in JSON or in Protocol Buffers packed with Snappy. The header X-Scope-OrgID names the source, too. \
             Also at /api/v1/push. What is to be told of refused entries stands in the body of a 200.",
        )
        .with(SOURCE)
        .answers(200, Gives::Foreign("Entries are stored; the text tells of refused ones and of odd times."))
        .answers(204, Gives::Nothing),
        foreign("/services/collector/event", "send_splunk_events", JSON, "Send events with a client of Splunk")
            .tells("Splunk's HTTP Event Collector: objects behind each other. Also at /services/collector.")
            .with(SOURCE)
            .answers(200, Gives::Foreign("Events are stored; refused ones are told.")),
        foreign("/services/collector/raw", "send_splunk_lines", &["text/plain"], "Send lines with a client of Splunk")
            .tells("One event per line.")
            .with(SOURCE)
            .answers(200, Gives::Foreign("Lines are stored; refused ones are told.")),
        get("/services/collector/health", "splunk_health", "Whether the collector for clients of Splunk answers")
            .by(Who::Nobody)
            .answers(200, Gives::Foreign("The collector answers."))
            .refuses(&[500]),
        foreign(
            "/api/v2/logs",
            "send_datadog_logs",
            &["application/json", "text/plain"],
            "Send logs with a client of Datadog",
        )
        .with(SOURCE)
        .answers(202, Gives::Foreign("The events are stored.")),
        foreign("/logs/firehose", "send_firehose_records", JSON, "Send records with Amazon Data Firehose")
            .tells("Records in Base64. Also below /api. The attribute source_name of the stream names the source, too.")
            .with(SOURCE)
            .answers(200, Gives::Foreign("The records are stored.")),
        foreign(
            "/v1/datasets/{dataset}/ingest",
            "send_axiom_events",
            JSON_OR_LINES,
            "Send events with a client of Axiom",
        )
        .tells("The dataset names the source.")
        .with(&["idempotency-key"])
        .answers(200, Gives::Foreign("Events are stored; refused ones are told.")),
        foreign(
            "/",
            "send_logtail_events",
            &["application/json", "application/x-ndjson", "application/msgpack"],
            "Send events with a client of Better Stack",
        )
        .tells("The answer is that of POST /api/logs; too much at once is 503.")
        .with(SOURCE)
        .answers(202, Gives::Untyped("Logged")),
    ]
}

fn journal() -> Vec<Route> {
    let all = foreign("/upload", "upload_journal", JOURNAL, "Send entries with systemd-journal-upload")
        .tells(
            "Entries of any number. Each is stored once, by its cursor; one that cannot be stored is counted and passed over.",
        )
        .with(NAMED_SOURCE);
    let of_source = foreign(
        "/journal/{source}/upload",
        "upload_journal_to_source",
        JOURNAL,
        "Send entries with systemd-journal-upload to a source",
    )
    .tells("As POST /upload. The path names the source.");
    [all, of_source].map(|route| route.answers(202, Gives::Text("All entries are stored."))).into()
}
