//! NUMERIC and BIGNUMERIC: statements whose answers are those of the reference evaluator of GoogleSQL.

use serde_json::json;

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/numeric.txt");

fn check(section: &str) {
    let world = World::new();
    let cases = json_cases(CASES, section).into_iter().map(|(sql, expected)| (sql, world.attempt(sql), expected));
    let wrong: Vec<String> = cases
        .filter(|(_, given, expected)| given.as_ref().ok() != Some(expected))
        .map(|(sql, given, expected)| format!("{sql}\n    gives {given:?}\n    and not {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn literals_and_types_are_those_of_the_reference() {
    check("literals_and_types");
}

#[test]
fn arithmetic_rounds_a_half_away_from_zero() {
    check("arithmetic");
}

#[test]
fn texts_and_json_have_all_digits() {
    check("texts_and_json");
}

#[test]
fn aggregates_are_exact() {
    check("aggregates");
}

#[test]
fn windows_take_decimals() {
    check("windows");
}

#[test]
fn what_the_types_do_not_have_is_an_error() {
    let world = World::new();
    for (sql, needle) in text_cases(CASES, "refused") {
        let failure = world.failure(sql);
        assert!(failure.to_string().contains(needle), "{sql}\n{failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
}

#[test]
fn decimals_are_computed_beside_logs() {
    let rows: Vec<_> =
        (0..40).map(|i| json!({"n": i, "k": if i % 3 == 0 { "a" } else { "b" }, "s": format!("{i}.1")})).collect();
    let world = World::new().source("t", &rows);
    let sums = "SELECT k, SUM(CAST(s AS NUMERIC)) AS s, AVG(NUMERIC '0.1' * n) AS a, MAX(CAST(n AS BIGNUMERIC) / 8) AS m \
                FROM t GROUP BY k ORDER BY k";
    assert_eq!(
        world.rows(sums),
        json!([{"k": "a", "s": 274.4, "a": 1.95, "m": 4.875}, {"k": "b", "s": 509.6, "a": 1.95, "m": 4.75}])
    );
    let joined =
        "SELECT COUNT(*) AS c FROM t JOIN (SELECT NUMERIC '7' AS x) AS d ON t.n = d.x WHERE CAST(t.s AS NUMERIC) = 7.1";
    assert_eq!(world.rows(joined), json!([{"c": 1}]));
    let keys = "SELECT CAST(n / 8 AS NUMERIC(3)) AS x, COUNT(*) AS c FROM t GROUP BY x HAVING c > 7 ORDER BY x LIMIT 1";
    assert_eq!(world.rows(keys), json!([{"x": 1, "c": 8}]));
}
