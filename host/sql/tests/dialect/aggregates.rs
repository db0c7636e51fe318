//! Aggregates, and grouping and joining by what looks the same.

use serde_json::json;

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/aggregates.txt");

#[test]
fn aggregates() {
    let world = World::new().source(
        "t",
        &[json!({"k": "a", "n": 1}), json!({"k": "a", "n": 3}), json!({"k": "b", "n": 5}), json!({"k": "b"})],
    );
    let rows = world.rows(
        "select k, count(*) as c, count(n) as cn, countif(n > 1) as ci, sum(n) as s, avg(n) as a, min(n) as lo, max(n) as hi,
                logical_or(n = 5) as lo5, count(distinct k) as d, array_agg(n ignore nulls order by n desc limit 1) as top,
                approx_quantiles(n, 2)[offset(1)] as median, string_agg(cast(n as string), '-' order by n) as joined,
         from t group by k order by k",
    );
    assert_eq!(
        rows,
        json!([
            {"k": "a", "c": 2, "cn": 2, "ci": 1, "s": 4, "a": 2.0, "lo": 1, "hi": 3, "lo5": false, "d": 1, "top": [3], "median": 1, "joined": "1-3"},
            {"k": "b", "c": 2, "cn": 1, "ci": 1, "s": 5, "a": 5.0, "lo": 5, "hi": 5, "lo5": true, "d": 1, "top": [5], "median": 5, "joined": "5"},
        ])
    );
    assert_eq!(world.rows("select count(*) as c, sum(n) as s from t where k = 'none'"), json!([{"c": 0, "s": null}]));
    assert_eq!(world.rows("select k from t group by k having count(*) > 5"), json!([]));
    assert_eq!(world.rows("select count(*) filter (where n > 1) as c from t"), json!([{"c": 2}]));
}

#[test]
fn the_largest_sums_are_exact_in_whatever_order_their_weights_come() {
    let event = |value: &str, weight: i64| json!({"v": value, "n": weight});
    let rows = [event("a", i64::MAX - 3), event("a", 2), event("a", 1), event("b", i64::MAX - 1), event("c", 7)];
    let expected = json!([{"top": [{"value": "a", "sum": i64::MAX}, {"value": "b", "sum": i64::MAX - 1}]}]);
    for turn in 0..rows.len() {
        let mut turned = rows.clone();
        turned.rotate_left(turn);
        let world = World::new().source("t", &turned);
        assert_eq!(world.rows("select approx_top_sum(v, n, 2) as top from t"), expected);
    }
    let world = World::new().source("t", &[event("a", i64::MAX), event("a", 1)]);
    let failure = world.failure("select approx_top_sum(v, n, 1) as top from t");
    assert!(failure.to_string().contains("overflows INT64"), "{failure}");
}

/// The words stand behind the argument, and the parser gives them to an argument that is a call.
#[test]
fn ignore_nulls_behind_a_call_is_the_aggregates() {
    let world = World::new();
    for (expression, expected) in json_cases(CASES, "ignore_nulls_behind_a_call_is_the_aggregates") {
        let rows = world.rows(&format!("SELECT {expression} AS v FROM UNNEST([1, 2, 3]) AS x"));
        assert_eq!(rows, json!([{"v": expected}]), "{expression}");
    }
    let rows = world.rows(
        "SELECT x, LAST_VALUE(NULLIF(x, 3) IGNORE NULLS) OVER (ORDER BY x) AS v FROM UNNEST([1, 2, 3]) AS x ORDER BY x",
    );
    assert_eq!(rows, json!([{"x": 1, "v": 1}, {"x": 2, "v": 2}, {"x": 3, "v": 2}]));
}

#[test]
fn array_agg_with_a_limit_holds_the_first_in_the_order() {
    let world = World::new();
    let from = "FROM UNNEST([STRUCT(1 AS k, 'a' AS t), STRUCT(3, 'c'), STRUCT(2, NULL), STRUCT(3, 'd'), STRUCT(NULL, 'e')]) AS x";
    for (expression, expected) in json_cases(CASES, "array_agg_with_a_limit_holds_the_first_in_the_order") {
        assert_eq!(world.rows(&format!("SELECT {expression} AS v {from}")), json!([{"v": expected}]), "{expression}");
    }
    // In groups, of which the parts of the input each hold some.
    let rows = world.rows(
        "SELECT MOD(x, 3) AS g, ARRAY_AGG(x ORDER BY x DESC LIMIT 2) AS v FROM UNNEST(GENERATE_ARRAY(1, 30000)) AS x GROUP BY g ORDER BY g",
    );
    assert_eq!(
        rows,
        json!([{"g": 0, "v": [30000, 29997]}, {"g": 1, "v": [29998, 29995]}, {"g": 2, "v": [29999, 29996]}])
    );
    for (sql, words) in [
        ("SELECT ARRAY_AGG(x LIMIT -1) AS v FROM UNNEST([1]) AS x", "0 or more"),
        (
            "SELECT ARRAY_AGG(DISTINCT x ORDER BY o) AS v FROM UNNEST([1, 2]) AS x WITH OFFSET AS o",
            "ordered by its arguments",
        ),
        ("SELECT STRING_AGG(DISTINCT x ORDER BY LENGTH(x)) AS v FROM UNNEST(['a']) AS x", "ordered by its arguments"),
    ] {
        let failure = world.failure(sql);
        assert!(failure.message.contains(words) && failure.code.status() < 500, "{sql}: {failure}");
    }
}

