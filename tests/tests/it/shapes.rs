//! Events of hostile shapes: what the service holds for them is bounded, they are answered all the same, and the operator
//! is told which source and field it is.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use tidegate_tests::{PRIVATE, Server};

const SOURCE: &str = "postgres.logs";
const TIME: i64 = 1_763_633_702_000_000;

/// Sends `calls` requests with `events` lines each, whose `metadata` is made from their number.
fn send(server: &Server, calls: usize, events: usize, metadata: impl Fn(usize) -> Map<String, Value>) {
    for call in 0..calls {
        let mut lines = String::new();
        for number in call * events..(call + 1) * events {
            let time = TIME + number as i64;
            let metadata = Value::Object(metadata(number));
            let event =
                json!({"id": format!("e{number:07}"), "timestamp": time, "project": "p1", "metadata": metadata});
            let _ = writeln!(lines, "{event}");
        }
        let path = format!("/api/logs?source_name={SOURCE}");
        let headers = [("x-api-key", PRIVATE), ("content-type", "application/x-ndjson")];
        let answer = server.call("POST", &path, &headers, lines.as_bytes());
        assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(events)), "{}", answer.body);
        // So that a call becomes columns before the next one comes, as with a reader beside the sender.
        if call % 16 == 15 {
            assert_eq!(count(server), (call + 1) * events);
        }
    }
    assert_eq!(count(server), calls * events);
}

fn count(server: &Server) -> usize {
    let answer = server.sql("SELECT COUNT(*) AS n FROM postgres_logs").is(200);
    usize::try_from(answer.column("n")[0].as_u64().unwrap()).unwrap()
}

/// The newest rows as a whole.
fn newest(server: &Server) -> Vec<Value> {
    let sql = "SELECT id, metadata FROM postgres_logs ORDER BY timestamp DESC LIMIT 20";
    server.sql(sql).column("metadata")
}

#[test]
fn a_million_keys_are_bounded() {
    let server = Server::start();
    let before = server.peak_memory();
    let keys = |event: usize| (0..20).map(|key| (format!("k{}", event * 20 + key), json!(key))).collect();
    send(&server, 100, 500, keys);
    let last = newest(&server);
    assert_eq!(last.len(), 20);
    assert_eq!(last[0][0]["k999999"], json!(19), "{}", last[0]);
    assert_eq!(server.metric("tidegate_sources_overflowing"), 1.0);
    assert!(server.log().contains("fields without a column"), "{}", server.log());
    let grown = server.peak_memory() - before;
    assert!(grown < 500, "{grown} MiB for a million keys");
}

#[test]
fn ten_thousand_leaves_are_bounded() {
    let server = Server::start();
    let before = server.peak_memory();
    let leaves =
        |event: usize| (0..500).map(|key| (format!("l{}", (event * 500 + key) % 10_000), json!(key))).collect();
    send(&server, 20, 100, leaves);
    let last = newest(&server);
    assert_eq!(last.len(), 20);
    assert_eq!(last[0][0]["l9999"], json!(499), "{}", last[0]);
    assert_eq!(server.metric("tidegate_sources_overflowing"), 1.0);
    let grown = server.peak_memory() - before;
    assert!(grown < 500, "{grown} MiB for 10,000 leaves");
}

#[test]
fn a_field_whose_kind_flips_is_named() {
    let server = Server::start();
    let before = server.peak_memory();
    let kinds =
        [json!(1), json!("text"), json!(true), json!([1, 2]), json!({"a": 1}), json!(0.5), json!(null), json!([])];
    let flip = |event: usize| Map::from_iter([("state".to_owned(), kinds[event % kinds.len()].clone())]);
    send(&server, 10, 500, flip);
    let answer =
        server.sql("SELECT COUNT(*) AS n FROM postgres_logs CROSS JOIN UNNEST(metadata) AS m WHERE m.state = 'text'");
    assert_eq!(answer.column("n"), [json!(625)]);
    assert_eq!(server.metric("tidegate_sources_mixed"), 1.0);
    let log = server.log();
    let named: Vec<&str> = log.lines().filter(|line| line.contains("values of another kind")).collect();
    assert!(matches!(named.as_slice(), [line] if line.contains(SOURCE) && line.contains("/metadata/state")), "{log}");
    let grown = server.peak_memory() - before;
    assert!(grown < 300, "{grown} MiB for a field that flips");
}
