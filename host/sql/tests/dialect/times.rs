//! Times, dates and intervals.

use serde_json::json;

use super::super::support::{World, value};
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/times.txt");

#[test]
fn time_functions_work_in_utc() {
    let at = "timestamp '2025-11-20T10:15:02.123456Z'";
    for (expression, expected) in [
        (format!("timestamp_trunc({at}, minute)"), json!(1_763_633_700_000_000_i64)),
        (format!("timestamp_trunc({at}, DAY)"), json!(1_763_596_800_000_000_i64)),
        (format!("cast(timestamp_trunc({at}, week) as date)"), json!("2025-11-16")),
        (format!("cast(timestamp_trunc({at}, isoweek) as date)"), json!("2025-11-17")),
        (format!("cast(timestamp_trunc({at}, week(thursday)) as date)"), json!("2025-11-20")),
        (format!("timestamp_sub({at}, interval 15 minute) = timestamp '2025-11-20T10:00:02.123456Z'"), json!(true)),
        (format!("timestamp_diff({at}, timestamp '2025-11-20T08:15:03Z', hour)"), json!(1)),
        (format!("unix_millis({at})"), json!(1_763_633_702_123_i64)),
        (format!("extract(hour from {at})"), json!(10)),
        (format!("extract(dayofweek from {at})"), json!(5)),
        (format!("datetime({at}, 'UTC')"), json!("2025-11-20T10:15:02.123456")),
        (format!("format_timestamp('%F %H:%M', {at})"), json!("2025-11-20 10:15")),
        (format!("date({at})"), json!("2025-11-20")),
        ("date_sub(date '2025-03-31', interval 1 month)".into(), json!("2025-02-28")),
        ("date_diff(date '2025-03-01', date '2025-02-27', day)".into(), json!(2)),
        ("parse_timestamp('%Y-%m-%d', '2025-11-20')".into(), json!(1_763_596_800_000_000_i64)),
        ("timestamp_millis(1000)".into(), json!(1_000_000)),
        ("current_timestamp() - interval 2 second = timestamp '2025-11-20T10:15:00Z'".into(), json!(true)),
    ] {
        assert_eq!(value(&expression), expected, "{expression}");
    }
}

#[test]
fn stored_times_of_any_year_are_cut_to_every_part() {
    let rows = ["0001-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"];
    let world = World::new().source("t", &rows.map(|time| json!({"id": time, "timestamp": time})));
    for (part, expected) in [
        ("second", ["0001-12-31T23:59:59", "1969-12-31T23:59:59", "9999-12-31T23:59:59"]),
        ("hour", ["0001-12-31T23:00:00", "1969-12-31T23:00:00", "9999-12-31T23:00:00"]),
        ("day", ["0001-12-31T00:00:00", "1969-12-31T00:00:00", "9999-12-31T00:00:00"]),
        ("week", ["0001-12-30T00:00:00", "1969-12-28T00:00:00", "9999-12-26T00:00:00"]),
        ("isoweek", ["0001-12-31T00:00:00", "1969-12-29T00:00:00", "9999-12-27T00:00:00"]),
        ("month", ["0001-12-01T00:00:00", "1969-12-01T00:00:00", "9999-12-01T00:00:00"]),
        ("quarter", ["0001-10-01T00:00:00", "1969-10-01T00:00:00", "9999-10-01T00:00:00"]),
        ("year", ["0001-01-01T00:00:00", "1969-01-01T00:00:00", "9999-01-01T00:00:00"]),
        ("isoyear", ["0001-12-31T00:00:00", "1969-12-29T00:00:00", "9999-01-04T00:00:00"]),
    ] {
        // As a column, as one that the optimizer replaces by a constant, and as a computed value.
        let stored = format!("select datetime(timestamp_trunc(timestamp, {part})) as v from t order by timestamp");
        let constants = rows.map(|time| {
            format!("select datetime(timestamp_trunc(c, {part})) as v from (select timestamp '{time}' as c)")
        });
        let computed = format!(
            "select datetime(timestamp_trunc(timestamp_add(timestamp, interval 0 day), {part})) as v from t order by timestamp"
        );
        let expected = expected.map(|time| json!({"v": time}));
        assert_eq!(world.rows(&stored), json!(expected), "{part}");
        assert_eq!(world.rows(&computed), json!(expected), "{part}");
        for (sql, expected) in constants.iter().zip(&expected) {
            assert_eq!(world.rows(sql), json!([expected]), "{sql}");
        }
    }
}

