//! What one request of events may cost, and what it is told: memory, texts that are none, times,
//! and requests that are sent again.

use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{Data, PRIVATE, PUBLIC, Server, now, until};

const SOURCE: &str = "postgres.logs";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The number of a counter on the page of metrics.
fn metric(server: &Server, name: &str) -> u64 {
    let page = server.text("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse().unwrap()
}

/// Events of arrays in an array: the text of each value is two bytes, its place in a tree some ninety.
fn arrays(events: usize, elements: usize) -> Vec<u8> {
    let event = format!("{{\"project\":\"p1\",\"metadata\":{{\"a\":[{}]}}}}", vec!["[0]"; elements].join(","));
    format!("[{}]", vec![event; events].join(",")).into_bytes()
}

#[test]
fn a_request_holds_its_bytes_and_no_trees() {
    // What it claims is of memory, so how long it takes on a busy machine does not count.
    let server = Server::start_set(&[("TIDEGATE_LIMITS_REQUEST_TIME", "2 min")]);
    // As large as an event may be in bytes: too many values.
    let hostile = arrays(15, 250_000);
    let packed = gzip(&hostile);
    assert!(packed.len() < 32 << 10, "{}", packed.len());
    let answer = server.send_raw(SOURCE, &[("content-encoding", "gzip")], &packed);
    answer.refused(400, "invalid_body", &["100000 JSON values"]);
    assert!(server.peak_memory() < 400, "{} MiB", server.peak_memory());
    // As many values as an event may have: all are stored.
    let answer = server.send_raw(SOURCE, &[("content-encoding", "gzip")], &gzip(&arrays(40, 49_000)));
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(40)), "{}", answer.body);
    assert_eq!(server.sql("select count(*) as n from postgres_logs").column("n"), [json!(40)]);
    assert!(server.peak_memory() < 400, "{} MiB", server.peak_memory());
}

#[test]
fn an_event_of_invalid_utf_8_is_refused_alone_in_every_form() {
    let server = Server::start();
    let event = |id: &str| json!({"id": id, "project": "p1"}).to_string();
    let (a, b) = (event("a"), event("b"));
    let wrong = b"{\"id\": \"\xff\"}";
    let form = |parts: [&[u8]; 5]| parts.concat();
    for (body, kind) in [
        (form([b"[", a.as_bytes(), b",", wrong, b"]"]), "application/json"),
        (form([b"{\"batch\": [", a.as_bytes(), b",", wrong, b"]}"]), "application/json"),
        (form([a.as_bytes(), b"\n", wrong, b"\n", b.as_bytes()]), "application/x-ndjson"),
        (form([a.as_bytes(), wrong, b.as_bytes(), b"", b""]), "application/json"),
    ] {
        let answer = server.send_raw(SOURCE, &[("content-type", kind)], &body);
        assert_eq!((answer.status, &answer.body["rejected"]), (200, &json!(1)), "{}", answer.body);
        assert_eq!(answer.body["errors"][0]["index"], 1);
        assert!(answer.body["errors"][0]["message"].as_str().unwrap().contains("UTF-8"), "{}", answer.body);
    }
    server.send_raw(SOURCE, &[], wrong).refused(400, "invalid_body", &["UTF-8"]);
}

#[test]
fn odd_times_are_told_and_counted() {
    let server = Server::start();
    let event = |id: &str, field: &str, time: Value| json!({"id": id, "project": "p1", field: time});
    let events = json!([
        event("1", "timestamp", json!(1_795_341_600_123.5)),
        event("2", "timestamp", json!("1795341600.123456")),
        event("3", "timestamp", json!("2025-11-22 10:00:00,873")),
        event("4", "@timestamp", json!("2025-11-22T10:00:00.873Z")),
        event("5", "time", json!(1_763_805_600_873_i64)),
        event("6", "timestamp", json!(-1_763_805_600)),
        event("7", "timestamp", json!("soon")),
        event("8", "timestamp", json!("9999-12-31T23:59:59Z")),
        event("9", "timestamp", json!("1970-01-21T09:53:53.702Z")),
    ]);
    let answer = server.send_raw(SOURCE, &[], events.to_string().as_bytes());
    let ahead =
        [1_795_341_600_123_500_i64, 1_795_341_600_123_456].iter().filter(|time| **time > now() + 86_400_000_000);
    let future = 1 + ahead.count() as u64;
    assert_eq!(
        answer.body,
        json!({"message": "Logged!", "accepted": 9, "rejected": 0, "unread_times": 2, "future_times": future, "early_times": 1})
    );
    assert_eq!(metric(&server, "tidegate_ingest_unread_times_total"), 2);
    assert_eq!(metric(&server, "tidegate_ingest_future_times_total"), future);
    assert_eq!(metric(&server, "tidegate_ingest_early_times_total"), 1);
    let times = server.sql("select id, timestamp from postgres_logs order by id").column("timestamp");
    let comma = json!(1_763_805_600_873_000_i64);
    assert_eq!(
        times[..5],
        [json!(1_795_341_600_123_500_i64), json!(1_795_341_600_123_456_i64), comma.clone(), comma.clone(), comma]
    );
    for arrived in &times[5..7] {
        assert!((now() - arrived.as_i64().unwrap()).abs() < 600_000_000, "{arrived}");
    }
}

