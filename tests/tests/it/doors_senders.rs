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

#[test]
fn an_index_of_splunk_that_is_no_source_goes_to_the_default() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_SPLUNK_SOURCE", SOURCE)]);
    let headers = [("x-api-key", PUBLIC)];
    let send = |query: &str, event: &Value| {
        let path = format!("/services/collector/event{query}");
        server.call("POST", &path, &headers, event.to_string().as_bytes()).status
    };
    // splunk-logging has the text or the record beside a severity; Docker has `line`.
    assert_eq!(send("?index=main", &json!({"event": {"message": {"user": {"id": 7}}, "severity": "info"}})), 200);
    assert_eq!(send("?index=", &json!({"event": {"line": "from docker", "tag": "t"}})), 200);
    assert_eq!(send("?index=postgres.logs", &json!({"time": 1_763_633_702, "event": {"a": 1}})), 200);
    let found = rows(&server, "event_message, message[0].user[0].id as user, severity, a");
    let row = |message: &str, user: Value, severity: Value, a: Value| json!({"event_message": message, "user": user, "severity": severity, "a": a});
    let expected = [
        row("from docker", Value::Null, Value::Null, Value::Null),
        row("{\"a\":1}", Value::Null, Value::Null, json!(1)),
        row("{\"user\":{\"id\":7}}", json!(7), json!("info"), Value::Null),
    ];
    assert_eq!(found, expected);
    // Without a default, a name that is none is told.
    let bare = Server::start();
    let answer = bare.call("POST", "/services/collector/event?index=main", &headers, b"{\"event\": \"m\"}");
    assert_eq!((answer.status, &answer.body["code"]), (401, &json!(4)));
}

#[test]
fn the_query_string_of_datadog_has_fields() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_DATADOG_SOURCE", SOURCE)]);
    let path = "/api/v2/logs?ddsource=node&service=api&hostname=h&ddtags=env%3Ae%2Cteam%3At&other=x";
    let body = json!([{"message": "a"}, {"message": "b", "service": "own", "ddtags": "x:y"}]).to_string();
    let json = [("dd-api-key", PUBLIC), ("content-type", "application/json")];
    server.call("POST", path, &json, body.as_bytes()).is(202);
    let text = [("dd-api-key", PUBLIC), ("content-type", "text/plain")];
    server.call("POST", path, &text, b"c\n").is(202);
    let found = rows(
        &server,
        "event_message, m.ddsource as origin, m.service as service, m.hostname as host, m.ddtags as tags",
    );
    let row = |message: &str, service: &str, tags: &str| json!({"event_message": message, "origin": "node", "service": service, "host": "h", "tags": tags});
    let tags = "env:e,team:t";
    assert_eq!(found, [row("a", "api", tags), row("b", "own", &format!("x:y,{tags}")), row("c", "api", tags)]);
}

#[test]
fn a_delivery_of_cloudwatch_is_its_log_events() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_FIREHOSE_SOURCE", SOURCE)]);
    let delivery = |kind: &str, events: Value| {
        json!({"messageType": kind, "owner": "1", "logGroup": "/aws/lambda/f", "logStream": "s", "subscriptionFilters": ["all"], "logEvents": events})
            .to_string()
    };
    let log = |id: &str, message: &str| json!({"id": id, "timestamp": TIME / 1000, "message": message});
    let one = delivery("DATA_MESSAGE", json!([log("1", "a"), log("2", "{\"level\":\"info\"}")]));
    let probe =
        delivery("CONTROL_MESSAGE", json!([log("", "CWL CONTROL MESSAGE: Checking health of destination Firehose.")]));
    let body = crate::doors::firehose(&[&format!("{one}{}", delivery("DATA_MESSAGE", json!([log("3", "c")]))), &probe]);
    let headers = [("x-amz-firehose-access-key", PUBLIC), ("x-amz-firehose-request-id", "7")];
    let answer = server.call("POST", "/logs/firehose", &headers, &body);
    assert_eq!((answer.status, &answer.body["requestId"]), (200, &json!("7")));
    let found = rows(&server, "id, event_message, timestamp, m.logGroup as log_group");
    let row = |id: &str, message: &str| json!({"id": id, "event_message": message, "timestamp": TIME / 1000 * 1000, "log_group": "/aws/lambda/f"});
    assert_eq!(found, [row("1", "a"), row("3", "c"), row("2", "{\"level\":\"info\"}")]);
}

