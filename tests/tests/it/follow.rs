//! Following a query: each new row once and in order, under the token, the grants and the bounds of any query; what is
//! missed is told; and a stream that must end says why.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, Server, binary, folder, now, query_string, request, until};

use crate::components::{guest, pack, put};

/// How long anything that must happen may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// How long nothing must happen.
const QUIET: Duration = Duration::from_millis(400);
const FILTER: &str = "SELECT id FROM edge_logs";
/// Parameters for the ids of all rows from now on.
pub(crate) const ALL: [(&str, &str); 3] = [("project", "p1"), ("sql", FILTER), ("follow_rows", "0")];

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// One follower, read by a thread of its own.
pub(crate) struct Follower {
    events: Receiver<Event>,
    head: String,
    _stream: TcpStream,
}

/// A query that is followed.
pub(crate) fn follow_as(
    server: &Server,
    token: &str,
    endpoint: &str,
    last: &str,
    parameters: &[(&str, &str)],
) -> Follower {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let path = format!("/api/endpoints/query/{endpoint}?{}", query_string(parameters));
    let last = if last.is_empty() { String::new() } else { format!("last-event-id: {last}\r\n") };
    let accept = "accept: text/event-stream\r\naccept-encoding: gzip";
    write!(stream, "GET {path} HTTP/1.0\r\nhost: x\r\nx-api-key: {token}\r\n{accept}\r\n{last}\r\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(lines.read_line(&mut head).unwrap() > 0, "no head: {head}");
    }
    let (sender, events) = channel();
    std::thread::spawn(move || {
        let (mut event, mut line) = (Event::default(), String::new());
        while matches!(lines.read_line(&mut line), Ok(1..)) {
            let text = line.trim_end_matches('\n');
            if let Some(id) = text.strip_prefix("id: ") {
                event.id = id.to_owned();
            } else if let Some(name) = text.strip_prefix("event: ") {
                event.name = name.to_owned();
            } else if let Some(data) = text.strip_prefix("data: ") {
                event.data = serde_json::from_str(data).unwrap();
            } else if text.starts_with(':') {
                event.name = "comment".to_owned();
            } else if text.is_empty() && sender.send(std::mem::take(&mut event)).is_err() {
                return;
            }
            line.clear();
        }
    });
    Follower { events, head, _stream: stream }
}

fn follow(server: &Server, parameters: &[(&str, &str)]) -> Follower {
    follow_as(server, PRIVATE, "logs.all", "", &[&[("project", "p1")], parameters].concat())
}

impl Follower {
    /// The next event that is no sign of life.
    pub(crate) fn next(&self) -> Event {
        loop {
            let event = self.events.recv_timeout(LONG).expect("an event in time");
            if event.name != "comment" {
                return event;
            }
        }
    }

    /// The ids in the next rows.
    pub(crate) fn rows(&self, count: usize) -> Vec<String> {
        let row = |_| {
            let event = self.next();
            assert_eq!(event.name, "", "{event:?}");
            event.data["id"].as_str().unwrap().to_owned()
        };
        (0..count).map(row).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Event {
        let event = self.next();
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    pub(crate) fn is_quiet(&self) {
        let end = Instant::now() + QUIET;
        while let Ok(event) = self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
            assert_eq!(event.name, "comment", "{event:?}");
        }
    }

    fn is_closed(&self) {
        while self.events.recv_timeout(LONG).is_ok() {}
    }
}

pub(crate) fn ids(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("e{i:05}")).collect()
}

/// Sends events in one call, each at its own time.
fn send(server: &Server, range: std::ops::Range<usize>) {
    let at = now();
    let events: Vec<Value> =
        range.clone().zip(ids(range)).map(|(i, id)| request(&id, at + i as i64, &format!("/n/{}", i % 10))).collect();
    server.send(EDGE, &json!(events));
}

/// The next rows of a follower that comes back whenever it has got as many missed rows as an answer may have.
pub(crate) fn all_missed(server: &Server, last: &str, rows: usize) -> (Vec<String>, Follower) {
    let (mut last, mut came) = (last.to_owned(), Vec::new());
    loop {
        let follower = follow_as(server, PRIVATE, "logs.all", &last, &ALL);
        while came.len() < rows {
            let event = follower.next();
            last = event.id;
            match event.name.as_str() {
                "" => came.push(event.data["id"].as_str().unwrap().to_owned()),
                "end" if event.data["reason"] == "limit" => break,
                _ => panic!("{} {}", event.name, event.data),
            }
        }
        if came.len() == rows {
            return (came, follower);
        }
    }
}

