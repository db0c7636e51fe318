//! Logs as OpenTelemetry sends them, in both encodings. The real SDK is tried by `cargo xtask clients`.

use std::io::Write;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use serde_json::{Value, json};
use tidegate_tests::{Answer, PUBLIC, Raw, Server};

const TIME: i64 = 1_763_633_702_123_456;
const SOURCE: &str = "postgres.logs";

fn any(value: Any) -> Option<AnyValue> {
    Some(AnyValue { value: Some(value) })
}

pub(crate) fn text(text: &str) -> Option<AnyValue> {
    any(Any::StringValue(text.to_owned()))
}

pub(crate) fn pair(key: &str, value: Option<AnyValue>) -> KeyValue {
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

pub(crate) fn record(message: &str) -> LogRecord {
    LogRecord { time_unix_nano: 1_763_633_702_123_456_789, body: text(message), ..LogRecord::default() }
}

fn export(records: Vec<LogRecord>) -> Vec<u8> {
    let attributes = vec![pair("service.name", text("api")), pair("project", text("p1"))];
    let scope = InstrumentationScope { name: "lib".to_owned(), version: "2".to_owned(), ..Default::default() };
    let scope_logs = vec![ScopeLogs { scope: Some(scope), log_records: records, ..ScopeLogs::default() }];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let resource_logs = vec![ResourceLogs { resource, scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

/// Sends protobuf; the answer in the same encoding.
fn send(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> (Answer, Vec<u8>) {
    let mut all = vec![("content-type", "application/x-protobuf"), ("x-api-key", PUBLIC)];
    if !headers.iter().any(|(name, _)| name.starts_with("x-source")) {
        all.push(("x-source-name", SOURCE));
    }
    all.extend_from_slice(headers);
    let Raw { status, headers, body } = server.fetch("POST", "/v1/logs", &all, body);
    (Answer { status, headers, body: Value::Null }, body)
}

fn send_json(server: &Server, body: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("x-api-key", PUBLIC), ("x-source-name", SOURCE)];
    server.call("POST", "/v1/logs", &headers, body.to_string().as_bytes())
}

#[test]
fn both_encodings_come_out_alike() {
    let server = Server::start();
    let mut own = record("from protobuf");
    own.severity_number = 17;
    own.severity_text = "ERROR".to_owned();
    own.trace_id = vec![0xab; 16];
    own.span_id = vec![1; 8];
    own.attributes = vec![
        pair("http.request.method", text("GET")),
        pair("big", any(Any::IntValue(i64::MIN + 1))),
        pair("bytes", any(Any::BytesValue(vec![0, 255, 16]))),
    ];
    let (answer, body) = send(&server, &[], &export(vec![own]));
    assert_eq!((answer.status, body.len()), (200, 0), "{body:?}");
    assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
    let sent = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "api"}}, {"key": "project", "value": {"stringValue": "p1"}}]},
        "scopeLogs": [{"scope": {"name": "lib", "version": "2"}, "logRecords": [{
            "timeUnixNano": "1763633702123456789", "severityNumber": 17, "severityText": "ERROR",
            "body": {"stringValue": "from json"}, "traceId": "AB".repeat(16), "spanId": "0101010101010101",
            "attributes": [
                {"key": "http.request.method", "value": {"stringValue": "GET"}},
                {"key": "big", "value": {"intValue": (i64::MIN + 1).to_string()}},
                {"key": "bytes", "value": {"bytesValue": "AP8Q"}},
            ],
        }]}],
    }]});
    let answer = send_json(&server, &sent);
    assert_eq!((answer.status, &answer.body), (200, &json!({})));
    let rows = server.sql(
        "select event_message, timestamp, m.type as type, m.severity_number as severity, m.severity_text as level, \
                m.trace_id as trace, m.span_id as span, s.name as scope, s.version as version, \
                r.`service.name` as service, a.`http.request.method` as method, a.big as big, a.bytes as bytes \
         from postgres_logs cross join unnest(metadata) as m cross join unnest(m.scope) as s \
         cross join unnest(m.resource) as r cross join unnest(m.attributes) as a order by event_message",
    );
    let expected = |message: &str| {
        json!({
            "event_message": message, "timestamp": TIME, "type": "otel_log", "severity": 17, "level": "ERROR",
            "trace": "ab".repeat(16), "span": "01".repeat(8), "scope": "lib", "version": "2",
            "service": "api", "method": "GET", "big": i64::MIN + 1, "bytes": "AP8Q",
        })
    };
    assert_eq!(rows.rows(), [expected("from json"), expected("from protobuf")]);
    // Dotted names in filters too.
    let sql = "select event_message from postgres_logs cross join unnest(metadata) as m cross join unnest(m.resource) as r \
               cross join unnest(m.attributes) as a where r.`service.name` = 'api' and a.`http.request.method` = 'PUT'";
    assert_eq!(server.sql(sql).rows(), [] as [Value; 0]);
    assert_eq!(server.sql(&sql.replace("PUT", "GET")).rows().len(), 2);
}

