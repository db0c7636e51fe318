//! Bodies and heads as senders write them that are no package to install here: Vector, Filebeat, Logstash,
//! Promtail, Datadog's agent. They are made after the documents of their protocols and outputs.

use serde_json::{Value, json};
use tidegate_tests::{PUBLIC, Server};

use crate::doors::{SOURCE, gzip, rows};

const TIME: i64 = 1_763_633_702_123_456;

fn basic() -> String {
    use base64::Engine;
    format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("any:{PUBLIC}")))
}

/// Sends a body with the token as the password; the status.
fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: &[u8]) -> u16 {
    let basic = basic();
    let mut all = vec![("authorization", basic.as_str())];
    all.extend_from_slice(headers);
    let answer = server.fetch("POST", path, &all, body);
    assert!(answer.status < 300, "{path}: {}", answer.text());
    if path.ends_with("_bulk") || path.contains("_bulk?") {
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(told["errors"], false, "{told}");
    }
    answer.status
}

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

#[test]
fn bulk_requests_of_the_usual_shippers_are_taken() {
    let server = Server::start();
    let json = ("content-type", "application/json");
    let ndjson = ("content-type", "application/x-ndjson");
    // Vector: the type of older versions, gzip.
    let vector = lines(&[
        json!({"create": {"_index": SOURCE, "_type": "_doc"}}),
        json!({"message": "vector", "timestamp": "2025-11-20T10:15:02.123456Z", "host": "h"}),
    ]);
    let packed = [ndjson, ("content-encoding", "gzip")];
    assert_eq!(send(&server, "/_bulk?timeout=60s", &packed, &gzip(&vector)), 200);
    // Filebeat: an index a version and a day, a record `log`, and only parts of the answer wanted.
    let filebeat = lines(&[
        json!({"create": {"_index": format!("{SOURCE}-2025.11.20")}}),
        json!({
            "@timestamp": "2025-11-20T10:15:02.123456Z", "message": "filebeat", "log": {"offset": 1, "file": {"path": "/var/log/x"}},
            "@metadata": {"beat": "filebeat"}, "agent": {"type": "filebeat"}, "ecs": {"version": "8.0.0"},
        }),
    ]);
    let path = "/_bulk?filter_path=errors%2Citems.%2A.error%2Citems.%2A.status";
    assert_eq!(send(&server, path, &[("content-type", "application/json; charset=UTF-8")], &filebeat), 200);
    // Logstash: what it has no value for is null.
    let logstash = lines(&[
        json!({"index": {"_id": null, "_index": SOURCE, "routing": null}}),
        json!({"@timestamp": "2025-11-20T10:15:02.123456Z", "@version": "1", "message": "logstash", "event": {"original": "logstash"}}),
    ]);
    assert_eq!(send(&server, "/_bulk", &[json], &logstash), 200);
    let expected = ["filebeat", "logstash", "vector"];
    let expected = expected.map(|message| json!({"event_message": message, "timestamp": TIME}));
    assert_eq!(rows(&server, "event_message, timestamp"), expected);
}

#[test]
fn pushes_of_the_usual_shippers_are_taken() {
    let server = Server::start();
    let tenant = ("x-scope-orgid", SOURCE);
    // Vector: with structured metadata.
    let vector = json!({"streams": [{
        "stream": {"source": "vector"}, "values": [["1763633702123456789", "b", {"trace_id": "t"}]],
    }]});
    let packed = [("content-type", "application/json"), ("content-encoding", "gzip"), tenant];
    assert_eq!(send(&server, "/loki/api/v1/push", &packed, &gzip(vector.to_string().as_bytes())), 204);
    let found = rows(&server, "event_message, timestamp, m.source as origin, m.trace_id as trace");
    assert_eq!(found, [json!({"event_message": "b", "timestamp": TIME, "origin": "vector", "trace": "t"})]);
}

#[test]
fn events_for_splunk_and_datadog_are_taken_from_the_usual_shippers() {
    let server =
        Server::start_set(&[("TIDEGATE_DOORS_SPLUNK_SOURCE", SOURCE), ("TIDEGATE_DOORS_DATADOG_SOURCE", SOURCE)]);
    let splunk = format!("Splunk {PUBLIC}");
    // Fluent Bit and Vector: objects behind each other.
    let bodies = [
        json!({"time": 1_763_633_702.123_456, "event": {"log": "a", "stream": "stdout"}}),
        json!({"event": {"message": "b", "level": "info"}, "fields": {"env": "e"}, "time": 1_763_633_702.123_456, "host": "h"}),
    ];
    let body = bodies.map(|body| body.to_string()).concat();
    let headers = [("authorization", splunk.as_str()), ("content-encoding", "gzip")];
    let answer = server.call("POST", "/services/collector/event", &headers, &gzip(body.as_bytes()));
    assert_eq!((answer.status, answer.body), (200, json!({"text": "Success", "code": 0})));
    // Datadog's agent: milliseconds, its tags as a text.
    let agent = json!([{
        "message": "c", "status": "info", "timestamp": TIME / 1000, "hostname": "h", "service": "s", "ddsource": "x", "ddtags": "env:e,team:t",
    }]);
    let headers = [("dd-api-key", PUBLIC), ("content-type", "application/json"), ("content-encoding", "gzip")];
    let answer = server.call("POST", "/api/v2/logs", &headers, &gzip(agent.to_string().as_bytes()));
    assert_eq!((answer.status, answer.body), (202, json!({})));
    let found = rows(&server, "event_message, timestamp, m.ddtags as tags, m.env as env");
    let row = |message: &str, timestamp: i64, tags: Value, env: Value| json!({"event_message": message, "timestamp": timestamp, "tags": tags, "env": env});
    assert_eq!(
        found,
        [
            row("a", TIME, Value::Null, Value::Null),
            row("b", TIME, Value::Null, json!("e")),
            row("c", TIME / 1000 * 1000, json!("env:e,team:t"), Value::Null),
        ]
    );
}