#[test]
fn the_newest_rows_come_first_and_then_each_new_one_once() {
    let server = Server::start();
    send(&server, 0..5);
    let follower = follow(&server, &[("sql", FILTER), ("follow_rows", "3")]);
    assert!(follower.head.contains("200 OK"), "{}", follower.head);
    assert!(follower.head.contains("text/event-stream") && !follower.head.contains("content-encoding"));
    assert!(follower.head.contains("no-store"), "{}", follower.head);
    assert_eq!(follower.rows(3), ids(2..5), "the oldest of them first");
    assert_eq!(follower.named("live").data["rows"], 3);
    for i in 5..20 {
        send(&server, i..i + 1);
    }
    send(&server, 20..40);
    assert_eq!(follower.rows(35), ids(5..40));
    follower.is_quiet();
    // Those of other projects are in the same source.
    let mut other = request("other", now(), "/n/1");
    other["project"] = json!("p2");
    other["metadata"]["request"]["url"] = json!("https://p2.example.test/");
    server.send(EDGE, &json!([other]));
    follower.is_quiet();
    assert_eq!(server.metric("tidegate_followers"), 1.0);
    assert!(server.metric("tidegate_follow_rows_sent_total") >= 38.0);
    drop(follower);
}

#[test]
fn filters_in_lql_and_sql_let_through_what_the_query_answers() {
    let server = Server::start();
    let conditions = [
        ("lql", "f:edge_logs m.request.path:\"/n/3\" s:id"),
        ("sql", "SELECT id FROM edge_logs WHERE event_message LIKE '%/n/3'"),
        (
            "sql",
            "SELECT t.id FROM edge_logs AS t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS r WHERE r.path = '/n/3'",
        ),
        (
            "sql",
            "SELECT x.id FROM (SELECT * FROM edge_logs WHERE timestamp > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)) AS x WHERE event_message LIKE '%/n/3'",
        ),
    ];
    let followers: Vec<_> = conditions.iter().map(|condition| follow(&server, &[*condition])).collect();
    for follower in &followers {
        assert!(follower.head.contains("200 OK"), "{}", follower.head);
        follower.named("live");
    }
    for part in 0..10 {
        send(&server, part * 7..part * 7 + 7);
    }
    let expected: Vec<String> = ids(0..70).into_iter().skip(3).step_by(10).collect();
    for follower in &followers {
        assert_eq!(follower.rows(7), expected);
        follower.is_quiet();
    }
    // A field that no log had before.
    let new = follow(
        &server,
        &[
            (
                "sql",
                "SELECT id, m.late AS late FROM edge_logs CROSS JOIN UNNEST(metadata) AS m WHERE m.late IS NOT NULL",
            ),
            ("follow_rows", "0"),
        ],
    );
    new.named("live");
    let mut event = request("late", now(), "/n/0");
    event["metadata"]["late"] = json!("x");
    server.send(EDGE, &json!([event]));
    assert_eq!(new.next().data, json!({"id": "late", "late": "x"}));
}