#[test]
fn intervals_are_compared_by_their_length() {
    for (expression, expected) in json_cases(CASES, "intervals_are_compared_by_their_length") {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let world = World::new();
    let from = "from unnest([interval 25 hour, interval 1 day, interval 30 hour, interval 1 month]) as i";
    let rows = world.rows(&format!("select min(i) as a, max(i) as b {from}"));
    assert_eq!(rows, json!([{"a": "0-0 1 0:0:0", "b": "0-1 0 0:0:0"}]));
    let rows = world.rows(&format!("select string_agg(cast(i as string), ', ' order by i) as v {from}"));
    assert_eq!(rows, json!([{"v": "0-0 1 0:0:0, 0-0 0 25:0:0, 0-0 0 30:0:0, 0-1 0 0:0:0"}]));
    let rows = world.rows(&format!("select i {from} order by i desc limit 2"));
    assert_eq!(rows, json!([{"i": "0-1 0 0:0:0"}, {"i": "0-0 0 30:0:0"}]));
    for sql in ["select max(i) over ()", "select greatest(i, i)"] {
        let failure = world.failure(&format!("{sql} {from}"));
        assert!(failure.message.contains("INTERVAL"), "{failure}");
    }
    let equal = "from unnest([interval 24 hour, interval 1 day, interval 30 day, interval 1 month]) as i";
    let rows = world.rows(&format!("select i, count(*) as c {equal} group by i order by i"));
    assert_eq!(rows, json!([{"i": "0-0 0 24:0:0", "c": 2}, {"i": "0-0 30 0:0:0", "c": 2}]));
    assert_eq!(world.rows(&format!("select count(distinct i) as c {equal}")), json!([{"c": 2}]));
}

#[test]
fn a_date_and_an_interval_are_a_datetime() {
    for (expression, expected) in json_cases(CASES, "a_date_and_an_interval_are_a_datetime") {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let world = World::new().source("t", &[json!({"timestamp": 1_763_596_800_000_000_i64})]);
    let rows = world.rows(
        "select count(*) as c from t where date(timestamp) >= current_date() - interval 1 day
           and date(timestamp) < current_date() + interval 1 hour",
    );
    assert_eq!(rows, json!([{"c": 1}]));
    for (expression, needle) in [
        ("date_add(date '2025-01-01', interval 1 hour)", "a DATE moves by DAY"),
        ("date_sub(date '2025-01-01', interval 1 minute)", "a DATE moves by DAY"),
        ("date_trunc(date '2025-01-01', hour)", "a DATE has no HOUR"),
    ] {
        let failure = World::new().failure(&format!("select {expression} as v"));
        assert!(failure.message.contains(needle), "{failure}");
    }
}

#[test]
fn times_out_of_range_are_told_in_the_words_of_the_language() {
    let world = World::new().source("t", &[json!({"n": 3_000_000_000_i64})]);
    for (expression, needle) in text_cases(CASES, "times_out_of_range_are_told_in_the_words_of_the_language") {
        let failure = world.failure(&format!("select {expression} as v from t"));
        assert!(failure.message.contains(needle), "{expression}: {failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
    for expression in [
        "safe.date_from_unix_date(n)",
        "safe.timestamp_micros(9223372036854775807)",
        "safe.date_add(date '2025-01-01', interval n day)",
        "safe.date_add(date '2025-01-01', interval 3000000000 day)",
        "safe.timestamp_add(timestamp '9999-12-31 23:00:00', interval 1 day)",
    ] {
        assert_eq!(world.rows(&format!("select {expression} as v from t")), json!([{"v": null}]), "{expression}");
    }
    for (expression, expected) in [
        ("cast(timestamp_trunc(timestamp '0001-01-01 05:00:00', day) as string)", json!("0001-01-01 00:00:00+00")),
        ("cast(timestamp_trunc(timestamp '9999-12-31 05:00:00', month) as string)", json!("9999-12-01 00:00:00+00")),
        ("date_add(date '0001-01-01', interval 9998 year)", json!("9999-01-01")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn intervals_are_summed_and_divided() {
    let world = World::new();
    let from = "from unnest([interval 1 month, interval 10 day, interval 90 minute, null]) as i";
    let rows = world.rows(&format!("select sum(i) as s, avg(i) as a {from}"));
    assert_eq!(rows, json!([{"s": "0-1 10 1:30:0", "a": "0-0 13 8:30:0"}]));
    assert_eq!(world.rows("select sum(i) as s from unnest([interval 1 day]) as i where false"), json!([{"s": null}]));
    assert_eq!(value("interval 1 month / 4"), json!("0-0 7 12:0:0"));
    assert_eq!(value("interval 3 hour / -2"), json!("0-0 0 -1:30:0"));
    assert!(world.failure("select interval 1 day / 0").message.contains("division by zero"));
}

#[test]
fn an_interval_is_of_any_expression() {
    let world = World::new();
    for (expression, expected) in text_cases(CASES, "an_interval_is_of_any_expression") {
        let rows = world.rows(&format!("SELECT STRING(DATETIME({expression})) AS v FROM (SELECT 2 AS n) AS t"));
        assert_eq!(rows, json!([{"v": expected}]), "{expression}");
    }
    assert_eq!(world.rows("SELECT INTERVAL '2 hours' > INTERVAL '1 hour' AS v"), json!([{"v": true}]));
}

#[test]
fn no_time_lies_beyond_the_years_1_to_9999() {
    let rows = ["0000-12-31", "9999-12-31 23:00:00-14:00", "0001-01-01 00:00:00 Asia/Tokyo", "2025-01-01"];
    let world = World::new().source("t", &rows.map(|text| json!({"id": text, "s": text})));
    for to in ["timestamp", "datetime", "date"] {
        let sql = format!("select countif(safe_cast(s as {to}) is null) as n, count(*) as c from t");
        assert_eq!(world.rows(&sql), json!([{"n": 3, "c": 4}]), "{to}");
        assert!(world.attempt(&format!("select cast(s as {to}) as v from t")).is_err(), "{to}");
    }
    for (expression, expected) in json_cases(CASES, "no_time_lies_beyond_the_years_1_to_9999") {
        assert_eq!(value(expression), expected, "{expression}");
    }
}
