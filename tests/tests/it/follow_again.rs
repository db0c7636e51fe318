//! A follower that comes back misses nothing that is stored: rows that are only in segments come again, each once and in
//! the order of their commits, under the token, the pins and the bounds of the query.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, Server, now, request, until};

use crate::follow::{ALL, Follower, all_missed, follow_as, ids};

/// Segments of a hundred rows, merged soon, and next to no memory for calls that are kept for followers.
const SETTINGS: [(&str, &str); 4] = [
    ("TIDEGATE_INGEST_FLUSH_ROWS", "100"),
    ("TIDEGATE_INGEST_FLUSH_INTERVAL", "1 s"),
    ("TIDEGATE_COMPACTION_FAN_IN", "4"),
    ("TIDEGATE_FOLLOW_MEMORY", "1 MiB"),
];

fn start(data: &Path) -> Server {
    Server::start_set_in(data, &SETTINGS)
}

/// Sends events in one call that are so large that the feed soon has them no longer.
fn send(server: &Server, range: Range<usize>) {
    let at = now();
    let event = |(i, id): (usize, String)| {
        let mut event = request(&id, at + i as i64, &format!("/n/{}", i % 10));
        event["metadata"]["padding"] = json!("x".repeat(6_000));
        event
    };
    server.send(EDGE, &json!(range.clone().zip(ids(range)).map(event).collect::<Vec<_>>()));
}

fn all_in_segments(server: &Server, rows: usize) {
    until("a flush of all rows", || {
        let source = server.manage("GET", &format!("/api/sources/{EDGE}"), &Value::Null);
        source.body["rows"] == json!(rows) && source.body["memory_rows"] == json!(0)
    });
}

/// The id of the last of the next rows.
fn leave_after(follower: &Follower, expected: &[String]) -> String {
    let events: Vec<_> = expected.iter().map(|_| follower.next()).collect();
    let came: Vec<_> = events.iter().map(|event| event.data["id"].as_str().unwrap()).collect();
    assert_eq!(came, expected);
    events.last().unwrap().id.clone()
}

#[test]
fn missed_rows_are_bounded_as_those_of_an_answer() {
    let data = Data::new();
    let server = start(&data);
    send(&server, 0..12);
    let five = server.token(&json!({"scopes": "query", "limits": {"rows": "5"}}));
    let mut last = "0-0".to_owned();
    for expected in [0..5, 5..10] {
        let follower = follow_as(&server, &five, "logs.all", &last, &ALL);
        assert_eq!(follower.rows(5), ids(expected));
        let end = follower.named("end");
        assert_eq!(end.data["reason"], "limit", "{end:?}");
        last = end.id;
    }
    let follower = follow_as(&server, &five, "logs.all", &last, &ALL);
    assert_eq!(follower.rows(2), ids(10..12));
    // New rows are none that were missed.
    send(&server, 12..30);
    assert_eq!(follower.rows(18), ids(12..30));
    follower.is_quiet();
}

#[test]
fn rows_that_are_only_in_segments_come_again_also_after_a_restart() {
    let data = Data::new();
    let server = start(&data);
    let first = follow_as(&server, PRIVATE, "logs.all", "", &ALL);
    let live = first.named("live").id;
    send(&server, 0..10);
    let last = leave_after(&first, &ids(0..4));
    drop(first);
    for part in 0..40 {
        send(&server, 10 + part * 25..10 + (part + 1) * 25);
    }
    all_in_segments(&server, 1_010);
    until("a merge", || server.metric("tidegate_store_merges_total") >= 1.0);
    let check = |server: &Server, until: usize| {
        for (id, from) in [(&last, 4), (&live, 0)] {
            let (came, again) = all_missed(server, id, until - from);
            assert_eq!(came, ids(from..until));
            again.is_quiet();
        }
    };
    check(&server, 1_010);
    assert!(server.metric("tidegate_follow_stored_looks_total") > 0.0);
    // Some rows in segments, some in memory.
    send(&server, 1_010..1_020);
    check(&server, 1_020);
    all_in_segments(&server, 1_020);
    server.stop("-TERM");
    let server = start(&data);
    check(&server, 1_020);
    let (came, again) = all_missed(&server, &last, 1_016);
    assert_eq!(came, ids(4..1_020));
    send(&server, 1_020..1_030);
    assert_eq!(again.rows(10), ids(1_020..1_030));
    again.is_quiet();
    // Conditions of the query and of the plan hold for what is read again.
    let some =
        [("project", "p1"), ("sql", "SELECT id FROM edge_logs WHERE event_message LIKE '%/n/3'"), ("follow_rows", "0")];
    let again = follow_as(&server, PRIVATE, "logs.all", &last, &some);
    let expected: Vec<_> = ids(0..1_030).into_iter().skip(13).step_by(10).collect();
    assert_eq!(again.rows(expected.len()), expected);
    again.is_quiet();
}