#[test]
fn sources_are_named_as_at_the_other_doors_and_bodies_may_be_packed() {
    let server = Server::start();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&export(vec![record("gzip")])).unwrap();
    assert_eq!(send(&server, &[("content-encoding", "gzip")], &gzip.finish().unwrap()).0.status, 200);
    let sources = server.call("GET", "/api/sources", &[("x-api-key", tidegate_tests::PRIVATE)], b"");
    let sources = sources.body.as_array().cloned().unwrap_or_default();
    let own = sources.iter().find(|source| source["name"] == SOURCE).unwrap();
    let id = own.get("token").or_else(|| own.get("id")).and_then(Value::as_str).unwrap();
    assert_eq!(send(&server, &[("x-source", id)], &export(vec![record("uuid")])).0.status, 200);
    let headers = [("content-type", "application/x-protobuf"), ("authorization", &*format!("Bearer {PUBLIC}"))];
    let path = format!("/v1/logs?source_name={SOURCE}");
    server.call("POST", &path, &headers, &export(vec![record("query")])).is(200);
    let messages = server.sql("select event_message from postgres_logs order by event_message").column("event_message");
    assert_eq!(messages, [json!("gzip"), json!("query"), json!("uuid")]);
}

#[test]
fn what_is_refused_is_counted_and_the_rest_is_stored() {
    let server = Server::start();
    let body = export(vec![record("a"), record(&"x".repeat(1 << 20)), record("b")]);
    let (answer, body) = send(&server, &[], &body);
    assert_eq!(answer.status, 200);
    let partial = ExportLogsServiceResponse::decode(&body[..]).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_log_records, 1);
    assert!(partial.error_message.contains("log record 1") && partial.error_message.contains("1048576"), "{partial:?}");
    let answer = send_json(
        &server,
        &json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "project", "value": {"stringValue": "p1"}}]},
            "scopeLogs": [{"logRecords": [{"body": {"stringValue": "c"}}, {"body": "bare"}]}],
        }]}),
    );
    assert_eq!(
        (answer.status, &answer.body["partialSuccess"]["rejectedLogRecords"]),
        (200, &json!("1")),
        "{}",
        answer.body
    );
    let messages = server.sql("select event_message from postgres_logs order by event_message").column("event_message");
    assert_eq!(messages, [json!("a"), json!("b"), json!("c")]);
}

