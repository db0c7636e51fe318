//! Events in: every shape of request, and what becomes of odd events.

use std::io::Write;

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PUBLIC, Server};

const TIME: i64 = 1_763_633_702_000_000;

fn ids(server: &Server) -> Vec<String> {
    let mut ids = server.sql("select id from postgres_logs").ids();
    ids.sort();
    ids
}

fn event(id: &str) -> Value {
    json!({"id": id, "project": "p1", "event_message": id, "timestamp": TIME})
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// A zstd frame of `blocks` blocks of 128 KiB, all of blanks: four bytes each.
fn zstd_bomb(blocks: usize) -> Vec<u8> {
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (17 - 10) << 3];
    let block = |last: u32| {
        let header = ((128 << 10) << 3 | 1 << 1 | last).to_le_bytes();
        [header[0], header[1], header[2], b' ']
    };
    [&head[..], &block(0).repeat(blocks - 1), &block(1)].concat()
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
    server.send_raw(source, &[("content-type", "application/x-ndjson")], lines.as_bytes()).is(200);
    let packed = gzip(event("gzip").to_string().as_bytes());
    server.send_raw(source, &[("content-encoding", "gzip")], &packed).is(200);
    let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
    server.send_raw(source, &[("content-encoding", "zstd")], &zstd(&event("zstd").to_string())).is(200);
    for path in ["/logs", "/api/events"] {
        let answer =
            server.call("POST", &format!("{path}?source_name={source}"), &headers, event(path).to_string().as_bytes());
        assert_eq!((answer.status, &answer.body["message"]), (200, &json!("Logged!")));
    }
    // As some programs begin a text.
    let marked = format!("\u{feff}{}", json!([event("marked")]));
    server.send_raw(source, &[], marked.as_bytes()).is(200);
    let by_line = [("content-type", "application/x-ndjson")];
    let half = format!("{}\n{{\"id\": \n{}\n", event("line-3"), event("line-4"));
    let answer = server.send_raw(source, &by_line, half.as_bytes());
    let why = answer.body["errors"][0]["message"].as_str().unwrap_or_default();
    assert!(
        why.starts_with("line 2 is not valid JSON: ") && why.contains(" at column ") && !why.contains("line 1"),
        "{why}"
    );
    let by_header = [headers[0], headers[1], ("x-source-name", source)];
    server.call("POST", "/api/logs", &by_header, event("header").to_string().as_bytes()).is(200);
    assert_eq!(
        ids(&server),
        [
            "/api/events",
            "/logs",
            "array-1",
            "array-2",
            "batch",
            "gzip",
            "header",
            "line-1",
            "line-2",
            "line-3",
            "line-4",
            "marked",
            "object",
            "zstd"
        ]
    );
}

#[test]
fn forms_of_the_usual_shippers_are_taken() {
    let server = Server::start();
    let source = "postgres.logs";
    // Vector: an array, or one event a line, with the text in `message`.
    let vector = |id: &str| json!({"id": id, "project": "p1", "message": "m", "timestamp": "2025-11-20T10:15:02Z"});
    let lines = format!("{}\n{}", vector("vector-2"), vector("vector-3"));
    server.send(source, &json!([vector("vector-1")]));
    let by_line = [("content-type", "application/x-ndjson"), ("content-encoding", "gzip")];
    server.send_raw(source, &by_line, &gzip(lines.as_bytes())).is(200);
    // Fluent Bit: an array, lines, or objects behind each other; the time in `date`.
    let bit = |id: &str, date: Value| json!({"id": id, "project": "p1", "log": "m", "date": date});
    server.send(source, &json!([bit("bit-1", json!(1_763_633_702.0))]));
    let stream =
        format!("{}{}", bit("bit-2", json!("2025-11-20T10:15:02.000000Z")), bit("bit-3", json!(1_763_633_702)));
    assert_eq!(
        server.send_raw(source, &[], stream.as_bytes()).body,
        json!({"message": "Logged!", "accepted": 2, "rejected": 0})
    );
    let lines = format!(
        "{}\n{}\n",
        bit("bit-4", json!("2025-11-20 10:15:02.000000")),
        bit("bit-5", json!(1_763_633_702_000_i64))
    );
    server.send_raw(source, &[("content-type", "application/json")], lines.as_bytes()).is(200);
    let answer = server.sql("select id, timestamp, event_message from postgres_logs order by id");
    assert_eq!(answer.ids(), ["bit-1", "bit-2", "bit-3", "bit-4", "bit-5", "vector-1", "vector-2", "vector-3"]);
    assert!(answer.column("timestamp").iter().all(|time| *time == json!(TIME)), "{:?}", answer.rows());
    assert_eq!(answer.column("event_message")[5], json!("m"));
}