#[test]
fn what_is_more_than_a_filter_is_refused_by_its_clause() {
    let server = Server::start();
    let get = |parameters: &[(&str, &str)]| {
        let path =
            format!("/api/endpoints/query/logs.all?{}", query_string(&[&[("project", "p1")], parameters].concat()));
        server.call("GET", &path, &[("x-api-key", PRIVATE), ("accept", "text/event-stream")], b"")
    };
    for (sql, word) in [
        ("SELECT COUNT(*) AS n FROM edge_logs", "aggregate"),
        ("SELECT id FROM edge_logs ORDER BY timestamp", "ORDER BY"),
        ("SELECT id FROM edge_logs LIMIT 5", "LIMIT"),
        ("SELECT DISTINCT event_message FROM edge_logs", "DISTINCT"),
        ("SELECT a.id FROM edge_logs AS a JOIN edge_logs AS b ON a.id = b.id", "join"),
        ("SELECT id FROM edge_logs WHERE id IN (SELECT id FROM postgres_logs)", "subquery"),
        ("SELECT id FROM edge_logs UNION ALL SELECT id FROM postgres_logs", "UNION"),
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM edge_logs", "window"),
        ("SELECT 1 AS one", "no source"),
    ] {
        get(&[("sql", sql)]).refused(400, "unsupported", &[word]);
    }
    get(&[("sql", "SELECT nothing_here( FROM edge_logs")]).refused(400, "syntax_error", &[]);
    get(&[("sql", FILTER), ("follow_rows", "x")]).refused(400, "invalid_parameter", &["follow_rows"]);
    get(&[("sql", FILTER), ("follow_since", "soon")]).refused(400, "invalid_parameter", &["follow_since"]);
    // A granted table that is more than a filter.
    let query = format!(
        "WITH counted AS (SELECT project, COUNT(*) AS n FROM `{EDGE}` GROUP BY project), \
         newest AS (SELECT id FROM `{EDGE}` ORDER BY timestamp DESC LIMIT 3) SELECT * FROM counted"
    );
    let endpoint = json!({"name": "more", "query": query, "sandboxable": true});
    server.save(&endpoint);
    for table in ["counted", "newest"] {
        let path = format!("/api/endpoints/query/more?{}", query_string(&[("sql", &format!("SELECT * FROM {table}"))]));
        let answer = server.call("GET", &path, &[("x-api-key", PRIVATE), ("accept", "text/event-stream")], b"");
        answer.refused(400, "unsupported", &["granted table"]);
    }
}

#[test]
fn pins_scopes_and_redaction_hold() {
    let server = Server::start();
    let pinned = server.token(&json!({"scopes": "query", "pinned": {"project": "p1"}}));
    let follower = follow_as(&server, &pinned, "logs.all", "", &[("sql", FILTER)]);
    let masked = {
        let query = format!("WITH t AS (SELECT id, event_message FROM `{EDGE}`) SELECT * FROM t");
        let endpoint = json!({"name": "masked", "query": query, "sandboxable": true, "redact_pii": true});
        server.save(&endpoint);
        follow_as(&server, PRIVATE, "masked", "", &[])
    };
    follower.named("live");
    masked.named("live");
    let mut other = request("other", now(), "/from/10.1.2.3");
    other["project"] = json!("p2");
    other["metadata"]["request"]["url"] = json!("https://p2.example.test/");
    server.send(EDGE, &json!([other, request("own", now(), "/x")]));
    assert_eq!(follower.rows(1), ["own"]);
    follower.is_quiet();
    let first = masked.next();
    assert_eq!(first.data["id"], "other");
    assert!(!first.data.to_string().contains("10.1.2.3"), "{first:?}");
    let else_where = server.token(&json!({"scopes": "query:endpoint:masked"}));
    let refused = follow_as(&server, &else_where, "logs.all", "", &[("project", "p1"), ("sql", FILTER)]);
    assert!(refused.head.contains(" 403 "), "{}", refused.head);
    let other = follow_as(&server, &pinned, "logs.all", "", &[("project", "p2"), ("sql", FILTER)]);
    assert!(other.head.contains(" 403 "), "{}", other.head);
}

#[test]
fn a_follower_comes_back_without_gap_or_double_over_flushes_and_merges() {
    let server = Server::start_set(&[
        ("TIDEGATE_INGEST_FLUSH_ROWS", "1000"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "1 s"),
        ("TIDEGATE_COMPACTION_FAN_IN", "2"),
    ]);
    let first = follow_as(&server, PRIVATE, "logs.all", "", &ALL);
    first.named("live");
    send(&server, 0..10);
    let mut last = String::new();
    for id in ids(0..4) {
        let event = first.next();
        assert_eq!(event.data["id"], id);
        last = event.id;
    }
    drop(first);
    for part in 0..6 {
        send(&server, 10 + part * 1000..10 + (part + 1) * 1000);
        std::thread::sleep(Duration::from_millis(300));
    }
    until("a flush", || server.metric("tidegate_store_flushes_total") >= 2.0);
    until("a merge", || server.metric("tidegate_store_merges_total") >= 1.0);
    let (came, second) = all_missed(&server, &last, 6006);
    assert_eq!(came, ids(4..6010));
    send(&server, 6010..6012);
    assert_eq!(second.rows(2), ids(6010..6012));
    second.is_quiet();
    // A place that this server does not have.
    let third = follow_as(&server, PRIVATE, "logs.all", "8999999999999999.0.0", &ALL);
    third.named("gap");
    send(&server, 6012..6013);
    assert_eq!(third.rows(1), ids(6012..6013));
    let bad = follow_as(&server, PRIVATE, "logs.all", "nonsense", &ALL);
    assert!(bad.head.contains(" 400 "), "{}", bad.head);
}