#[test]
fn refusals_are_a_status_in_the_encoding_of_the_request() {
    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
    }
    let server = Server::start();
    let good = export(vec![record("x")]);
    let refused = |headers: &[(&str, &str)], body: &[u8], status: u16, code: i32, word: &str| {
        let (answer, body) = send(&server, headers, body);
        let told = Status::decode(&body[..]).unwrap();
        assert_eq!((answer.status, told.code), (status, code), "{told:?}");
        assert!(told.message.contains(word), "{told:?}");
        assert_eq!(answer.header("content-type"), Some("application/x-protobuf"));
    };
    refused(&[("x-source-name", "")], &good, 400, 3, "OTEL_EXPORTER_OTLP_HEADERS");
    refused(&[("x-source-name", "nothing")], &good, 401, 16, "source");
    refused(&[("authorization", "Bearer nobody")], &good, 401, 16, "token");
    refused(&[], b"no protobuf", 400, 3, "Protocol Buffers");
    refused(&[("content-encoding", "gzip")], &good, 400, 3, "gzip");
    refused(&[("content-encoding", "br")], &good, 415, 3, "zstd");
    refused(&[], &vec![0; (16 << 20) + 1], 413, 8, "16777216");
    refused(&[], &export(vec![record(&"x".repeat(2 << 20))]), 400, 3, "event 0");
    let answer = send_json(&server, &json!({"resourceLogs": 5}));
    answer.refused(400, "invalid_body", &["JSON"]);
    assert_eq!((&answer.body["code"], &answer.body["message"]), (&json!(3), &answer.body["error"]["message"]));
    let headers = [("content-type", "text/plain"), ("x-api-key", PUBLIC), ("x-source-name", SOURCE)];
    let answer = server.call("POST", "/v1/logs", &headers, b"{}");
    answer.refused(415, "unsupported_media_type", &["application/x-protobuf", "application/json"]);
    assert_eq!(server.sql("select count(*) as c from postgres_logs").column("c"), [json!(0)]);
}

#[test]
fn a_small_body_does_not_become_a_large_one() {
    let server = Server::start();
    // Eight million empty records in sixteen megabytes, and many records with one large resource.
    let field = |tag: u8, inner: &[u8]| {
        let mut out = vec![tag];
        prost::encode_length_delimiter(inner.len(), &mut out).unwrap();
        out.extend_from_slice(inner);
        out
    };
    let empty = field(0x0a, &field(0x12, &[0x12, 0x00].repeat(8_000_000)));
    let large = Resource { attributes: vec![pair("a", text(&"x".repeat(1 << 19)))], ..Resource::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![record(""); 50_000], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { resource: Some(large), scope_logs, ..ResourceLogs::default() }];
    let repeated = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    for body in [empty, repeated] {
        let (answer, _) = send(&server, &[], &body);
        assert_eq!(answer.status, 413);
    }
    assert!(server.peak_memory() < 500, "{} MiB", server.peak_memory());
}

/// An SDK that is given one address sends its spans and metrics there, too.
#[test]
fn spans_and_metrics_are_told_that_only_logs_are_stored() {
    let server = Server::start();
    let spans = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}, {"name": "b"}]}]}]}"#;
    let points = r#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"gauge": {"dataPoints": [{}, {}]}}]}]}]}"#;
    for (path, sent, rejected) in
        [("/v1/traces", spans, "rejectedSpans"), ("/v1/metrics", points, "rejectedDataPoints")]
    {
        let json = ("content-type", "application/json");
        let told = server.call("POST", path, &[json, ("x-api-key", PUBLIC)], sent.as_bytes());
        assert_eq!((told.status, &told.body["partialSuccess"][rejected]), (200, &json!("2")), "{}", told.body);
        let message = told.body["partialSuccess"]["errorMessage"].as_str().unwrap();
        assert!(message.contains("only logs") && message.contains("OTEL_TRACES_EXPORTER=none"), "{message}");
        let headers = [("content-type", "application/x-protobuf"), ("authorization", &format!("Bearer {PUBLIC}"))];
        let Raw { status, body, .. } = server.fetch("POST", path, &headers, b"\x0a\x00");
        assert_eq!(status, 200);
        let answer = ExportLogsServiceResponse::decode(&body[..]).unwrap();
        assert!(answer.partial_success.unwrap().error_message.contains("only logs"));
        server.call("POST", path, &[json], b"{}").is(401);
    }
}