#[test]
fn a_bad_event_of_a_batch_is_refused_alone() {
    let server = Server::start();
    let source = "postgres.logs";
    let long = json!({"id": "long", "project": "p1", "event_message": "x".repeat(1 << 20)});
    let deep = format!("{{\"id\": \"deep\", \"a\": {}1{}}}", "[".repeat(120), "]".repeat(120));
    let body = format!("[{}, 5, {long}, {deep}, {{\"n\": 1e999}}, {}]", event("a"), event("b"));
    let answer = server.send_raw(source, &[], body.as_bytes()).is(200);
    assert_eq!((&answer.body["accepted"], &answer.body["rejected"]), (&json!(2), &json!(4)), "{}", answer.body);
    for (error, (index, word)) in answer.body["errors"].as_array().unwrap().iter().zip([
        (1, "object"),
        (2, "1048576"),
        (3, "100 levels"),
        (4, "out of range"),
    ]) {
        assert_eq!(error["index"], json!(index));
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    let lines = format!("{}\n{{\"id\": \n{}\n", event("c"), event("d"));
    let answer = server.send_raw(source, &[("content-type", "application/x-ndjson")], lines.as_bytes());
    assert_eq!((answer.status, &answer.body["accepted"], &answer.body["rejected"]), (200, &json!(2), &json!(1)));
    assert!(answer.body["errors"][0]["message"].as_str().unwrap().contains("line 2"), "{}", answer.body);
    // All are counted, a hundred are named.
    let answer = server.send_raw(source, &[], format!("[{}{}]", "1,".repeat(250), event("e")).as_bytes());
    assert_eq!((&answer.body["accepted"], &answer.body["rejected"]), (&json!(1), &json!(250)));
    assert_eq!(answer.body["errors"].as_array().unwrap().len(), 100);
    assert_eq!(ids(&server), ["a", "b", "c", "d", "e"]);
}

#[test]
fn the_deepest_event_survives_a_restart() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let deep = format!("{{\"project\": \"p1\", \"id\": \"deep\", \"a\": {}1{}}}", "[".repeat(99), "]".repeat(99));
    let in_id = format!("{{\"project\": \"p1\", \"id\": {}1{}}}", "[".repeat(99), "]".repeat(99));
    let answer = server.send_raw("postgres.logs", &[], format!("[{deep}, {in_id}]").as_bytes());
    assert_eq!(answer.body["accepted"], json!(2), "{}", answer.body);
    server.kill_now();
    drop(server);
    let server = Server::start_in(&data);
    assert_eq!(server.sql("select count(*) as c from postgres_logs").column("c"), [json!(2)]);
}

#[test]
fn a_request_without_any_good_event_stores_nothing() {
    let server = Server::start();
    let source = "postgres.logs";
    let send = |body: &str| server.send_raw(source, &[], body.as_bytes());
    send("[\"no object\", 5]").refused(400, "invalid_body", &["event 0", "a string", "nothing", "2 of 2"]);
    send("5").refused(400, "invalid_body", &["object"]);
    send("").refused(400, "invalid_body", &["empty"]);
    send("{\"id\": ").refused(400, "invalid_body", &["JSON", "nothing"]);
    send("[{\"id\": \"x\"},\n{\"id\": }]").refused(400, "invalid_body", &["JSON", "nothing"]);
    send("id=x&project=p1").refused(400, "invalid_body", &["JSON"]);
    server.send_raw(source, &[("content-encoding", "gzip")], b"{}").refused(400, "invalid_body", &["gzip"]);
    server.send_raw(source, &[("content-encoding", "zstd")], b"{}").refused(400, "invalid_body", &["zstd"]);
    let by_line = [("content-type", "application/x-ndjson")];
    server.send_raw(source, &by_line, b"{\n{").refused(400, "invalid_body", &["line 1", "line 2"]);
    server.call("POST", "/api/logs", &[("x-api-key", PUBLIC)], b"{}").refused(
        400,
        "invalid_parameter",
        &["source_name"],
    );
    assert_eq!(ids(&server), Vec::<String>::new());
}

