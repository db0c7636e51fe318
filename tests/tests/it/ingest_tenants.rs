//! Tokens that send logs of one tenant: at every way in, the tenant's key is set where it is missing, and another value is
//! refused, so that what one tenant sends is never read by another.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use serde_json::{Value, json};
use tidegate_tests::{Answer, Raw, Server, binary, query_string, until};

use crate::doors::{firehose, gzip};
use crate::{otlp, otlp_grpc, syslog};

const GRPC: &str = "application/grpc";
const JSON: &str = "application/json";

/// A way in over HTTP: the path, the media type, the field of the stored event that has the tenant, and a body with one
/// event of this tenant, or of none.
struct Door {
    path: &'static str,
    kind: &'static str,
    field: &'static str,
    body: fn(tenant: Option<&str>, message: &str) -> Vec<u8>,
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A record with this field, if there is a tenant.
fn with(field: &str, tenant: Option<&str>, mut record: Value) -> Value {
    if let Some(tenant) = tenant {
        record[field] = json!(tenant);
    }
    record
}

fn export(tenant: Option<&str>, message: &str) -> Vec<u8> {
    let attributes = tenant.map(|tenant| otlp::pair("project", otlp::text(tenant))).into_iter().collect();
    let record = LogRecord { attributes, ..otlp::record(message) };
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

fn loki(tenant: Option<&str>, message: &str) -> Vec<u8> {
    let labels = with("project", tenant, json!({"job": "j"}));
    bytes(&json!({"streams": [{"stream": labels, "values": [["1763633702123456789", message]]}]}))
}

fn bulk(tenant: Option<&str>, message: &str) -> Vec<u8> {
    let event = json!({"message": message, "metadata": with("project", tenant, json!({"a": 1}))});
    format!("{{\"create\":{{}}}}\n{event}\n").into_bytes()
}

fn frame(tenant: Option<&str>, message: &str) -> Vec<u8> {
    let message = format!("<190>1 2025-11-20T10:15:02.123456Z host {} web.1 - {message}", tenant.unwrap_or("-"));
    format!("{} {message}", message.len()).into_bytes()
}

fn nested(tenant: Option<&str>, message: &str) -> Vec<u8> {
    bytes(&json!([with("tenant", tenant, json!({"message": message, "host": "h"}))]))
}

fn doors() -> Vec<Door> {
    let door = |path, kind, field, body| Door { path, kind, field, body };
    let mut all = vec![
        door("/api/logs", JSON, "project", |tenant, message| {
            bytes(&json!([with("project", tenant, json!({"event_message": message}))]))
        }),
        door("/logs", JSON, "m.deep.project", |tenant, message| {
            let deep = tenant.map(|tenant| json!({"project": tenant}));
            bytes(&json!({"batch": [{"message": message, "m": [{"a": 1, "deep": deep}, {"b": 1, "deep": [deep]}]}]}))
        }),
        door("/api/events", "application/x-ndjson", "metadata.project", |tenant, message| {
            let event = json!({"event_message": message, "metadata": [with("project", tenant, json!({}))]});
            format!("{event}\n\n").into_bytes()
        }),
        door("/v1/logs", JSON, "project", |tenant, message| {
            let attributes = tenant.map(|tenant| json!({"key": "project", "value": {"stringValue": tenant}}));
            let attributes: Vec<Value> = attributes.into_iter().collect();
            let record = json!({"body": {"stringValue": message}, "attributes": attributes});
            bytes(&json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}))
        }),
        door("/v1/logs", "application/x-protobuf", "metadata.attributes.project", export),
        door(otlp_grpc::PATH, GRPC, "project", |tenant, message| otlp_grpc::framed(0, &export(tenant, message))),
        door("/loki/api/v1/push", JSON, "metadata.project", loki),
        door("/_bulk", "application/x-ndjson", "metadata.project", bulk),
        door("/services/collector/event", JSON, "metadata.project", |tenant, message| {
            bytes(&json!({"event": message, "fields": with("project", tenant, json!({"env": "e"}))}))
        }),
        door("/api/v2/logs", JSON, "metadata.service", |tenant, message| {
            bytes(&json!([with("service", tenant, json!({"message": message, "hostname": "h"}))]))
        }),
        door("/logs/firehose", JSON, "service", |tenant, message| {
            firehose(&[&with("service", tenant, json!({"message": message})).to_string()])
        }),
        door("/logs/logplex", "application/logplex-1", "metadata.appname", frame),
    ];
    for path in
        ["/logs/json", "/logs/vector", "/logs/elixir/logger", "/logs/cloudflare", "/logs/vercel", "/logs/netlify"]
    {
        all.push(door(path, JSON, "metadata.tenant", nested));
    }
    all
}

