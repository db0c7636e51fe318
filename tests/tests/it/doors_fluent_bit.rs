//! What Fluent Bit sends, byte for byte. It is no package to install here: its outputs were run once, each with the configuration
//! of `docs/senders.md` or `docs/ingest.md`, and the requests were recorded (`recorded/fluent-bit.json`, Fluent Bit 5.1.1; the
//! token is left out). The three records are lines of a file that it read as JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tidegate_tests::{PUBLIC, Server};

use crate::doors::{SOURCE, rows};

/// Sends a request that was recorded; its answer must have the status of then.
fn send(server: &Server, recorded: &Value) {
    let text = |name: &str| recorded[name].as_str().unwrap_or_default();
    let basic = BASE64_STANDARD.encode(format!("any:{PUBLIC}"));
    let own = |value: &Value| value.as_str().unwrap().replace("TOKEN", PUBLIC).replace("BASIC", &basic);
    let headers: Vec<(String, String)> =
        recorded["headers"].as_array().unwrap().iter().map(|header| (own(&header[0]), own(&header[1]))).collect();
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let body = match recorded["body"].as_str() {
        Some(body) => body.as_bytes().to_vec(),
        None => BASE64_STANDARD.decode(text("body_base64")).unwrap(),
    };
    let answer = server.fetch(text("method"), text("path"), &headers, &body);
    assert_eq!(json!(answer.status), recorded["status"], "{}: {}", text("output"), answer.text());
}

const TEXTS: [&str; 3] = ["said \"no\" — \\ and\tleft", "started", "third\nwith a second line"];
/// The day on which it was recorded, in microseconds.
const DAY: std::ops::Range<i64> = 1_795_392_000_000_000..1_795_478_400_000_000;

#[test]
fn each_output_of_fluent_bit_is_taken_and_read_by_field() {
    let recorded: Vec<Value> = serde_json::from_str(include_str!("recorded/fluent-bit.json")).unwrap();
    assert_eq!(recorded.len(), 6);
    for request in &recorded {
        let output = request["output"].as_str().unwrap();
        let settings = [("TIDEGATE_DOORS_SPLUNK_SOURCE", SOURCE), ("TIDEGATE_DOORS_DATADOG_SOURCE", SOURCE)];
        let server = Server::start_set(&settings);
        send(&server, request);
        // Where the fields of a record are read, by output.
        let (level, number) = match output {
            "http" | "datadog" => ("m.level", "m.request[safe_offset(0)].n"),
            "es" | "splunk" => ("level", "request[safe_offset(0)].n"),
            "opentelemetry" => {
                ("m.attributes[safe_offset(0)].level", "m.attributes[safe_offset(0)].request[safe_offset(0)].n")
            }
            // The record is the line.
            _ => ("json_value(event_message, '$.level')", "cast(json_value(event_message, '$.request.n') as int64)"),
        };
        let columns = format!("event_message, timestamp, project, {level} as level, {number} as n");
        let found = rows(&server, &columns);
        let expected = TEXTS.iter().zip([1, 0, 2]).map(|(text, n)| (*text, n));
        assert_eq!(found.len(), 3, "{}: {found:?}", output);
        let mut seen: Vec<(String, i64)> = Vec::new();
        for row in &found {
            let time = row["timestamp"].as_i64().unwrap();
            assert!(DAY.contains(&time), "{}: {row}", output);
            assert_eq!((&row["level"], &row["project"]), (&json!("info"), &json!("default")), "{}: {row}", output);
            let message = row["event_message"].as_str().unwrap();
            let text = match serde_json::from_str::<Value>(message) {
                Ok(line) => line["log"].as_str().unwrap().to_owned(),
                Err(_) => message.to_owned(),
            };
            seen.push((text, row["n"].as_i64().unwrap()));
        }
        seen.sort();
        assert_eq!(seen, expected.map(|(text, n)| (text.to_owned(), n)).collect::<Vec<_>>(), "{}", output);
    }
}