#[test]
fn a_body_is_bounded_as_sent_and_as_decompressed() {
    let server = Server::start();
    let source = "postgres.logs";
    let blanks = vec![b' '; (16 << 20) + 1];
    let too_large = |answer: tidegate_tests::Answer| answer.refused(413, "too_large", &["16777216"]);
    too_large(server.send_raw(source, &[], &blanks));
    for bomb in [gzip(&blanks), gzip(&vec![0; 40 << 20])] {
        too_large(server.send_raw(source, &[("content-encoding", "gzip")], &bomb));
    }
    too_large(server.send_raw(source, &[("content-encoding", "zstd")], &zstd_bomb(80_000)));
    // A window larger than any body.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (30 - 10) << 3, 1, 0, 0];
    server.send_raw(source, &[("content-encoding", "zstd")], &window).refused(400, "invalid_body", &["zstd"]);
    for encoding in ["br", "compress", "gzip, zstd"] {
        let answer = server.send_raw(source, &[("content-encoding", encoding)], b"{}");
        answer.refused(415, "unsupported_media_type", &[encoding, "gzip, zstd"]);
    }
    let many = format!("[{}]", vec!["{}"; 100_001].join(","));
    server.send_raw(source, &[], many.as_bytes()).refused(413, "too_large", &["100000 events"]);
    // As much as is allowed is taken.
    let body = format!("[{}]", vec![event(&"x".repeat(1000)).to_string(); 7_000].join(","));
    assert!((13 << 20..16 << 20).contains(&body.len()), "{}", body.len());
    let answer = server.send_raw(source, &[], body.as_bytes());
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &json!(7_000)));
    assert!(server.peak_memory() < 800, "{} MiB", server.peak_memory());
}

#[test]
fn a_token_learns_nothing_of_sources_that_are_not_its_own() {
    let server = Server::start();
    let send = |token: &str, source: &str| {
        let path = format!("/api/logs?{}", tidegate_tests::query_string(&[("source_name", source)]));
        server.call("POST", &path, &[("x-api-key", token)], b"{}")
    };
    let words = ["postgres.log", "postgres.logs", "POST /api/sources"];
    send(tidegate_tests::PRIVATE, "postgres.log").refused(404, "not_found", &words);
    let stranger = send(PUBLIC, "postgres.log");
    stranger.refused(401, "unauthorized", &[]);
    assert!(!stranger.body.to_string().contains("postgres.logs"), "{}", stranger.body);
    let anonymous = server.call("POST", "/api/logs?source_name=postgres.logs", &[], b"{}");
    anonymous.refused(401, "unauthorized", &["X-API-KEY"]);
    server.call("POST", "/api/logs?source_name=postgres.logs&api_key=nobody", &[], b"{}").refused(
        401,
        "unauthorized",
        &["query string"],
    );
    // Not taken from the query string unless that is configured, although it is a good one.
    let path = format!("/api/logs?source_name=postgres.logs&api_key={PUBLIC}");
    server.call("POST", &path, &[], b"{}").refused(401, "unauthorized", &["X-API-KEY"]);
    assert_eq!(ids(&server), Vec::<String>::new());
}

#[test]
fn a_token_of_one_source_cannot_tell_which_others_there_are() {
    let server = Server::start();
    let made = server.manage("POST", "/api/access-tokens", &json!({"scopes": "ingest:source:postgres.logs"}));
    let own = made.body["token"].as_str().unwrap();
    let queries = server.manage("POST", "/api/access-tokens", &json!({"scopes": "query"}));
    let sources = server.manage("GET", "/api/sources", &Value::Null);
    let edge = sources.body.as_array().unwrap().iter().find(|source| source["name"] == EDGE).unwrap();
    let send = |token: &str, source: &str, body: &Value| {
        let path = format!("/api/logs?{}", tidegate_tests::query_string(&[("source_name", source)]));
        server.call("POST", &path, &[("x-api-key", token)], body.to_string().as_bytes())
    };
    let own_event = event("own");
    assert_eq!(send(own, "postgres.logs", &own_event).status, 200);
    for token in [own, queries.body["token"].as_str().unwrap()] {
        // Neither by name nor by id, nor in the body, where it is not known before the body is read.
        let there = [EDGE, edge["id"].as_str().unwrap()].map(|source| send(token, source, &own_event));
        let nowhere =
            ["no.such.logs", "8f0e8f3e-0000-4000-8000-000000000000"].map(|source| send(token, source, &own_event));
        let in_body =
            [EDGE, "no.such.logs"].map(|source| send(token, "", &json!({"source_name": source, "batch": []})));
        let message = &there[0].body["error"]["message"];
        for answer in there.iter().chain(&nowhere).chain(&in_body) {
            answer.refused(401, "unauthorized", &[]);
            assert_eq!(&answer.body["error"]["message"], message);
        }
    }
    assert_eq!(ids(&server), ["own"]);
}