fn token(server: &Server, scopes: &str, pinned: &Value) -> String {
    server.token(&json!({"scopes": scopes, "pinned": pinned}))
}

fn source(server: &Server, name: &str, tenant: &Value) {
    server.manage("POST", "/api/sources", &json!({"name": name, "tenant": tenant})).is(201);
    let endpoint =
        json!({"name": format!("rows.{name}"), "query": format!("SELECT * FROM `{name}` ORDER BY event_message")});
    server.save(&endpoint);
}

fn read(server: &Server, token: &str, source: &str) -> Vec<Value> {
    let path = format!("/api/endpoints/query/rows.{source}");
    server.call("GET", &path, &[("x-api-key", token)], b"").column("event_message")
}

fn post(server: &Server, token: &str, path: &str, kind: &str, source: &str, body: &[u8]) -> Raw {
    let mut headers = vec![("x-api-key", token), ("content-type", kind), ("te", "trailers")];
    if !source.is_empty() {
        headers.push(("x-source-name", source));
    }
    server.fetch("POST", path, &headers, body)
}

fn logs(server: &Server, token: &str, source: &str, body: &Value) -> Answer {
    let path = format!("/api/logs?{}", query_string(&[("source_name", source)]));
    server.call("POST", &path, &[("x-api-key", token), ("content-type", JSON)], body.to_string().as_bytes())
}

/// All that an answer says, in whatever way its protocol says it.
fn told(answer: &Raw) -> String {
    let status = answer.header("grpc-message").unwrap_or_default();
    format!("{} {}", String::from_utf8_lossy(&answer.body), status)
}

/// Whether an answer says that what was sent is stored.
fn is_good(answer: &Raw) -> bool {
    answer.status < 300 && answer.header("grpc-status").is_none() && !told(answer).contains("\"errors\":true")
}

#[test]
fn at_every_door_the_key_is_set_and_another_value_refused() {
    let server = Server::start();
    let sender = token(&server, "ingest", &json!({"project": "abc"}));
    let [own, other] = ["abc", "xyz"].map(|tenant| token(&server, "query", &json!({"project": tenant})));
    for (nth, Door { path, kind, field, body }) in doors().into_iter().enumerate() {
        let name = format!("door.{nth}");
        source(&server, &name, &json!({"project": field}));
        for (tenant, message) in [(None, "set"), (Some("abc"), "the same")] {
            let answer = post(&server, &sender, path, kind, &name, &body(tenant, message));
            assert!(is_good(&answer), "{path} {message}: {} {}", answer.status, told(&answer));
        }
        for foreign in ["xyz", "ABC", ""] {
            let answer = post(&server, &sender, path, kind, &name, &body(Some(foreign), "foreign"));
            let told = told(&answer);
            // A label, an attribute or a name without a text is as if it were not there, where a protocol has it so.
            if foreign.is_empty() && is_good(&answer) {
                continue;
            }
            assert!(!told.contains("xyz") && !told.contains("ABC"), "{path}: {told}");
            assert!(!is_good(&answer), "{path} {foreign}: {told}");
            if foreign == "xyz" {
                assert!(told.contains("sends logs of project 'abc' only"), "{path}: {told}");
                assert!(told.contains("another value at"), "{path}: {told}");
            }
        }
        let messages = read(&server, &own, &name);
        let mut kept: Vec<_> = messages.iter().filter(|message| **message != "foreign").collect();
        kept.dedup();
        assert_eq!(kept, [&json!("set"), &json!("the same")], "{path}");
        assert!(read(&server, &other, &name).is_empty(), "{path}");
        // Nobody has what was refused, nor are there rows of nobody.
        assert_eq!(server.query(&format!("rows.{name}"), &[]).column("event_message"), messages, "{path}");
    }
}

