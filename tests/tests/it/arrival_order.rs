//! Events with equal times are read in the order in which they were sent: in memory and in segments, by pages, in both
//! directions, for all and for a tenant.

use serde_json::{Value, json};
use tidegate_tests::{PUBLIC, Server};

const TIME: i64 = 1_763_633_702_123_456;

/// The messages, by pages of this size.
fn pages(server: &Server, direction: &str, size: usize, all: usize) -> Vec<String> {
    let page = |nth: usize| {
        server.sql(&format!(
            "select event_message from postgres_logs where project in ('a', 'b') order by timestamp {direction} limit {size} offset {}",
            nth * size
        ))
    };
    let pages = (0..all.div_ceil(size)).map(page);
    pages.flat_map(|page| page.column("event_message")).map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn equal_times_are_read_as_they_were_sent() {
    let folder = tidegate_tests::folder();
    let server = Server::start_in(folder.path());
    let names: Vec<String> = (0..60).map(|nth| format!("{nth:02}")).collect();
    for lines in names.chunks(12) {
        let event = |line: &String| {
            let project = if line.ends_with(['3', '7']) { "b" } else { "a" };
            json!({"event_message": line, "timestamp": TIME, "project": project})
        };
        server.send("postgres_logs", &Value::from(lines.iter().map(event).collect::<Vec<_>>()));
        // Some are in segments, the last ones in memory.
        if lines[0].as_str() < "40" {
            server.until_flushed();
        }
    }
    let newest_first: Vec<String> = names.iter().rev().cloned().collect();
    let look = |server: &Server| {
        for size in [7, 25, 60] {
            assert_eq!(pages(server, "desc", size, names.len()), newest_first, "by {size}");
            assert_eq!(pages(server, "asc", size, names.len()), names, "by {size}");
        }
    };
    look(&server);
    assert_eq!(server.stop("TERM"), Some(0));
    look(&Server::start_in(folder.path()));
}

#[test]
fn what_is_finer_than_a_microsecond_decides() {
    let server = Server::start();
    let nanos = |line: i64| format!("{}{line:03}", TIME);
    let values: Vec<Value> =
        [7, 999, 0, 12, 500].iter().map(|line| json!([nanos(*line), format!("{line:03}")])).collect();
    let body = json!({"streams": [{"stream": {"project": "a"}, "values": values}]}).to_string();
    let headers = [("x-api-key", PUBLIC), ("x-source-name", "postgres_logs"), ("content-type", "application/json")];
    assert_eq!(server.fetch("POST", "/loki/api/v1/push", &headers, body.as_bytes()).status, 204);
    assert_eq!(pages(&server, "asc", 5, 5), ["000", "007", "012", "500", "999"]);
}
