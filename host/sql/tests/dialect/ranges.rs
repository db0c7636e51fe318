//! RANGEs of DATE, DATETIME and TIMESTAMP. The answers were compared with the reference evaluator of GoogleSQL.

use serde_json::json;

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/ranges.txt");

fn check(section: &str) {
    let world = World::new();
    let mut wrong = Vec::new();
    for (sql, expected) in json_cases(CASES, section) {
        match world.attempt(sql) {
            Ok(rows) if rows == expected => {}
            other => wrong.push(format!("{sql}\n    gives {other:?}\n    and not {expected}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn literals_and_types_are_read() {
    check("literals_and_types");
}

#[test]
fn ranges_are_keys_and_are_compared_by_their_bounds() {
    check("keys_and_aggregates");
}

#[test]
fn functions_of_ranges_answer_as_the_reference() {
    check("functions");
}

#[test]
fn what_is_no_range_is_refused() {
    let world = World::new();
    let mut wrong = Vec::new();
    for (sql, needle) in text_cases(CASES, "refused") {
        match world.attempt(sql) {
            Err(failure) if failure.to_string().contains(needle) && failure.code.status() / 100 == 4 => {}
            other => wrong.push(format!("{sql}\n    gives {other:?}\n    and not {needle}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A range that is constant, one that is computed for each row, and the comparisons that both stand for.
#[test]
fn ranges_of_stored_times_have_the_rows_of_their_bounds() {
    let rows: Vec<_> = (0..100).map(|n| json!({"id": n.to_string(), "timestamp": n * 1_000_000, "n": n})).collect();
    let world = World::new().source("s", &rows);
    let of = |condition: &str| world.rows(&format!("SELECT COUNT(*) AS n FROM s WHERE {condition}"));
    let range = "RANGE(TIMESTAMP_SECONDS(10), TIMESTAMP_SECONDS(30))";
    for condition in [
        "timestamp >= TIMESTAMP_SECONDS(10) AND timestamp < TIMESTAMP_SECONDS(30)",
        &format!("RANGE_CONTAINS({range}, timestamp)"),
        &format!("RANGE_CONTAINS(IF(n < 50, {range}, NULL), timestamp)"),
        &format!("RANGE_OVERLAPS({range}, RANGE(timestamp, TIMESTAMP_ADD(timestamp, INTERVAL 1 MICROSECOND)))"),
        &format!("RANGE_START(SAFE.RANGE_INTERSECT({range}, RANGE(timestamp, NULL))) >= timestamp AND n >= 10"),
    ] {
        assert_eq!(of(condition), json!([{"n": 20}]), "{condition}");
    }
    let groups =
        "SELECT RANGE(TIMESTAMP_SECONDS(DIV(n, 50)), NULL) AS r, COUNT(*) AS n FROM s GROUP BY r ORDER BY r DESC";
    let expected = json!([
        {"r": "[1970-01-01 00:00:01+00, NULL)", "n": 50},
        {"r": "[1970-01-01 00:00:00+00, NULL)", "n": 50},
    ]);
    assert_eq!(world.rows(groups), expected);
}

#[test]
fn texts_of_numbers_are_joined_in_the_order_of_the_numbers() {
    let sql = "SELECT STRING_AGG(n ORDER BY n) AS v FROM UNNEST([10, 9]) AS n";
    assert_eq!(World::new().rows(sql), json!([{"v": "9,10"}]));
}