#[test]
fn at_every_door_a_source_that_cannot_hold_the_logs_of_a_tenant_is_refused() {
    let server = Server::start();
    source(&server, "keyed", &json!({"project": "project"}));
    source(&server, "team", &json!({"team": "team"}));
    source(&server, "shared", &json!("shared"));
    source(&server, "undeclared", &Value::Null);
    let sender = token(&server, "ingest", &json!({"project": "abc"}));
    let misspelt = token(&server, "ingest", &json!({"projct": "abc"}));
    let both = token(&server, "ingest", &json!({"project": "abc", "team": "t"}));
    for Door { path, kind, body, .. } in doors() {
        for (token, source, word) in [
            (&sender, "shared", "for all tenants"),
            (&sender, "undeclared", "does not say whose"),
            (&sender, "team", "does not have the tenant key project"),
            (&both, "keyed", "does not have the tenant key team"),
            (&misspelt, "keyed", "no source has the tenant key projct"),
            (&misspelt, "shared", "no source has the tenant key projct"),
        ] {
            let answer = post(&server, token, path, kind, source, &body(None, "m"));
            let status = if kind == GRPC { 200 } else { 403 };
            assert_eq!(answer.status, status, "{path} {source}: {}", told(&answer));
            assert!(kind != GRPC || answer.header("grpc-status").as_deref() == Some("7"), "{source}");
            assert!(told(&answer).contains(word), "{path} {source}: {}", told(&answer));
        }
    }
    for source in ["keyed", "team", "shared", "undeclared"] {
        assert!(server.query(&format!("rows.{source}"), &[]).rows().is_empty(), "{source}");
    }
    // What a source does not say today it may say tomorrow.
    let tenant = json!({"tenant": {"project": "p"}});
    server.manage("PATCH", "/api/sources/undeclared", &tenant).is(200);
    assert_eq!(logs(&server, &sender, "undeclared", &json!({"a": 1})).status, 200);
}

