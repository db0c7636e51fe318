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

#[test]
fn each_bucket_begins_where_its_records_are_truncated_to() {
    let server = Server::start();
    // Two records a minute apart in either case; the exact borders belong to the bucket they begin.
    let minute = (now() - 5 * MINUTE) / MINUTE * MINUTE;
    server.send(
        EDGE,
        &json!([
            request("before", minute - 1, "/rest/v1"),
            request("border", minute, "/rest/v1"),
            request("inside", minute + 59 * SECOND, "/auth/v1"),
            request("later", minute + 2 * MINUTE, "/storage/v1"),
        ]),
    );
    let text =
        |micros: i64| chrono::DateTime::from_timestamp_micros(micros).unwrap().format("%Y-%m-%dT%H:%M:%S").to_string();
    let row = |micros: i64, [rest, storage, auth]: [i64; 3]| {
        json!({"timestamp": text(micros), "total_rest_requests": rest, "total_storage_requests": storage,
               "total_auth_requests": auth, "total_realtime_requests": 0})
    };
    assert_eq!(
        counts(&server, "minutely", "p1"),
        [row(minute - MINUTE, [1, 0, 0]), row(minute, [1, 0, 1]), row(minute + 2 * MINUTE, [0, 1, 0])]
    );
    for (interval, unit) in [("hourly", HOUR), ("daily", DAY)] {
        let rows = counts(&server, interval, "p1");
        assert_eq!(rows[0]["timestamp"], text((minute - 1) / unit * unit), "{interval}");
        assert_eq!(COUNTS.map(|column| total(&rows, column)), [2, 1, 1, 0], "{interval}");
    }
}

#[test]
fn the_window_ends_now_and_counts_are_never_null() {
    let server = Server::start();
    let time = now() - SECOND;
    let mut without_path = request("1", time, "/rest/v1");
    without_path["metadata"]["request"]["path"] = Value::Null;
    let wrapped = json!({
        "id": "2", "timestamp": time, "event_message": "GET",
        "metadata": [{"request": [{"path": "/realtime/v1", "url": "https://p1.example.test/realtime/v1"}]}],
    });
    server.send(EDGE, &json!([without_path, wrapped, request("3", time + 2 * HOUR, "/rest/v1")]));
    let rows = counts(&server, "daily", "p1");
    assert_eq!(COUNTS.map(|column| total(&rows, column)), [0, 0, 0, 1]);
    server.send(EDGE, &json!({"timestamp": time, "metadata": {"request": {"url": "https://p9.example.test/"}}}));
    let rows = counts(&server, "hourly", "p9");
    assert_eq!(COUNTS.map(|column| total(&rows, column)), [0; 4]);
    assert_eq!(rows.len(), 1, "a request of no product makes its bucket all the same");
}

#[test]
fn at_most_a_thousand_rows_are_returned() {
    let server = Server::start();
    let time = now() - SECOND;
    let events: Vec<Value> = (0..1_005).map(|i| request(&i.to_string(), time, "/rest/v1")).collect();
    server.send(EDGE, &Value::Array(events));
    let own = [("interval", "daily"), ("project", "p1"), ("sql", "select path from requests")];
    assert_eq!(server.query("usage.api-counts", &own).rows().len(), 1_000);
}