#[test]
fn pins_hold_for_what_is_read_again_and_rows_are_taken_apart() {
    let data = Data::new();
    let server = start(&data);
    let pinned = server.token(&json!({"scopes": "query", "pinned": {"project": "p1"}}));
    let sql = "SELECT t.id, p.n FROM edge_logs AS t CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.parts) AS p";
    let query = [("sql", sql), ("follow_rows", "0")];
    let first = follow_as(&server, &pinned, "logs.all", "", &query);
    first.named("live");
    // Each call has rows of two projects, and of each row three are made.
    let call = |part: usize| {
        let of = |i: usize| {
            let mut event = request(&format!("e{i:05}"), now(), "/x");
            event["metadata"]["parts"] = json!([{"n": 0}, {"n": 1}, {"n": 2}]);
            if i % 2 == 1 {
                event["project"] = json!("p2");
                event["metadata"]["request"]["url"] = json!("https://p2.example.test/");
            }
            event
        };
        server.send(EDGE, &json!((part * 20..part * 20 + 20).map(of).collect::<Vec<_>>()));
    };
    call(0);
    let expected: Vec<(String, u64)> =
        ids(0..400).into_iter().step_by(2).flat_map(|id| (0..3).map(move |n| (id.clone(), n))).collect();
    let rows = |follower: &Follower, count: usize| -> (Vec<(String, u64)>, String) {
        let events: Vec<_> = (0..count).map(|_| follower.next()).collect();
        let row = |data: &Value| (data["id"].as_str().unwrap().to_owned(), data["n"].as_u64().unwrap());
        (events.iter().map(|event| row(&event.data)).collect(), events.last().unwrap().id.clone())
    };
    // It leaves between two rows that are made of one.
    let (came, last) = rows(&first, 4);
    assert_eq!(came, expected[..4]);
    drop(first);
    (1..20).for_each(call);
    all_in_segments(&server, 400);
    server.stop("-TERM");
    let server = start(&data);
    let again = follow_as(&server, &pinned, "logs.all", &last, &query);
    let (came, _) = rows(&again, expected.len() - 4);
    assert_eq!(came, expected[4..]);
    again.is_quiet();
    assert!(server.metric("tidegate_follow_stored_looks_total") > 0.0);
}

#[test]
fn nothing_is_missed_or_doubled_while_rows_come_in() {
    let data = Data::new();
    let server = start(&data);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) {
                send(&server, sent..sent + 7);
                sent += 7;
                std::thread::sleep(Duration::from_millis(3));
            }
            sent
        });
        let mut follower = follow_as(&server, PRIVATE, "logs.all", "", &ALL);
        let mut last = follower.named("live").id;
        let mut next = None;
        // It leaves again and again, for longer and longer.
        for round in 0..8 {
            for _ in 0..60 * (round + 1) {
                let event = follower.next();
                assert_eq!(event.name, "", "{event:?}");
                let number: usize = event.data["id"].as_str().unwrap()[1..].parse().unwrap();
                assert!(next.is_none_or(|next| next == number), "{next:?} is expected, not {number}");
                (last, next) = (event.id, Some(number + 1));
            }
            drop(follower);
            std::thread::sleep(Duration::from_millis(200 * round));
            follower = follow_as(&server, PRIVATE, "logs.all", &last, &ALL);
        }
        done.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        let next = next.unwrap();
        drop(follower);
        let (came, follower) = all_missed(&server, &last, sent - next);
        assert_eq!(came, ids(next..sent));
        follower.is_quiet();
        assert!(server.metric("tidegate_store_flushes_total") >= 2.0);
        assert!(server.metric("tidegate_follow_stored_looks_total") > 0.0);
    });
}

#[test]
fn what_retention_dropped_is_told() {
    let data = Data::new();
    let server = start(&data);
    let first = follow_as(&server, PRIVATE, "logs.all", "", &ALL);
    first.named("live");
    send(&server, 0..10);
    let last = leave_after(&first, &ids(0..4));
    drop(first);
    send(&server, 10..200);
    all_in_segments(&server, 200);
    let id = server.read(&format!("/api/sources/{EDGE}"))["id"].clone();
    let path = format!("/api/sources/{}", id.as_str().unwrap());
    server.manage("PATCH", &path, &json!({"retention_bytes": 1})).is(200);
    server.stop("-TERM");
    let server = start(&data);
    until("retention", || server.metric("tidegate_store_segments") == 0.0);
    send(&server, 200..210);
    let again = follow_as(&server, PRIVATE, "logs.all", &last, &ALL);
    again.named("gap");
    assert_eq!(again.rows(10), ids(200..210));
    again.is_quiet();
}