#[test]
fn a_refused_event_costs_only_itself_and_is_told_by_its_number() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    source(&server, "a", &json!({"project": "metadata.project"}));
    let sender = token(&server, "ingest:source:a", &json!({"project": "abc"}));
    let events = json!([
        {"id": "0", "event_message": "0"},
        {"id": "1", "event_message": "1", "metadata": {"project": "abc"}},
        {"id": "2", "event_message": "2", "metadata": [{"project": "abc"}, {"x": 1}]},
        {"id": "3", "event_message": "3", "metadata": {"project": "xyz"}},
        {"id": "4", "event_message": "4", "metadata": "text"},
        {"id": "5", "event_message": "5", "metadata": [{"project": "abc"}, {"project": "xyz"}]},
    ]);
    let answer = logs(&server, &sender, "a", &events);
    assert_eq!((answer.status, &answer.body["accepted"], &answer.body["rejected"]), (200, &json!(3), &json!(3)));
    let other = "the token sends logs of project 'abc' only; the event has another value at metadata.project";
    let no_record = "the token sends logs of project 'abc' only; it cannot be set at metadata.project, because the event \
                     has no record at metadata";
    let errors = json!([
        {"index": 3, "message": other},
        {"index": 4, "message": no_record},
        {"index": 5, "message": other},
    ]);
    assert_eq!(answer.body["errors"], errors);
    let own = token(&server, "query", &json!({"project": "abc"}));
    let rows = server.call("GET", "/api/endpoints/query/rows.a", &[("x-api-key", &own)], b"");
    assert_eq!(rows.ids(), ["0", "1", "2"]);
    server.until_flushed();
    assert_eq!(read(&server, &own, "a"), ["0", "1", "2"]);
    // Nothing but the tenant's own is refused whole, and says which.
    let answer = logs(&server, &sender, "a", &json!([{"metadata": {"project": "xyz"}}]));
    answer.refused(400, "invalid_body", &["event 0: the token sends logs of project 'abc' only"]);
    assert!(!answer.body.to_string().contains("xyz"), "{}", answer.body);
    // Keys of requests mean what they mean for others.
    let path = "/api/logs?source_name=a";
    let headers = [("x-api-key", &*sender), ("content-type", JSON), ("idempotency-key", "k1")];
    for _ in 0..2 {
        server.call("POST", path, &headers, b"{\"id\":\"6\",\"event_message\":\"6\"}").is(200);
    }
    server.call("POST", path, &headers, b"{\"id\":\"7\"}").refused(422, "key_reused", &[]);
    assert_eq!(read(&server, &own, "a"), ["0", "1", "2", "6"]);
    // A source that the scope does not name is as before.
    source(&server, "b", &json!({"project": "project"}));
    logs(&server, &sender, "b", &json!({})).refused(401, "unauthorized", &[]);
}

#[test]
fn a_body_that_names_its_source_is_held_to_that_source() {
    let server =
        Server::start_set(&[("TIDEGATE_DOORS_LOGS_SOURCE", "first"), ("TIDEGATE_DOORS_ELASTICSEARCH_SOURCE", "first")]);
    source(&server, "first", &json!({"project": "project"}));
    source(&server, "second", &json!({"project": "metadata.project"}));
    source(&server, "shared", &json!("shared"));
    let sender = token(&server, "ingest", &json!({"project": "abc"}));
    let own = token(&server, "query", &json!({"project": "abc"}));
    let send = |body: &Value| {
        let answer = post(&server, &sender, "/api/logs", JSON, "", body.to_string().as_bytes());
        (answer.status, told(&answer))
    };
    // What is another's at the default source is an ordinary field of the one that is named.
    let events =
        json!([{"event_message": "a", "project": "xyz"}, {"event_message": "b", "metadata": {"project": "xyz"}}]);
    let (status, told) = send(&json!({"source_name": "second", "batch": events}));
    assert!(status == 200 && told.contains("\"index\":1") && told.contains("\"accepted\":1"), "{status} {told}");
    assert_eq!(send(&json!({"source": "first", "event_message": "c"})).0, 200);
    assert_eq!(send(&json!({"event_message": "d"})).0, 200);
    assert_eq!(send(&json!({"event_message": "e", "project": "xyz"})).0, 400);
    let (status, told) = send(&json!({"source_name": "shared", "batch": [{"event_message": "f"}]}));
    assert!(status == 403 && told.contains("for all tenants"), "{status} {told}");
    assert_eq!(
        (read(&server, &own, "first"), read(&server, &own, "second")),
        (vec![json!("c"), json!("d")], vec![json!("a")])
    );
    assert_eq!(server.query("rows.second", &[]).column("project"), ["xyz"]);

    // Events that name their own sources are refused one by one; what is there does not go to the default instead.
    let event = |source: &str, event: Value| format!("{{\"create\":{{\"_index\":\"{source}\"}}}}\n{event}\n");
    let body = [
        event("first", json!({"message": "g"})),
        event("second", json!({"message": "h", "metadata": {"project": "xyz"}})),
        event("shared", json!({"message": "i"})),
        event("shared-2025.11.20", json!({"message": "j"})),
        event("nowhere", json!({"message": "k"})),
    ]
    .concat();
    let answer = post(&server, &sender, "/_bulk", JSON, "", body.as_bytes());
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let statuses: Vec<&Value> =
        answer["items"].as_array().unwrap().iter().map(|item| &item["create"]["status"]).collect();
    // An index that is not there goes to the default before its name without the date is tried, as for all senders.
    assert_eq!(statuses, [201, 400, 403, 201, 201], "{answer}");
    assert_eq!(read(&server, &own, "first"), ["c", "d", "g", "j", "k"]);
    assert!(server.query("rows.shared", &[]).rows().is_empty());
}

