//! Events in: every shape of request, and what becomes of odd events.

use std::io::Write;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, PUBLIC, Server};

const TIME: i64 = 1_763_633_702_000_000;

fn ids(server: &Server) -> Vec<String> {
    let mut ids = server.sql("select id from postgres_logs").ids();
    ids.sort();
    ids
}

fn event(id: &str) -> Value {
    json!({"id": id, "project": "p1", "event_message": id, "timestamp": TIME})
}

/// A zstd frame of one segment and one raw block.
fn zstd(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    let block = (u32::from(length) << 3 | 1).to_le_bytes();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, length], &block[..3], text.as_bytes()].concat()
}

#[test]
fn every_shape_of_body_is_taken() {
    let server = Server::start();
    let source = "postgres.logs";
    server.send(source, &event("object"));
    server.send(source, &json!([event("array-1"), event("array-2")]));
    server.send(source, &json!({"batch": [event("batch")]}));
    server.send(source, &json!([]));
    let lines = format!("{}\n{}\n", event("line-1"), event("line-2"));
    assert_eq!(server.send_raw(source, &[("content-type", "application/x-ndjson")], lines.as_bytes()).status, 200);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(event("gzip").to_string().as_bytes()).unwrap();
    assert_eq!(server.send_raw(source, &[("content-encoding", "gzip")], &gzip.finish().unwrap()).status, 200);
    let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
    assert_eq!(server.send_raw(source, &[("content-encoding", "zstd")], &zstd(&event("zstd").to_string())).status, 200);
    for path in ["/logs", "/api/events"] {
        let answer =
            server.call("POST", &format!("{path}?source_name={source}"), &headers, event(path).to_string().as_bytes());
        assert_eq!((answer.status, &answer.body["message"]), (200, &json!("Logged!")));
    }
    let by_header = [headers[0], headers[1], ("x-source-name", source)];
    assert_eq!(server.call("POST", "/api/logs", &by_header, event("header").to_string().as_bytes()).status, 200);
    assert_eq!(
        ids(&server),
        ["/api/events", "/logs", "array-1", "array-2", "batch", "gzip", "header", "line-1", "line-2", "object", "zstd"]
    );
}

#[test]
fn a_bad_request_stores_nothing() {
    let server = Server::start();
    let source = "postgres.logs";
    let send = |body: &str| server.send_raw(source, &[], body.as_bytes());
    send(&json!([event("good"), "no object"]).to_string()).refused(400, "invalid_body", &["event 1", "nothing"]);
    send("5").refused(400, "invalid_body", &["object"]);
    send("{\"id\": ").refused(400, "invalid_body", &["JSON"]);
    server.send_raw(source, &[("content-encoding", "gzip")], b"{}").refused(400, "invalid_body", &[]);
    server.send_raw(source, &[("content-type", "application/x-ndjson")], b"{\"id\": \"line\"}\n{").refused(
        400,
        "invalid_body",
        &["line 2"],
    );
    server.send_raw("postgres.log", &[], b"{}").refused(404, "not_found", &["postgres.log", "postgres.logs"]);
    server.call("POST", "/api/logs", &[("x-api-key", PUBLIC)], b"{}").refused(
        400,
        "invalid_parameter",
        &["source_name"],
    );
    server.call("POST", "/api/logs?source_name=postgres.logs", &[], b"{}").refused(401, "unauthorized", &[]);
    assert_eq!(ids(&server), Vec::<String>::new());
}

#[test]
fn times_are_read_in_every_form() {
    let server = Server::start();
    let forms = [
        json!("2025-11-20T10:15:02Z"),
        json!("2025-11-20T12:15:02+02:00"),
        json!("2025-11-20T10:15:02"),
        json!("2025-11-20 10:15:02.000000999"),
        json!(1_763_633_702_i64),
        json!(1_763_633_702_000_i64),
        json!(1_763_633_702_000_000_i64),
        json!(1_763_633_702_000_000_000_i64),
    ];
    let events: Vec<Value> = forms
        .iter()
        .map(|form| json!({"project": "p1", "timestamp": form, "event_message": form.to_string()}))
        .collect();
    server.send(EDGE, &Value::Array(events));
    let answer = server.sql("select distinct timestamp from edge_logs");
    assert_eq!(answer.column("timestamp"), [json!(TIME)]);
    // Without a readable time, the time of arrival; without an id, a made one.
    let before = tidegate_tests::now();
    server.send("postgres.logs", &json!([{"project": "p1"}, {"project": "p1", "timestamp": "soon"}]));
    let answer = server.sql("select id, timestamp from postgres_logs");
    for row in answer.rows() {
        assert!((before..=tidegate_tests::now()).contains(&row["timestamp"].as_i64().unwrap()), "{row}");
        assert!(uuid::Uuid::try_parse(row["id"].as_str().unwrap()).is_ok());
    }
    assert_eq!(answer.rows().len(), 2);
}

#[test]
fn values_of_different_types_at_one_path_stay_readable() {
    let server = Server::start();
    let with = |id: &str, status: Value| json!({"id": id, "project": "p1", "timestamp": TIME, "metadata": {"status": status, "big": -7_312_409_950_012_345_678_i64}});
    server.send(
        "gotrue.logs.prod",
        &json!([with("a", json!(200)), with("b", json!("404")), with("c", json!("none")), with("d", json!(true))]),
    );
    let from = "from auth_logs cross join unnest(metadata) as m";
    let shown = server.sql(&format!("select m.status as s {from} order by id")).column("s");
    assert_eq!(shown, [json!("200"), json!("404"), json!("none"), json!("true")]);
    assert_eq!(server.sql(&format!("select id {from} where m.status >= 300 order by id")).ids(), ["b"]);
    assert_eq!(
        server.sql(&format!("select id {from} where m.status in ('200', 'none') order by id")).ids(),
        ["a", "c"]
    );
    assert_eq!(server.sql(&format!("select sum(safe_cast(m.status as int64)) as n {from}")).column("n"), [json!(604)]);
    assert_eq!(
        server.sql(&format!("select distinct m.big as n {from}")).column("n"),
        [json!(-7_312_409_950_012_345_678_i64)]
    );
}

#[test]
fn several_records_are_several_rows() {
    let server = Server::start();
    server.send(
        "postgres.logs",
        &json!([
            {"id": "one", "project": "p1", "metadata": {"level": "a"}},
            {"id": "two", "project": "p1", "metadata": [{"level": "b"}, {"level": "c"}]},
            {"id": "none", "project": "p1", "metadata": []},
        ]),
    );
    let sql = "select id, m.level as level from postgres_logs cross join unnest(metadata) as m order by level";
    assert_eq!(server.sql(sql).column("level"), [json!("a"), json!("b"), json!("c")]);
    let kept = server.sql("select id from postgres_logs left join unnest(metadata) as m order by id").ids();
    assert_eq!(kept, ["none", "one", "two", "two"]);
}