#[test]
fn a_dataset_of_axiom_is_a_source() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_AXIOM_SOURCE", SOURCE)]);
    let bearer = format!("Bearer {PUBLIC}");
    let headers =
        [("authorization", bearer.as_str()), ("content-type", "application/x-ndjson"), ("content-encoding", "gzip")];
    let lines = lines(&[
        json!({"_time": "2025-11-20T10:15:02.123456Z", "message": "a", "level": "info"}),
        json!({"_time": TIME, "x": 1}),
        json!(5),
    ]);
    for dataset in ["postgres.logs", "my%20dataset"] {
        let path = format!("/v1/datasets/{dataset}/ingest");
        let answer = server.call("POST", &path, &headers, &gzip(&lines));
        assert_eq!(
            (answer.status, &answer.body["ingested"], &answer.body["failed"]),
            (200, &json!(2), &json!(1)),
            "{}",
            answer.body
        );
        assert!(answer.body["failures"][0]["error"].as_str().unwrap().contains("object"), "{}", answer.body);
    }
    let found = rows(&server, "event_message, timestamp, m.level as level, m.x as x");
    let a = json!({"event_message": "a", "timestamp": TIME, "level": "info", "x": null});
    let b = json!({"event_message": format!("{{\"_time\":{TIME},\"x\":1}}"), "timestamp": TIME, "level": null, "x": 1});
    assert_eq!(found, [a.clone(), a, b.clone(), b]);
}

/// What Better Stack's libraries send: MessagePack with moments, to the address itself.
#[test]
fn records_for_better_stack_are_read_by_field() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_LOGTAIL_SOURCE", SOURCE)]);
    let bearer = format!("Bearer {PUBLIC}");
    let packed = [("authorization", bearer.as_str()), ("content-type", "application/msgpack")];
    // [{"dt": 2025-11-20T10:15:02Z, "message": "a", "level": "info", "n": 1.5}, 7, {"message": "b"}]
    let body = b"\x93\x84\xa2dt\xd6\xff\x69\x1e\xea\x26\xa7message\xa1a\xa5level\xa4info\xa1n\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\
        \x07\x81\xa7message\xa1b";
    let answer = server.call("POST", "/", &packed, body);
    assert_eq!((answer.status, &answer.body["accepted"], &answer.body["rejected"]), (202, &json!(2), &json!(1)));
    assert!(answer.body["errors"][0]["message"].as_str().unwrap().contains("object"), "{}", answer.body);
    let gzipped = [&packed[..], &[("content-encoding", "gzip")]].concat();
    server.call("POST", "/", &gzipped, &gzip(b"\x81\xa7message\xa1c")).is(202);
    let json = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    assert_eq!(
        server.call("POST", &format!("/?source_name={SOURCE}"), &json, br#"{"dt": 1763633702, "message": "d"}"#).status,
        202
    );
    // What breaks off is refused as a whole.
    server.call("POST", "/", &packed, &body[..body.len() - 1]).refused(400, "invalid_body", &["MessagePack"]);
    let found = rows(&server, "event_message, m.level as level, m.n as n");
    let row = |message: &str, level: Value, n: Value| json!({"event_message": message, "level": level, "n": n});
    let none = || Value::Null;
    assert_eq!(
        found,
        [
            row("a", json!("info"), json!(1.5)),
            row("b", none(), none()),
            row("c", none(), none()),
            row("d", none(), none())
        ]
    );
    let times: Vec<Value> =
        rows(&server, "event_message, timestamp").iter().map(|row| row["timestamp"].clone()).collect();
    let second = TIME / 1_000_000 * 1_000_000;
    assert_eq!((&times[0], &times[3]), (&json!(second), &json!(second)));
}