#[test]
fn several_pins_are_each_set() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    source(&server, "a", &json!({"project": "metadata.project", "team": "metadata.team", "region": "region"}));
    let sender = token(&server, "ingest", &json!({"project": "42", "team": "true"}));
    let events = json!([
        {"event_message": "a"},
        {"event_message": "b", "metadata": {"project": 42}},
        {"event_message": "c", "metadata": {"project": "42", "team": true}},
        {"event_message": "d", "metadata": {"project": 42, "team": "other"}},
        {"event_message": "e", "metadata": {"project": 43}},
        {"event_message": "f", "metadata": {"project": 42.0}},
    ]);
    let answer = logs(&server, &sender, "a", &events);
    assert_eq!((&answer.body["accepted"], &answer.body["rejected"]), (&json!(3), &json!(3)), "{}", answer.body);
    let own = token(&server, "query", &json!({"project": "42", "team": "true"}));
    assert_eq!(read(&server, &own, "a"), ["a", "b", "c"]);
    server.until_flushed();
    assert_eq!(read(&server, &own, "a"), ["a", "b", "c"]);
    let other = token(&server, "query", &json!({"project": "42", "team": "other"}));
    assert!(read(&server, &other, "a").is_empty());
}

#[test]
fn hostile_events_cost_no_more_than_others() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    let path = (0..16).map(|level| format!("{level:0100}")).collect::<Vec<_>>().join(".");
    source(&server, "wide", &json!({"project": "m.project"}));
    source(&server, "deep", &json!({"project": path}));
    let sender = token(&server, "ingest", &json!({"project": "abc"}));
    let send = |source: &str, body: &[u8]| {
        let headers = [("x-api-key", &*sender), ("content-type", JSON), ("content-encoding", "gzip")];
        server.call("POST", &format!("/api/logs?source_name={source}"), &headers, &gzip(body))
    };
    // As many records as an event may have, in each of which the value is set; and more.
    let records = vec!["{\"a\":1}"; 40_000].join(",");
    let wide = vec![format!("{{\"m\":[{records}]}}"); 20].join(",");
    let answer = send("wide", format!("[{wide}]").as_bytes());
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(20)), "{}", answer.body);
    let many = format!("{{\"m\":[{}]}}", vec!["{}"; 200_000].join(","));
    send("wide", many.as_bytes()).refused(400, "invalid_body", &["100000 JSON values"]);
    // A path of 1.6 KiB that each of 30,000 records lacks.
    let first = format!("{:0100}", 0);
    let records = vec!["{\"a\":1}"; 30_000].join(",");
    let deep = vec![format!("{{\"{first}\":[{records}]}}"); 20].join(",");
    send("deep", format!("[{deep}]").as_bytes()).refused(400, "invalid_body", &["1048576 are allowed"]);
    assert!(server.peak_memory() < 500, "{} MiB", server.peak_memory());
    // Of repeated keys the last counts, in whatever spelling, and a name in another case is another name.
    for (body, status) in [
        ("{\"m\":{\"project\":\"abc\",\"project\":\"xyz\"}}", 400),
        ("{\"m\":{\"project\":\"abc\"},\"\\u006d\":{\"project\":\"xyz\"}}", 400),
        ("{\"m\":{\"project\":\"abc\",\"pr\\u006fject\":\"xyz\"}}", 400),
        ("{\"m\":{\"Project\":\"xyz\"}}", 200),
        ("{\"m.project\":\"xyz\"}", 200),
        ("{\"_overflow\":{\"/m/project\":\"xyz\",\"m\":{\"project\":\"xyz\"}}}", 200),
        ("{\"m\":{\"_overflow_fields\":{\"project\":\"xyz\"}}}", 200),
        ("{\"m\":{\"_overflow_value\":\"{\\\"project\\\":\\\"xyz\\\"}\"}}", 200),
    ] {
        assert_eq!(send("wide", body.as_bytes()).status, status, "{body}");
    }
    let other = token(&server, "query", &json!({"project": "xyz"}));
    assert!(read(&server, &other, "wide").is_empty());
    server.until_flushed();
    assert!(read(&server, &other, "wide").is_empty());
    let own = token(&server, "query", &json!({"project": "abc"}));
    assert_eq!(read(&server, &own, "wide").len(), 25);
}

