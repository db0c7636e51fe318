//! Loki's push API in both encodings.

use prost::Message;
use serde_json::json;
use tidegate_tests::{PUBLIC, Raw, Server};

use crate::doors::{SOURCE, gzip, messages, rows};

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(string, tag = "2")]
    line: String,
    #[prost(message, repeated, tag = "3")]
    structured: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Stream {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Push {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<Stream>,
}

fn push(line: &str, count: usize) -> Vec<u8> {
    let entry = Entry {
        timestamp: Some(Timestamp { seconds: 1_763_633_702, nanos: 123_456_789 }),
        line: line.to_owned(),
        structured: vec![Pair { name: "trace_id".to_owned(), value: "t".to_owned() }],
    };
    let labels = "{job=\"api\", project=\"p1\", path=\"C:\\\\x\"}".to_owned();
    let request = Push { streams: vec![Stream { labels, entries: vec![entry; count] }] };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

fn send(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Raw {
    let mut all = vec![("x-api-key", PUBLIC), ("x-source-name", SOURCE)];
    all.extend_from_slice(headers);
    server.fetch("POST", "/loki/api/v1/push", &all, body)
}

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

#[test]
fn both_encodings_come_out_alike() {
    let server = Server::start();
    let body = json!({"streams": [{
        "stream": {"job": "api", "project": "p1", "path": "C:\\x"},
        "values": [["1763633702123456789", "from json", {"trace_id": "t"}]],
    }]});
    assert_eq!(send(&server, &[JSON], body.to_string().as_bytes()).status, 204);
    assert_eq!(send(&server, &[PROTOBUF], &push("from protobuf", 1)).status, 204);
    assert_eq!(send(&server, &[PROTOBUF, ("content-encoding", "snappy")], &push("snappy declared", 1)).status, 204);
    let text = body.to_string().replace("from json", "packed json");
    assert_eq!(send(&server, &[JSON, ("content-encoding", "gzip")], &gzip(text.as_bytes())).status, 204);
    let rows = server.sql(
        "select event_message, timestamp, m.job as job, m.path as path, m.trace_id as trace from postgres_logs \
         cross join unnest(metadata) as m order by event_message",
    );
    let row = |message: &str| json!({"event_message": message, "timestamp": 1_763_633_702_123_456_i64, "job": "api", "path": "C:\\x", "trace": "t"});
    assert_eq!(rows.rows(), ["from json", "from protobuf", "packed json", "snappy declared"].map(row));
}

#[test]
fn the_tenant_names_the_source() {
    let server = Server::start();
    let headers = [("x-api-key", PUBLIC), PROTOBUF, ("x-scope-orgid", SOURCE)];
    assert_eq!(server.fetch("POST", "/api/v1/push", &headers, &push("m", 1)).status, 204);
    let headers = [("x-api-key", PUBLIC), PROTOBUF, ("x-scope-orgid", "fake")];
    let refused = server.fetch("POST", "/api/v1/push", &headers, &push("m", 1));
    assert!(refused.status == 400 && refused.text().contains("loki_source"), "{}", refused.text());
    assert_eq!(messages(&server), ["m"]);
}

#[test]
fn refusals_are_text() {
    let server = Server::start();
    let values = json!([["1763633702123456789", "good"], ["1763633702123456789", 5]]);
    let part = send(&server, &[JSON], json!({"streams": [{"values": values}]}).to_string().as_bytes());
    // Senders repeat what is no success, so the entries that are stored would come again.
    assert_eq!(part.status, 200);
    assert!(part.text().starts_with("1 entries are stored, 1 are refused\nentry 1: an entry is"), "{}", part.text());
    for (headers, body, status) in [
        (vec![PROTOBUF], b"not snappy".to_vec(), 400),
        (vec![PROTOBUF], push("m", 3)[..20].to_vec(), 400),
        (vec![PROTOBUF], snap::raw::Encoder::new().compress_vec(&vec![0; 17 << 20]).unwrap(), 413),
        // A block that promises 4 GiB.
        (vec![PROTOBUF], vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0], 413),
        (vec![JSON], b"{\"streams\": 5}".to_vec(), 400),
        (vec![("content-type", "text/plain")], b"m".to_vec(), 415),
    ] {
        let answer = send(&server, &headers, &body);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    }
    assert_eq!(rows(&server, "event_message"), [json!({"event_message": "good"})]);
}

#[test]
fn many_entries_come_in_at_once_and_too_many_are_refused() {
    let server = Server::start();
    assert_eq!(send(&server, &[PROTOBUF], &push("m", 50_000)).status, 204);
    assert_eq!(server.sql("select count(*) as c from postgres_logs").column("c"), [json!(50_000)]);
    assert_eq!(send(&server, &[PROTOBUF], &push("m", 100_001)).status, 413);
}

#[test]
fn times_in_another_unit_are_told() {
    let server = Server::start();
    // Seconds, where the protocol has nanoseconds.
    let body = json!({"streams": [{"values": [["1763633702", "seconds"], ["1763633702123456789", "nanoseconds"]]}]});
    let answer = send(&server, &[JSON], body.to_string().as_bytes()).is(200);
    assert!(answer.text().contains("1 entries have a time in 1970"), "{}", answer.text());
    assert!((server.metric("tidegate_ingest_early_times_total") - 1.0).abs() < 0.1);
    // What `pino-loki` 3.0 makes of a time in ISO 8601.
    let body = json!({"streams": [{"values": [["NaN", "no time"]]}]});
    let answer = send(&server, &[JSON], body.to_string().as_bytes()).is(200);
    assert!(answer.text().contains("1 entries have a time that cannot be read"), "{}", answer.text());
    assert_eq!(messages(&server), ["nanoseconds", "no time", "seconds"]);
}

#[test]
fn a_stream_whose_labels_cannot_be_read_refuses_itself_alone() {
    let server = Server::start();
    let values = |line: &str| json!([["1763633702123456789", line], ["1763633702123456789", line]]);
    let body = json!({"streams": [
        {"stream": {"job": "a"}, "values": values("a")}, {"stream": ["job"], "values": values("b")}, {"values": values("c")},
    ]});
    let answer = send(&server, &[JSON], body.to_string().as_bytes()).is(200);
    assert!(answer.text().starts_with("4 entries are stored, 2 are refused\nentry 2: the labels"), "{}", answer.text());
    let entry = Entry { timestamp: None, line: "d".to_owned(), structured: Vec::new() };
    let stream = |labels: &str| Stream { labels: labels.to_owned(), entries: vec![entry.clone()] };
    let push = Push { streams: vec![stream("{job=\"a\"}"), stream("{job}"), stream("{}")] };
    let packed = snap::raw::Encoder::new().compress_vec(&push.encode_to_vec()).unwrap();
    let answer = send(&server, &[PROTOBUF], &packed).is(200);
    assert!(answer.text().contains("2 entries are stored, 1 are refused\nentry 1: the labels"), "{}", answer.text());
    assert_eq!(messages(&server), ["a", "a", "c", "c", "d", "d"]);
}