/// Texts, which are counted by a function of ours, beside numbers, which are counted by the engine.
#[test]
fn distinct_values_are_counted() {
    let world = World::new();
    let uuid = |number: i64| format!("{number:08x}-0000-4000-8000-000000000000");
    let from = format!(
        "FROM UNNEST([STRUCT(1 AS k, '{}' AS t, 1 AS n), STRUCT(1, '{}', 2), STRUCT(1, 'a short text', 2), STRUCT(2, NULL, NULL),
        STRUCT(3, REPEAT('long', 9), 7), STRUCT(3, CONCAT('long', REPEAT('long', 8)), 7), STRUCT(3, '', 8), STRUCT(3, 'é', 8)]) AS x",
        uuid(1),
        uuid(1)
    );
    for (expression, expected) in json_cases(CASES, "distinct_values_are_counted") {
        assert_eq!(world.rows(&format!("SELECT {expression} AS v {from}")), json!([{"v": expected}]), "{expression}");
    }
    assert_eq!(world.rows(&format!("SELECT COUNT(DISTINCT t) AS v {from} WHERE k > 9")), json!([{"v": 0}]));
    let counts =
        |counts: [i64; 3]| json!([{"k": 1, "v": counts[0]}, {"k": 2, "v": counts[1]}, {"k": 3, "v": counts[2]}]);
    let grouped = format!("SELECT k, COUNT(DISTINCT t) AS v {from} GROUP BY k ORDER BY k");
    assert_eq!(world.rows(&grouped), counts([2, 0, 3]));
    let windowed = format!("SELECT DISTINCT k, COUNT(DISTINCT t) OVER (PARTITION BY k) AS v {from} ORDER BY k");
    assert_eq!(world.rows(&windowed), counts([2, 0, 3]));
    let correlated = "SELECT k, (SELECT COUNT(DISTINCT o) FROM (SELECT 1 AS i, 'x' AS o UNION ALL SELECT 1, 'y' UNION ALL SELECT 3, 'x') AS b
        WHERE b.i = a.k) AS v FROM UNNEST([1, 2, 3]) AS k_of JOIN (SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 3) AS a ON a.k = k_of ORDER BY k";
    assert_eq!(world.rows(correlated), counts([2, 0, 1]));
    // Many groups and texts, of which the parts of the input each hold some.
    let many =
        "SELECT MOD(x, 3) + 1 AS k, COUNT(DISTINCT CONCAT('a text of some length ', CAST(MOD(x, 3000) AS STRING))) AS v
        FROM UNNEST(GENERATE_ARRAY(1, 30000)) AS x GROUP BY k ORDER BY k";
    assert_eq!(world.rows(many), counts([1_000, 1_000, 1_000]));
}

#[test]
fn a_sum_that_int64_does_not_hold_is_an_error() {
    let max = i64::MAX;
    let rows = [json!({"k": "a", "n": max}), json!({"k": "a", "n": 1}), json!({"k": "b", "n": 5}), json!({"k": "c"})];
    let world = World::new().source("t", &rows);
    for sql in [
        "select sum(n) from t".to_owned(),
        "select k, sum(n) from t group by k".to_owned(),
        "select sum(n) over () from t".to_owned(),
        "select sum(n) over (order by n) from t".to_owned(),
        "select sum(distinct n) from t".to_owned(),
        "select approx_top_sum('all', n, 1) from t".to_owned(),
        "select sum(distinct n), count(distinct k) from t".to_owned(),
        format!("select sum(x) from unnest([{max}, 1]) as x"),
    ] {
        let failure = world.failure(&sql);
        assert!(failure.message.contains("the sum overflows INT64"), "{sql}: {failure}");
    }
    let rows =
        world.rows("select k, sum(n) as s, sum(distinct n) as d from t where n > 1 or n is null group by k order by k");
    assert_eq!(
        rows,
        json!([{"k": "a", "s": max, "d": max}, {"k": "b", "s": 5, "d": 5}, {"k": "c", "s": null, "d": null}])
    );
    // Only the result has to fit.
    assert_eq!(world.rows(&format!("select sum(x) as s from unnest([{max}, 1, -5]) as x")), json!([{"s": max - 4}]));
    assert_eq!(world.rows("select avg(n) > 1e18 as v from t"), json!([{"v": true}]));
    let rows = world.rows(
        "select sum(n) over (order by k rows between 1 preceding and current row) as s from t where n < 9 order by s",
    );
    assert_eq!(rows, json!([{"s": 1}, {"s": 6}]));
    assert_eq!(world.rows("select sum(n) filter (where k = 'b') as s from t"), json!([{"s": 5}]));
}

#[test]
fn floats_are_still_what_joins_and_subqueries_are_by() {
    let world = World::new()
        .source("a", &[json!({"f": 1.5, "k": 1}), json!({"f": 2.5, "k": 2})])
        .source("b", &[json!({"f": 2.5, "v": "x"}), json!({"f": 3.5, "v": "y"})]);
    for (sql, expected) in json_cases(CASES, "floats_are_still_what_joins_and_subqueries_are_by") {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
}

#[test]
fn sketches_of_quantiles_are_near_merged_and_checked() {
    let world = World::new();
    for (example, expected) in json_cases(CASES, "sketches_of_quantiles") {
        let (value, from) = example.split_once(" FROM ").unwrap();
        assert_eq!(world.rows(&format!("SELECT {value} AS v FROM {from}")), json!([{"v": expected}]), "{example}");
    }
    for (example, needle) in text_cases(CASES, "refused_sketches_of_quantiles") {
        let failure = world.failure(&format!("SELECT {example}"));
        assert!(failure.to_string().contains(needle) && failure.code.status() / 100 == 4, "{example}: {failure}");
    }
}