#[test]
fn syslog_with_a_token_of_a_tenant_is_held_to_it() {
    let server = syslog::start(&[]);
    source(&server, "own", &json!({"project": "metadata.app_name"}));
    source(&server, "shared", &json!("shared"));
    let sender = token(&server, "ingest", &json!({"project": "abc"}));
    let message = |source: &str, app: &str, text: &str| {
        format!(
            "<13>1 2025-11-20T10:15:02Z h {app} 1 - [tidegate@32473 token=\"{sender}\" source=\"{source}\"] {text}\n"
        )
    };
    let sent =
        [("own", "-", "set"), ("own", "abc", "the same"), ("own", "xyz", "foreign"), ("shared", "abc", "nobody's")];
    let sent: String = sent.into_iter().map(|(source, app, text)| message(source, app, text)).collect();
    let _stream = syslog::send(&server, sent.as_bytes());
    let [own, other] = ["abc", "xyz"].map(|tenant| token(&server, "query", &json!({"project": tenant})));
    until("the messages are stored", || read(&server, &own, "own").len() >= 2);
    assert_eq!(read(&server, &own, "own"), ["set", "the same"]);
    assert!(read(&server, &other, "own").is_empty());
    for (reason, count) in [("invalid", 1.0), ("not_for_tenant", 1.0)] {
        assert!((syslog::refused(&server, reason) - count).abs() < 0.1, "{reason}");
    }
    assert_eq!(server.query("rows.own", &[]).rows().len(), 2);
    assert!(server.query("rows.shared", &[]).rows().is_empty());
    assert!(!server.log().contains("xyz"));
}

#[test]
fn the_command_line_makes_such_tokens_and_imports_with_them() {
    let own = tidegate_tests::folder();
    let data = own.path().join("data");
    let server = Server::start_in(&data);
    source(&server, "own", &json!({"project": "project"}));
    source(&server, "shared", &json!("shared"));
    let made = Command::new(binary())
        .args(["token", "create", "--scopes", "ingest", "--pin", "project=abc", "--data-dir"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let sender = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let import = |source: &str, input: &str| -> Output {
        let mut child = Command::new(binary())
            .args(["import", "--source", source, "--url", &server.base, "-"])
            .env("TIDEGATE_TOKEN", &sender)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let lines = [
        json!({"event_message": "set"}),
        json!({"event_message": "foreign", "project": "xyz"}),
        json!({"event_message": "the same", "project": "abc"}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let out = import("own", &lines);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "2 events stored, 1 refused\n", "{out:?}");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(
        told.contains("line 2: ") && told.contains("logs of project 'abc' only") && !told.contains("xyz"),
        "{told}"
    );
    let out = import("shared", &lines);
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("for all tenants"), "{out:?}");
    let reader = token(&server, "query", &json!({"project": "abc"}));
    assert_eq!(read(&server, &reader, "own"), ["set", "the same"]);
    assert!(server.query("rows.shared", &[]).rows().is_empty());
}