#[test]
fn the_body_may_name_its_source() {
    let server = Server::start();
    let send =
        |path: &str, body: Value| server.call("POST", path, &[("x-api-key", PUBLIC)], body.to_string().as_bytes());
    let event = |id: &str| json!({"id": id, "project": "p1", "timestamp": TIME});
    assert_eq!(send("/api/logs", json!({"source_name": "postgres.logs", "batch": [event("batch")]})).status, 200);
    assert_eq!(send("/api/logs", json!({"id": "one", "project": "p1", "source": "postgres.logs"})).status, 200);
    // The request goes first.
    let other = json!({"id": "query", "project": "p1", "source_name": "nothing"});
    assert_eq!(send("/api/logs?source_name=postgres.logs", other).status, 200);
    send("/api/logs", json!({"source_name": "nothing", "batch": []})).refused(401, "unauthorized", &[]);
    assert_eq!(ids(&server), ["batch", "one", "query"]);
}

#[test]
fn a_refused_request_is_not_read() {
    let server = Server::start();
    let head = |token: &str, source: &str| {
        format!(
            "POST /api/logs?source_name={source} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: 1000000\r\n\r\n"
        )
    };
    // Nothing of the body is sent, and the answer is there.
    for (token, source) in [("nobody", "postgres.logs"), (PUBLIC, "nothing")] {
        let answer = server.exchange(&[head(token, source).as_bytes()]);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    }
}

#[test]
fn a_slow_body_is_waited_for_and_a_broken_one_stores_nothing() {
    let server = Server::start();
    let head = |length: usize| {
        format!(
            "POST /api/logs?source_name=postgres.logs HTTP/1.1\r\nhost: x\r\nx-api-key: {PUBLIC}\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let body = json!([event("slow-1"), event("slow-2")]).to_string();
    let (first, second) = body.split_at(body.len() / 2);
    let answer = server.exchange(&[head(body.len()).as_bytes(), first.as_bytes(), second.as_bytes()]);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A body that breaks off where its first event is whole.
    let lines = format!("{}\n", event("broken"));
    server.exchange(&[head(lines.len() + 1000).as_bytes(), lines.as_bytes()]);
    assert_eq!(ids(&server), ["slow-1", "slow-2"]);
}

#[test]
fn what_was_answered_is_there_at_once() {
    let server = Server::start();
    for round in 0..20_i64 {
        let events: Vec<Value> = (0..50).map(|i| event(&format!("{round}-{i}"))).collect();
        server.send("postgres.logs", &Value::Array(events));
        let count = server.sql("select count(*) as c from postgres_logs").column("c");
        assert_eq!(count, [json!((round + 1) * 50)]);
    }
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

/// What waits to be written has a bound; who sends more is answered when segments have taken some of it.
#[test]
fn a_full_buffer_is_waited_for() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_BUFFER_BYTES", "1 MiB")]);
    let event = |id: String| json!([{"id": id, "project": "p1", "event_message": "x".repeat(600 << 10)}]);
    for number in 0..8 {
        server.send("postgres.logs", &event(number.to_string()));
    }
    assert_eq!(server.sql("select count(*) as n from postgres_logs").column("n"), [json!(8)]);
}

/// When events in memory become a segment can be set.
#[test]
fn events_become_a_segment_at_the_thresholds_that_are_set() {
    let never = [("TIDEGATE_INGEST_FLUSH_ROWS", "10"), ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h")];
    let often = [("TIDEGATE_INGEST_FLUSH_ROWS", "100000"), ("TIDEGATE_INGEST_FLUSH_INTERVAL", "10 ms")];
    let bytes = [("TIDEGATE_INGEST_FLUSH_BYTES", "1 KiB"), ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h")];
    let events = |count: usize, text: &str| -> Value {
        (0..count).map(|id| json!({"id": id.to_string(), "project": "p1", "event_message": text})).collect()
    };
    let wait = |server: &Server| {
        server.until_segments(1);
    };
    let server = Server::start_set(&never);
    server.send("postgres.logs", &events(9, "x"));
    assert_eq!(server.metric("tidegate_store_segments"), 0.0);
    server.send("postgres.logs", &events(1, "x"));
    wait(&server);
    for (settings, sent) in [(often, events(1, "x")), (bytes, events(1, &"x".repeat(2_000)))] {
        let server = Server::start_set(&settings);
        server.send("postgres.logs", &sent);
        wait(&server);
    }
}