#[test]
fn a_follower_comes_back_after_a_restart_and_learns_of_what_is_not_known() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let first = follow_as(&server, PRIVATE, "logs.all", "", &ALL);
    first.named("live");
    send(&server, 0..3);
    assert_eq!(first.rows(2), ids(0..2));
    let last = first.next().id;
    server.stop("-TERM");
    let end = first.named("end");
    assert_eq!(end.data["reason"], "shutdown");
    first.is_closed();
    let server = Server::start_in(&data);
    send(&server, 3..6);
    for id in [&last, &end.id] {
        let second = follow_as(&server, PRIVATE, "logs.all", id, &ALL);
        assert_eq!(second.rows(3), ids(3..6));
    }
}

#[test]
fn a_stop_does_not_wait_for_followers() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_GRACE", "60 s")]);
    let follower = follow(&server, &[("sql", FILTER)]);
    follower.named("live");
    let began = Instant::now();
    assert_eq!(server.stop("-TERM"), Some(0));
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(follower.named("end").data["reason"], "shutdown");
}

#[test]
fn a_stream_ends_with_its_token_its_endpoint_and_its_source_and_says_why() {
    let server = Server::start();
    let (id, revoked) = server.token_and_id(&json!({"scopes": "query"}));
    let query = format!("WITH t AS (SELECT id FROM `{EDGE}`) SELECT * FROM t");
    let mut endpoints = Vec::new();
    for name in ["gone", "changed"] {
        let endpoint = json!({"name": name, "query": query, "sandboxable": true});
        server.save(&endpoint);
        endpoints.push(follow_as(&server, PRIVATE, name, "", &[]));
    }
    let of_token = follow_as(&server, &revoked, "logs.all", "", &[("project", "p1"), ("sql", FILTER)]);
    for follower in endpoints.iter().chain([&of_token]) {
        follower.named("live");
    }
    server.manage("DELETE", &format!("/api/access-tokens/{id}"), &Value::Null).is(204);
    server.manage("DELETE", "/api/endpoints/gone", &Value::Null).is(204);
    let change = json!({"query": format!("WITH t AS (SELECT id, timestamp FROM `{EDGE}`) SELECT * FROM t")});
    server.manage("PATCH", "/api/endpoints/changed", &change).is(200);
    for (follower, reason) in
        [(&of_token, "token_revoked"), (&endpoints[0], "endpoint_deleted"), (&endpoints[1], "endpoint_changed")]
    {
        assert_eq!(follower.named("end").data["reason"], reason);
        follower.is_closed();
    }
    until("the end of all", || server.metric("tidegate_followers") == 0.0);
    // A row for which the query fails ends it with the reason.
    let fails = follow(
        &server,
        &[("sql", "SELECT id, CAST(SUBSTR(event_message, 5) AS INT64) AS n FROM edge_logs"), ("follow_rows", "0")],
    );
    fails.named("live");
    send(&server, 0..1);
    let end = fails.named("end").data;
    assert_eq!((&end["reason"], &end["error"]["code"]), (&json!("failed"), &json!("invalid_value")), "{end}");
}

