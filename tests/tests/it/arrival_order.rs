//! Events with equal times are read in the order in which they were sent: in memory and in segments, by pages, in both
//! directions.

use serde_json::{Value, json};
use tidegate_tests::{PUBLIC, Server};

use crate::doors::SOURCE;

const TIME: i64 = 1_763_633_702_123_456;

/// The messages, by pages of this size.
fn pages(server: &Server, direction: &str, size: usize, all: usize) -> Vec<String> {
    let page = |nth: usize| {
        server.sql(&format!(
            "select event_message from postgres_logs order by timestamp {direction} limit {size} offset {}",
            nth * size
        ))
    };
    let pages = (0..all.div_ceil(size)).map(page);
    pages.flat_map(|page| page.column("event_message")).map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn equal_times_are_read_as_they_were_sent() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_ROWS", "12")]);
    let names: Vec<String> = (0..59).map(|nth| format!("{nth:02}")).collect();
    for lines in names.chunks(12) {
        let event = |line: &String| json!({"event_message": line, "timestamp": TIME, "project": "p1"});
        server.send(SOURCE, &Value::from(lines.iter().map(event).collect::<Vec<_>>()));
        // Each is a segment but the last one, which stays in memory.
        if lines.len() == 12 {
            server.until_flushed();
        }
    }
    let newest_first: Vec<String> = names.iter().rev().cloned().collect();
    for size in [7, 25, 60] {
        assert_eq!(pages(&server, "desc", size, names.len()), newest_first, "by {size}");
        assert_eq!(pages(&server, "asc", size, names.len()), names, "by {size}");
    }
    assert!(server.metric("tidegate_store_segments") >= 4.0 && server.metric("tidegate_store_unflushed_bytes") > 0.0);
}

#[test]
fn what_is_finer_than_a_microsecond_decides() {
    let server = Server::start();
    let nanos = |line: i64| format!("{}{line:03}", TIME);
    let values: Vec<Value> =
        [7, 999, 0, 12, 500].iter().map(|line| json!([nanos(*line), format!("{line:03}")])).collect();
    let body = json!({"streams": [{"stream": {"project": "p1"}, "values": values}]}).to_string();
    let headers = [("x-api-key", PUBLIC), ("x-source-name", SOURCE), ("content-type", "application/json")];
    assert_eq!(server.fetch("POST", "/loki/api/v1/push", &headers, body.as_bytes()).status, 204);
    assert_eq!(pages(&server, "asc", 5, 5), ["000", "007", "012", "500", "999"]);
}
