//! `usage.api-counts`: specification 4.2.

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, now, request};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const COUNTS: [&str; 4] =
    ["total_rest_requests", "total_storage_requests", "total_auth_requests", "total_realtime_requests"];

fn counts(server: &Server, interval: &str, project: &str) -> Vec<Value> {
    server.query("usage.api-counts", &[("interval", interval), ("project", project)]).rows().to_vec()
}

fn total(rows: &[Value], column: &str) -> i64 {
    rows.iter().map(|row| row[column].as_i64().expect("counts are integers, never null")).sum()
}

#[test]
fn each_interval_has_its_window_and_its_buckets() {
    let server = Server::start();
    let now = now();
    // Just inside and just outside, with more slack than the test takes.
    let slack = 30 * SECOND;
    server.send(
        EDGE,
        &json!([
            request("now", now - SECOND, "/rest/v1/a"),
            request("in-hour", now - HOUR + slack, "/auth/v1/a"),
            request("out-of-hour", now - HOUR - slack, "/storage/v1/a"),
            request("in-week", now - 7 * DAY + slack, "/realtime/v1/a"),
            request("out-of-week", now - 7 * DAY - slack, "/rest/v1/b"),
        ]),
    );
    for (interval, unit, expected) in
        [("minutely", MINUTE, [1, 0, 1, 0]), ("hourly", HOUR, [1, 0, 1, 0]), ("daily", DAY, [1, 1, 1, 1])]
    {
        let rows = counts(&server, interval, "p1");
        assert_eq!(COUNTS.map(|column| total(&rows, column)), expected, "{interval}");
        let mut last = i64::MIN;
        for row in &rows {
            let text = row["timestamp"].as_str().expect("a datetime is a text");
            let time = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").expect("without zone");
            let micros = time.and_utc().timestamp_micros();
            assert_eq!(micros % unit, 0, "{interval}: {text} begins no bucket");
            assert!(micros > last, "ascending");
            assert!(COUNTS.iter().any(|column| row[*column].as_i64() > Some(0)), "no empty buckets");
            last = micros;
        }
    }
}

#[test]
fn a_path_counts_wherever_it_holds_the_text_and_in_every_column() {
    let server = Server::start();
    let time = now() - SECOND;
    server.send(
        EDGE,
        &json!([
            request("1", time, "/rest/v1/storage/auth"),
            request("2", time, "/x/y/rest"),
            request("3", time, "/REST/v1"),
            request("4", time, "/restaurant"),
            request("5", time, "/functions/v1"),
        ]),
    );
    let rows = counts(&server, "daily", "p1");
    assert_eq!(COUNTS.map(|column| total(&rows, column)), [3, 1, 1, 0]);
}

#[test]
fn the_project_is_a_regular_expression_on_the_address() {
    let server = Server::start();
    let time = now() - SECOND;
    let mut elsewhere = request("2", time, "/rest/v1");
    elsewhere["metadata"]["request"]["url"] = json!("https://p22.example.test/rest/v1");
    let mut without = request("3", time, "/rest/v1");
    without["metadata"]["request"]["url"] = Value::Null;
    server.send(EDGE, &json!([request("1", time, "/rest/v1"), elsewhere, without]));
    for (project, expected) in [("p1", 1), ("^https://p[0-9]+", 2), ("p(1|22)\\.", 2), ("nobody", 0), (".", 2)] {
        assert_eq!(total(&counts(&server, "daily", project), COUNTS[0]), expected, "{project}");
    }
    assert_eq!(counts(&server, "daily", "nobody"), Vec::<Value>::new());
}