#[test]
fn who_does_not_read_is_told_what_was_missed_and_holds_no_more_than_the_bound() {
    let server = Server::start_set(&[("TIDEGATE_FOLLOW_MEMORY", "4 MiB"), ("TIDEGATE_SERVER_WRITE_TIMEOUT", "10 min")]);
    let query = format!("WITH t AS (SELECT id, event_message FROM `{EDGE}`) SELECT * FROM t");
    let endpoint = json!({"name": "all", "query": query, "sandboxable": true});
    server.save(&endpoint);
    let mut slow = TcpStream::connect(server.address()).unwrap();
    write!(slow, "GET /api/endpoints/query/all?follow_rows=0 HTTP/1.0\r\nhost: x\r\nx-api-key: {PRIVATE}\r\naccept: text/event-stream\r\n\r\n").unwrap();
    until("the follower", || server.metric("tidegate_followers") == 1.0);
    let text = "x".repeat(4000);
    let total = 120 * 50;
    for part in 0..120 {
        let events: Vec<Value> = (0..50)
            .map(|i| json!({"id": format!("s{}", part * 50 + i), "event_message": format!("{text}{i}"), "project": "p1"}))
            .collect();
        server.send(EDGE, &json!(events));
        // So that none is overwritten before it was looked at: of those it is not known how many would have come.
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(server.metric("tidegate_follow_bytes") < 5.0 * 1_048_576.0, "{}", server.metric("tidegate_follow_bytes"));
    let mut lines = BufReader::new(slow);
    let (mut rows, mut missed, mut named, mut line) = (0_u64, 0_u64, String::new(), String::new());
    while rows + missed < total {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
        if let Some(name) = line.strip_prefix("event: ") {
            named = name.trim().to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            match named.as_str() {
                "" => rows += 1,
                "gap" => panic!("the server was too slow for this test: {data}"),
                "missed" => missed += serde_json::from_str::<Value>(data).unwrap()["rows"].as_u64().unwrap(),
                _ => {}
            }
        } else if line == "\n" {
            named.clear();
        }
    }
    assert_eq!(rows + missed, total);
    assert!(missed > 0);
    assert!(server.metric("tidegate_follow_rows_missed_total") >= 1.0);
}

#[test]
fn followers_are_bounded_for_a_token_and_in_all() {
    let server = Server::start_set(&[("TIDEGATE_FOLLOW_FOLLOWERS", "3"), ("TIDEGATE_FOLLOW_FOLLOWERS_OF_TOKEN", "2")]);
    let other = server.token(&json!({"scopes": "query"}));
    let all = [("project", "p1"), ("sql", FILTER)];
    let open: Vec<_> = (0..2).map(|_| follow(&server, &[("sql", FILTER)])).collect();
    open.iter().for_each(|follower| drop(follower.named("live")));
    let third = follow(&server, &[("sql", FILTER)]);
    assert!(third.head.contains(" 429 "), "{}", third.head);
    let of_other = follow_as(&server, &other, "logs.all", "", &all);
    of_other.named("live");
    let fourth = follow_as(&server, &other, "logs.all", "", &all);
    assert!(fourth.head.contains(" 503 "), "{}", fourth.head);
    assert_eq!(server.metric("tidegate_follow_queries"), 1.0, "the same query is computed once");
    assert_eq!(server.metric("tidegate_follow_refused_total"), 2.0);
    for follower in open {
        follower._stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    until("places", || server.metric("tidegate_followers") == 1.0);
    follow(&server, &[("sql", FILTER)]).named("live");
}

#[test]
fn signs_of_life_come_and_carry_the_place() {
    let server = Server::start_set(&[("TIDEGATE_FOLLOW_HEARTBEAT", "200 ms")]);
    let follower = follow(&server, &[("sql", FILTER), ("follow_rows", "0")]);
    let live = follower.named("live");
    let beat = follower.events.recv_timeout(LONG).unwrap();
    assert_eq!((beat.name.as_str(), &beat.id), ("comment", &live.id));
    let mut other = request("other", now(), "/n/1");
    other["project"] = json!("p2");
    server.send(EDGE, &json!([other]));
    until("a later place", || follower.events.recv_timeout(LONG).unwrap().id != live.id);
}

/// What a follower got is what the query answers afterwards, whatever was flushed and merged in between.
#[test]
fn what_came_is_what_the_query_answers() {
    let server = Server::start_set(&[
        ("TIDEGATE_INGEST_FLUSH_ROWS", "100"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms"),
        ("TIDEGATE_COMPACTION_FAN_IN", "2"),
    ]);
    let conditions = [
        "SELECT id, event_message FROM edge_logs WHERE event_message LIKE '%7%'",
        "SELECT id, r.path AS path FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS r WHERE m.n > 40",
        "SELECT id, m.n AS n FROM edge_logs CROSS JOIN UNNEST(metadata) AS m",
    ];
    let followers: Vec<_> =
        conditions.iter().map(|sql| follow(&server, &[("sql", *sql), ("follow_rows", "0")])).collect();
    followers.iter().for_each(|follower| drop(follower.named("live")));
    let (mut seed, mut sent) = (7_u64, 0);
    for _ in 0..60 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let count = (seed >> 33) as usize % 15 + 1;
        let events: Vec<Value> = (sent..sent + count)
            .map(|i| {
                let mut event = request(&format!("r{i}"), now() - (seed >> 40) as i64 % 1_000_000, &format!("/p/{i}"));
                match i % 4 {
                    0 => event["metadata"]["n"] = json!(i % 90),
                    1 => event["metadata"]["n"] = json!(f64::from(i as u32) / 8.0),
                    2 => event["metadata"][format!("late_{}", i % 30)] = json!({"deep": i}),
                    _ => {}
                }
                event
            })
            .collect();
        server.send(EDGE, &json!(events));
        sent += count;
        std::thread::sleep(Duration::from_millis(seed >> 58));
    }
    for (sql, follower) in conditions.iter().zip(&followers) {
        let answer = server.query("logs.all", &[("project", "p1"), ("sql", sql)]);
        let key = |row: &Value| row["id"].as_str().unwrap()[1..].parse::<usize>().unwrap();
        let mut expected = answer.rows().to_vec();
        expected.sort_by_key(key);
        let came: Vec<Value> = expected.iter().map(|_| follower.next().data).collect();
        assert_eq!(came, expected, "{sql}");
        follower.is_quiet();
    }
}

#[test]
fn tail_shows_rows_and_comes_back() {
    let data = Data::new();
    let server = Server::start_in(&data);
    send(&server, 0..3);
    let mut tail = Command::new(binary())
        .args([
            "tail",
            "logs.all",
            "-p",
            "project=p1",
            "--sql",
            FILTER,
            "--format",
            "json",
            "-n",
            "2",
            "--url",
            &server.base,
        ])
        .env("TIDEGATE_TOKEN", PRIVATE)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!([next(), next()], [r#"{"id":"e00001"}"#, r#"{"id":"e00002"}"#]);
    send(&server, 3..4);
    assert_eq!(next(), r#"{"id":"e00003"}"#);
    tail.kill().unwrap();
    tail.wait().unwrap();
    let refused = Command::new(binary())
        .args([
            "tail",
            "logs.all",
            "-p",
            "project=p1",
            "--sql",
            "SELECT COUNT(*) AS n FROM edge_logs",
            "--url",
            &server.base,
        ])
        .env("TIDEGATE_TOKEN", PRIVATE)
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("aggregate"), "{refused:?}");
    let refused = Command::new(binary())
        .args(["tail", "logs.all", "--url", &server.base])
        .env("TIDEGATE_TOKEN", PRIVATE)
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("-p project=VALUE"), "{refused:?}");
}

/// `tidegate tail ... | head -1` is no error.
#[test]
fn tail_ends_silently_when_nobody_reads_its_rows() {
    let data = Data::new();
    let server = Server::start_in(&data);
    send(&server, 0..1);
    let mut tail = Command::new(binary())
        .args(["tail", "logs.all", "-p", "project=p1", "--sql", FILTER, "--format", "json", "-n", "1", "--url"])
        .arg(&server.base)
        .env("TIDEGATE_TOKEN", PRIVATE)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = BufReader::new(tail.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(first, r#"{"id":"e00000"}"#);
    send(&server, 1..2);
    let out = tail.wait_with_output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
}

/// An endpoint with code answers by its code; what is followed is a query over its tables, or with a private token and no
/// sandbox over the sources.
#[test]
fn an_endpoint_with_code_is_followed_by_a_query_of_the_callers() {
    let server = Server::start();
    let folder = folder();
    let component = folder.path().join("edge-methods.wasm");
    pack("edge-methods", &guest("edge-methods.component.wasm"), &component);
    assert_eq!(put(&server, "edge.methods", &std::fs::read(&component).unwrap()).status, 201);
    let all = format!("SELECT id FROM `{EDGE}`");
    let private = follow_as(&server, PRIVATE, "edge.methods", "", &[("project", "p1"), ("sql", &all)]);
    private.named("live");
    send(&server, 0..2);
    assert_eq!(private.rows(2), ids(0..2));
    let other = server.token(&json!({"scopes": "query"}));
    let refused = follow_as(&server, &other, "edge.methods", "", &[("project", "p1"), ("sql", &all)]);
    assert!(refused.head.contains(" 403 "), "{}", refused.head);
    let nothing = follow_as(&server, PRIVATE, "edge.methods", "", &[("project", "p1")]);
    assert!(nothing.head.contains(" 400 "), "{}", nothing.head);
}