#[test]
fn a_token_in_the_query_string_is_told_which_setting_takes_it() {
    let server = Server::start();
    let path = format!("/api/logs?source_name={SOURCE}&api_key={PUBLIC}");
    let answer = server.call("POST", &path, &[("content-type", "application/json")], b"{}");
    answer.refused(401, "unauthorized", &["?api_key=", "ingest.key_in_query"]);
}

#[test]
fn a_request_that_is_sent_again_is_stored_once_through_a_restart() {
    let data = Data::new();
    let event = |id: &str| json!({"id": id, "project": "p1"});
    let count = |server: &Server| server.sql("select count(*) as n from postgres_logs").column("n")[0].clone();
    let server = Server::start_in(&data);
    let body = format!("[{}, 5, {}]", event("a"), event("b"));
    let send =
        |server: &Server, key: &str, body: &str| server.send_raw(SOURCE, &[("idempotency-key", key)], body.as_bytes());
    let first = send(&server, "one", &body);
    assert_eq!((first.status, &first.body["accepted"], &first.body["rejected"]), (200, &json!(2), &json!(1)));
    assert_eq!(send(&server, "one", &body).body, first.body);
    // Packed, it is the same body.
    let packed = [("idempotency-key", "one"), ("content-encoding", "gzip")];
    assert_eq!(server.send_raw(SOURCE, &packed, &gzip(body.as_bytes())).body, first.body);
    assert_eq!(count(&server), json!(2));
    server.kill_now();
    server.wait();

    let server = Server::start_in(&data);
    assert_eq!(send(&server, "one", &body).body, first.body);
    send(&server, "one", &event("c").to_string()).refused(422, "key_reused", &["Idempotency-Key", "another body"]);
    assert_eq!(count(&server), json!(2));
    assert_eq!(send(&server, "two", &body).status, 200);
    // The key of another token is another key.
    let private = [("x-api-key", PRIVATE), ("content-type", "application/json"), ("idempotency-key", "one")];
    let path = format!("/api/logs?source_name={SOURCE}");
    server.call("POST", &path, &private, event("d").to_string().as_bytes()).is(200);
    assert_eq!(count(&server), json!(5));
    send(&server, "no key", &body).refused(400, "invalid_parameter", &["1 to 255"]);
    // The other door has it too.
    let record = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
        {"body": {"stringValue": "x"}, "attributes": [{"key": "project", "value": {"stringValue": "p1"}}]},
    ]}]}]});
    let headers = [
        ("x-api-key", PUBLIC),
        ("content-type", "application/json"),
        ("x-source-name", SOURCE),
        ("idempotency-key", "three"),
    ];
    for _ in 0..2 {
        server.call("POST", "/v1/logs", &headers, record.to_string().as_bytes()).is(200);
    }
    assert_eq!(count(&server), json!(6));
}

/// Lets writes beyond so many bytes of a file fail, as a disk does that is broken there.
fn limit_files(server: &Server, bytes: &str) -> bool {
    let (pid, limit) = (server.process().to_string(), format!("--fsize={bytes}:"));
    Command::new("prlimit").args(["--pid", &pid, &limit]).output().is_ok_and(|done| done.status.success())
}

#[test]
fn failed_writes_are_told_and_writing_goes_on_when_the_disk_does() {
    let data = Data::new();
    let mut command = Command::new("sh");
    // Such a write would end the process, unless it asks for an error instead.
    command.args(["-c", "trap '' XFSZ; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir \"$1\""]);
    command.arg(tidegate_tests::binary()).arg(&data);
    let server = Server::spawn(command, data.beside("log"), true);
    if !limit_files(&server, "25165824") {
        eprintln!("SKIPPED: there is no prlimit, so that failing writes are not tested");
        return;
    }
    let event = |id: usize| json!({"id": id.to_string(), "project": "p1", "event_message": "x".repeat(900_000)});
    let ready = || server.call("GET", "/ready", &[], b"");
    let (mut stored, mut codes) = (0, Vec::new());
    for id in 0..500 {
        let answer = server.send_raw(SOURCE, &[], event(id).to_string().as_bytes());
        match answer.status {
            200 => stored += 1,
            503 => codes.push(answer.body["error"]["code"].as_str().unwrap().to_owned()),
            _ => panic!("{}", answer.body),
        }
        if codes.iter().any(|code| code == "unconfirmed") && ready().status == 503 {
            break;
        }
    }
    assert!(codes.iter().all(|code| code == "unconfirmed" || code == "data_unavailable"), "{codes:?}");
    let problems = ready().body["problems"].clone();
    assert_eq!(problems[0]["what"], "store", "{problems}");
    assert_eq!(metric(&server, "tidegate_store_read_only"), 1);
    assert!(limit_files(&server, "unlimited"));
    until("the server is ready", || ready().status == 200);
    server.send(SOURCE, &event(1_000));
    stored += 1;
    assert_eq!(metric(&server, "tidegate_store_read_only"), 0);
    assert_eq!(server.sql("select count(*) as n from postgres_logs").column("n"), [json!(stored)]);
    server.kill_now();
    server.wait();
    let server = Server::start_in(&data);
    assert_eq!(server.sql("select count(*) as n from postgres_logs").column("n"), [json!(stored)]);
}
