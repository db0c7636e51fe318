//! Subqueries over tables: what they are where nothing or several rows fit, where there is NULL, and in the
//! places where the engine has no plan for them.

use serde_json::{Value, json};
use tidegate_model::Code;

use super::super::support::World;
use super::tables::json_cases;

const CASES: &str = include_str!("cases/correlated.txt");

/// `p` has two rows of `a`, one without `v` and one without `k`; `q` has two rows for the first of `p`.
fn world() -> World {
    World::new()
        .source(
            "p",
            &[
                json!({"num": 1, "k": "a", "v": 10}),
                json!({"num": 2, "k": "a", "v": 20}),
                json!({"num": 3, "k": "b", "v": null}),
                json!({"num": 4, "k": null, "v": 40}),
            ],
        )
        .source(
            "q",
            &[
                json!({"num": 1, "w": "x", "at": 2}),
                json!({"num": 1, "w": "y", "at": 1}),
                json!({"num": 3, "w": "b", "at": 1}),
                json!({"num": 9, "w": "z", "at": 1}),
            ],
        )
}

/// One value for each of the rows of `p`.
fn values(expression: &str) -> Value {
    let rows = world().rows(&format!("SELECT {expression} AS value FROM p ORDER BY p.num"));
    rows.as_array().unwrap().iter().map(|row| row["value"].clone()).collect()
}

/// The rows of `p` that a condition keeps.
fn kept(condition: &str) -> Value {
    let rows = world().rows(&format!("SELECT p.num FROM p WHERE {condition} ORDER BY p.num"));
    rows.as_array().unwrap().iter().map(|row| row["num"].clone()).collect()
}

#[test]
fn a_value_without_a_row_is_null() {
    for (expression, expected) in [
        ("COALESCE((SELECT 'there' FROM q WHERE q.num = p.num + 6), 'none')", json!(["none", "none", "there", "none"])),
        ("(SELECT 'there' FROM q WHERE q.num = p.num + 6) IS NULL", json!([true, true, false, true])),
        (
            "CASE WHEN (SELECT 1 FROM q WHERE q.num = p.num + 6) IS NULL THEN 'no' ELSE 'yes' END",
            json!(["no", "no", "yes", "no"]),
        ),
        ("(SELECT w FROM q WHERE q.num = p.num + 6)", json!([null, null, "z", null])),
        ("(SELECT COUNT(*) FROM q WHERE q.num = p.num)", json!([2, 0, 1, 0])),
        ("COALESCE((SELECT MAX(w) FROM q WHERE q.num = p.num), 'none')", json!(["y", "none", "b", "none"])),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
    assert_eq!(kept("IFNULL((SELECT 'there' FROM q WHERE q.num = p.num + 6), 'none') = 'none'"), json!([1, 2, 4]));
}

#[test]
fn a_value_of_several_rows_is_refused_and_never_doubles_a_row() {
    for sql in [
        "SELECT num, (SELECT w FROM q WHERE q.num = p.num) AS w FROM p",
        "SELECT num FROM p WHERE (SELECT w FROM q WHERE q.num = p.num) = 'x'",
        "SELECT num, (SELECT w FROM q) AS w FROM p",
    ] {
        let failure = world().failure(sql);
        assert!(failure.message.contains("more than one row"), "{sql}: {failure}");
        assert!(failure.code.status() < 500, "{sql}: {failure}");
    }
}

#[test]
fn the_first_row_in_an_order_is_a_value_or_an_array() {
    for (expression, expected) in [
        ("(SELECT w FROM q WHERE q.num = p.num ORDER BY at LIMIT 1)", json!(["y", null, "b", null])),
        ("(SELECT w FROM q WHERE q.num = p.num ORDER BY at DESC LIMIT 1)", json!(["x", null, "b", null])),
        ("(SELECT w FROM q WHERE q.num = p.num AND w = 'y' LIMIT 1)", json!(["y", null, null, null])),
        ("ARRAY(SELECT w FROM q WHERE q.num = p.num ORDER BY at)", json!([["y", "x"], [], ["b"], []])),
        ("ARRAY(SELECT w FROM q WHERE q.num = p.num ORDER BY w DESC)", json!([["y", "x"], [], ["b"], []])),
        ("ARRAY(SELECT w FROM q WHERE q.num = p.num ORDER BY at LIMIT 1)", json!([["y"], [], ["b"], []])),
        (
            "ARRAY(SELECT AS STRUCT w, at FROM q WHERE q.num = p.num ORDER BY at LIMIT 1)[SAFE_OFFSET(0)].at",
            json!([1, null, 1, null]),
        ),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
}

#[test]
fn without_from_a_subquery_is_its_value() {
    for (expression, expected) in json_cases(CASES, "without_from_a_subquery_is_its_value") {
        assert_eq!(values(expression), expected, "{expression}");
    }
}

#[test]
fn not_in_knows_null() {
    for (condition, expected) in json_cases(CASES, "not_in_knows_null") {
        assert_eq!(kept(condition), expected, "{condition}");
    }
}

#[test]
fn subqueries_stand_in_aggregates_keys_and_joins() {
    let world = world();
    for (sql, expected) in json_cases(CASES, "subqueries_stand_in_aggregates_keys_and_joins") {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
}

#[test]
fn distinct_above_a_window_stops_at_a_limit() {
    let world = world();
    for sql in [
        "SELECT DISTINCT k, COUNT(*) OVER (PARTITION BY k) AS c FROM p",
        "WITH x AS (SELECT k, MAX(v) OVER (PARTITION BY k) AS c FROM p) SELECT DISTINCT k, c FROM x LIMIT 10",
        "SELECT DISTINCT x, COUNT(*) OVER (PARTITION BY x) AS c FROM UNNEST([1, 1, 2]) AS x LIMIT 1",
    ] {
        let limited = format!("SELECT * FROM ({sql}) LIMIT 2");
        assert!(!world.rows(&limited).as_array().unwrap().is_empty(), "{sql}");
    }
}

#[test]
fn any_condition_correlates() {
    let rows = world().rows("SELECT num, (SELECT MAX(w) FROM q WHERE q.num > p.num) AS w FROM p ORDER BY num");
    let expected = json!([{"num": 1, "w": "z"}, {"num": 2, "w": "z"}, {"num": 3, "w": "z"}, {"num": 4, "w": "z"}]);
    assert_eq!(rows, expected);
}

#[test]
fn what_may_fail_is_computed_only_for_what_everything_else_keeps() {
    let world = World::new().source(
        "lines",
        &[
            json!({"n": 1, "line": "took 7 ms", "kind": "time", "value": "8"}),
            json!({"n": 2, "line": "job done", "kind": "text", "value": "eight"}),
            json!({"n": 3, "line": "took 3 ms", "kind": null, "value": null}),
        ],
    );
    for (condition, expected) in [
        ("STARTS_WITH(line, 'took') AND CAST(SPLIT(line, ' ')[OFFSET(1)] AS FLOAT64) > 5", json!([1])),
        ("CAST(SPLIT(line, ' ')[OFFSET(1)] AS FLOAT64) > 1 AND line LIKE 'took%'", json!([1, 3])),
        ("kind = 'time' AND CAST(value AS INT64) = 8 AND 10 / (CAST(value AS INT64) - 7) = 10", json!([1])),
        ("n <> 2 AND CAST(SPLIT(line, ' ')[OFFSET(1)] AS INT64) < 5 AND n IN (SELECT 3)", json!([3])),
        (
            "EXISTS(SELECT 1 FROM lines AS o WHERE o.n = lines.n AND o.n > 2) AND line LIKE 'took%' AND CAST(SUBSTR(line, 6, 1) AS INT64) = 3",
            json!([3]),
        ),
    ] {
        let rows = world.rows(&format!("SELECT n FROM lines WHERE {condition} ORDER BY n"));
        let kept: Value = rows.as_array().unwrap().iter().map(|row| row["n"].clone()).collect();
        assert_eq!(kept, expected, "{condition}");
    }
    // In a join too, each table by itself.
    let rows = world.rows(
        "SELECT a.n FROM lines AS a, lines AS b WHERE a.n = b.n AND a.line LIKE 'took%' AND b.kind = 'time' AND CAST(SUBSTR(a.line, 6, 1) AS INT64) = 7 AND CAST(b.value AS INT64) = 8",
    );
    assert_eq!(rows, json!([{"n": 1}]));
    // What fails for a row that is kept is told.
    let failure = world.failure("SELECT n FROM lines WHERE n > 1 AND CAST(SPLIT(line, ' ')[OFFSET(1)] AS INT64) > 1");
    assert!(failure.message.contains("'done'"), "{failure}");
}

/// The value over no rows is a row all the same.
#[test]
fn an_aggregate_without_keys_is_one_row() {
    for (expression, expected) in [
        ("(SELECT COUNT(*) FROM q WHERE q.num = p.num LIMIT 1)", json!([2, 0, 1, 0])),
        ("(SELECT COUNT(*) AS c FROM q WHERE q.num = p.num ORDER BY c LIMIT 1)", json!([2, 0, 1, 0])),
        (
            "(SELECT IF(COUNT(*) = 0, 'none', 'some') FROM q WHERE q.num = p.num LIMIT 1)",
            json!(["some", "none", "some", "none"]),
        ),
        ("ARRAY(SELECT COUNT(*) FROM q WHERE q.num = p.num)", json!([[2], [0], [1], [0]])),
        ("EXISTS(SELECT COUNT(*) FROM q WHERE q.num = p.num)", json!([true, true, true, true])),
        ("0 IN (SELECT COUNT(*) FROM q WHERE q.num = p.num)", json!([false, true, false, true])),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
    assert_eq!(kept("0 IN (SELECT COUNT(*) FROM q WHERE q.num = p.num)"), json!([2, 4]));
    assert_eq!(kept("EXISTS(SELECT 1 FROM q WHERE q.num = p.num LIMIT 1 OFFSET 1)"), json!([1]));
    assert_eq!(kept("EXISTS(SELECT 1 FROM q WHERE q.num = p.num LIMIT 1)"), json!([1, 3]));
    assert_eq!(kept("NOT EXISTS(SELECT 1 FROM q WHERE q.num = p.num LIMIT 0)"), json!([1, 2, 3, 4]));
}

#[test]
fn limits_of_any_size_are_taken() {
    for (expression, expected) in [
        ("ARRAY(SELECT w FROM q WHERE q.num = p.num ORDER BY w OFFSET 1)", json!([["y"], [], [], []])),
        ("(SELECT w FROM q WHERE q.num = p.num ORDER BY w LIMIT 1 OFFSET 1)", json!(["y", null, null, null])),
        (
            "(SELECT w FROM q WHERE q.num = p.num AND w <> 'x' ORDER BY w LIMIT 100000000000)",
            json!(["y", null, "b", null]),
        ),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
}

#[test]
fn conditions_that_may_fail_leave_joins_as_they_are() {
    for (expression, expected) in [
        ("(SELECT MAX(w) FROM q WHERE q.num = p.num AND q.at + 1 > 2)", json!(["x", null, null, null])),
        ("(SELECT MAX(w) FROM q WHERE q.num = p.num + 0 AND q.at > 1)", json!(["x", null, null, null])),
        ("(SELECT COUNT(*) FROM q WHERE q.num = DIV(p.v, 10) AND q.at < 2)", json!([1, 0, 0, 0])),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
    let plan = world().physical(
        "WITH a AS (SELECT * FROM p), b AS (SELECT * FROM q) SELECT 1",
        "SELECT a.num FROM a, b WHERE a.num + 0 = b.num AND a.k LIKE 'a%' AND a.v > 1",
    );
    assert!(plan.contains("HashJoin"), "{plan}");
}

/// The engine alone would make wrong joins of these, or none.
#[test]
fn windows_and_columns_further_out_are_those_of_the_row() {
    for (expression, expected) in [
        (
            "(SELECT w FROM q WHERE q.num = p.num QUALIFY ROW_NUMBER() OVER (ORDER BY w DESC) = 1)",
            json!(["y", null, "b", null]),
        ),
        (
            "ARRAY(SELECT ROW_NUMBER() OVER (ORDER BY w) AS r FROM q WHERE q.num = p.num ORDER BY r)",
            json!([[1, 2], [], [1], []]),
        ),
        ("(SELECT (SELECT MAX(r.w) FROM q AS r WHERE r.num = p.num))", json!(["y", null, "b", null])),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
    for (condition, expected) in [
        ("EXISTS(SELECT w FROM q WHERE q.num = p.num QUALIFY ROW_NUMBER() OVER (ORDER BY w) = 2)", json!([1])),
        ("EXISTS(SELECT 1 FROM q WHERE EXISTS(SELECT 1 FROM q AS r WHERE r.num = p.num AND r.w = q.w))", json!([1, 3])),
    ] {
        assert_eq!(kept(condition), expected, "{condition}");
    }
}

/// The rows of the enclosing query are computed once, whether they would be the same again or not.
#[test]
fn rows_that_would_be_others_are_answered_as_they_are() {
    let world = world();
    let counts = "(SELECT COUNT(*) FROM q WHERE q.num > r.x)";
    for (rows, expected) in [
        ("(SELECT num AS x FROM p LIMIT 3)", 3),
        ("(SELECT k, ANY_VALUE(num) AS x FROM p GROUP BY k)", 3),
        ("(SELECT k, ARRAY_AGG(num LIMIT 1)[OFFSET(0)] AS x FROM p GROUP BY k)", 3),
        ("(SELECT ROW_NUMBER() OVER () AS x FROM p)", 4),
        ("(SELECT num + RAND() AS x FROM p)", 4),
        ("(SELECT x FROM p, UNNEST([num + RAND(), num]) AS x)", 8),
    ] {
        let sql = format!("SELECT r.x AS x, {counts} AS c, {counts} + 0 AS d FROM {rows} AS r");
        let rows = world.rows(&sql);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), expected, "{sql}");
        for row in rows {
            let x = row["x"].as_f64().unwrap();
            let count = [1.0, 1.0, 3.0, 9.0].iter().filter(|num| **num > x).count();
            assert_eq!((&row["c"], &row["d"]), (&json!(count), &json!(count)), "{sql}");
        }
        let kept = format!("SELECT r.x AS x FROM {} AS r WHERE {counts} = 2", "(SELECT num AS x FROM p LIMIT 4)");
        assert_eq!(world.rows(&kept), json!([{"x": 1}, {"x": 2}]), "{kept}");
    }
    // What one subquery gives, another one reads.
    let sql = "SELECT r.num, (SELECT COUNT(*) FROM q WHERE q.num > r.c) AS d
               FROM (SELECT num, (SELECT COUNT(*) FROM q WHERE q.num > p.num) AS c FROM p) AS r ORDER BY num";
    assert_eq!(
        world.rows(sql),
        json!([{"num": 1, "d": 2}, {"num": 2, "d": 2}, {"num": 3, "d": 2}, {"num": 4, "d": 2}])
    );
}

#[test]
fn a_chain_of_correlated_values_is_planned_in_time() {
    let began = std::time::Instant::now();
    let levels: String =
        (0..12).map(|i| format!(" |> EXTEND (SELECT COUNT(*) FROM q WHERE q.num > x{i}) AS x{}", i + 1)).collect();
    let sql = format!("FROM p |> SELECT num, num AS x0{levels} |> SELECT num, x12 |> ORDER BY num");
    let rows = world().rows(&sql);
    // The count goes from 1 to 2, to 2 and so on.
    let expected: Vec<Value> = (1..=4).map(|num| json!({"num": num, "x12": 2})).collect();
    assert_eq!(rows, Value::Array(expected));
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn too_many_rows_of_an_enclosing_query_are_too_much_memory() {
    let many = "(SELECT x + 0 * CAST(RAND() AS INT64) AS x FROM UNNEST(GENERATE_ARRAY(1, 2000000)) AS x)";
    let sql = format!("SELECT MAX((SELECT COUNT(*) FROM q WHERE q.num > r.x)) AS c FROM {many} AS r");
    assert_eq!(world().holding(8 << 20).failure(&sql).code, Code::LimitExceeded);
}

#[test]
fn a_repeated_query_takes_no_other_correlation_than_by_equality() {
    let recursive = |condition: &str| {
        format!(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL
               SELECT r.n + 1 FROM r WHERE r.n < 3 AND (SELECT COUNT(*) FROM q WHERE {condition}) > 0)
             SELECT n, (SELECT COUNT(*) FROM q WHERE q.num > r.n) AS c FROM r ORDER BY n"
        )
    };
    let failure = world().failure(&recursive("q.num > r.n"));
    assert!(failure.code == Code::Unsupported && failure.message.contains("recursive table"), "{failure}");
    assert_eq!(world().rows(&recursive("q.num = r.n")), json!([{"n": 1, "c": 2}, {"n": 2, "c": 2}]));
}

#[test]
fn what_is_refused_says_what_to_write_instead() {
    let total = "SELECT num, (SELECT MAX(c) FROM (SELECT w, COUNT(*) AS c FROM q WHERE q.num > p.num GROUP BY ROLLUP(w))) AS c FROM p";
    let failure = world().failure(total);
    assert!(failure.code == Code::Unsupported && failure.message.contains("write UNION ALL"), "{failure}");
    assert_eq!(kept("p.num IN (SELECT q.num FROM q WHERE q.num < p.num + 1) OR p.k = 'b'"), json!([1, 3]));
    assert_eq!(kept("9 IN (SELECT q.num FROM q WHERE q.num > p.num + 5) OR p.num = 4"), json!([1, 2, 3, 4]));
}

/// Only the arm that is taken fails.
#[test]
fn a_subquery_in_an_arm_fails_where_it_is_taken() {
    for (expression, expected) in [
        ("IF(FALSE, (SELECT CAST('x' AS INT64)), 1)", json!([1, 1, 1, 1])),
        ("IF(FALSE, (SELECT ERROR('x')), 'y')", json!(["y", "y", "y", "y"])),
        ("CASE WHEN p.num > 9 THEN (SELECT CAST(w AS INT64) FROM q LIMIT 1) ELSE p.num END", json!([1, 2, 3, 4])),
        ("CASE WHEN p.num > 0 THEN 1 WHEN (SELECT ERROR('x')) = 'y' THEN 2 END", json!([1, 1, 1, 1])),
        ("IF(p.num > 9, (SELECT num FROM q), 0)", json!([0, 0, 0, 0])),
        ("IF(p.num > 9, (SELECT 1 / MAX(q.num - 9) FROM q), 0.5)", json!([0.5, 0.5, 0.5, 0.5])),
        ("COALESCE(p.num, (SELECT num FROM q))", json!([1, 2, 3, 4])),
        ("IFNULL(p.num, (SELECT CAST('x' AS INT64) FROM q LIMIT 1))", json!([1, 2, 3, 4])),
        ("IF(p.num > 9, ARRAY(SELECT CAST('x' AS INT64) FROM q), [1])", json!([[1], [1], [1], [1]])),
        (
            "IF(p.num > 9, EXISTS(SELECT 1 FROM q WHERE CAST('x' AS INT64) = q.num), FALSE)",
            json!([false, false, false, false]),
        ),
        ("IF(p.num > 2, (SELECT MAX(num) FROM q), (SELECT num FROM q WHERE num = 10))", json!([null, null, 9, 9])),
    ] {
        assert_eq!(values(expression), expected, "{expression}");
    }
    for (expression, message) in [
        ("IF(p.num > 3, (SELECT ERROR('told') FROM q LIMIT 1), 'x')", "told"),
        ("IF(p.num > 3, (SELECT num FROM q), 0)", "more than one row"),
        ("COALESCE(p.k, (SELECT w FROM q))", "more than one row"),
    ] {
        let failure = world().failure(&format!("SELECT {expression} AS value FROM p"));
        assert!(failure.code == Code::InvalidValue && failure.message.contains(message), "{expression}: {failure}");
    }
}

#[test]
fn deep_copies_of_subqueries_are_bounded() {
    let nested = (0..6).fold("SELECT num FROM p".to_owned(), |inner, _| {
        format!("SELECT num FROM p WHERE (num IN ({inner})) IS NOT FALSE")
    });
    assert_eq!(world().failure(&nested).code, Code::LimitExceeded);
}

#[test]
fn a_subquery_reads_the_keys_of_its_group() {
    let world = world();
    for (sql, expected) in [
        (
            "SELECT num, COUNT(*) AS n FROM p GROUP BY num HAVING (SELECT COUNT(*) FROM q WHERE q.num = p.num) > 0 ORDER BY num",
            json!([{"num": 1, "n": 1}, {"num": 3, "n": 1}]),
        ),
        (
            "SELECT num, (SELECT MAX(w) FROM q WHERE q.num = p.num) AS w FROM p GROUP BY num ORDER BY num",
            json!([{"num": 1, "w": "y"}, {"num": 2, "w": null}, {"num": 3, "w": "b"}, {"num": 4, "w": null}]),
        ),
        (
            "SELECT num FROM p GROUP BY num HAVING EXISTS(SELECT 1 FROM q WHERE q.num = p.num) ORDER BY num",
            json!([{"num": 1}, {"num": 3}]),
        ),
    ] {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
    let failure = world.failure("SELECT num FROM p GROUP BY num HAVING EXISTS(SELECT 1 FROM q WHERE q.w = p.k)");
    assert!(failure.message.contains("neither grouped nor aggregated"), "{failure}");
}

#[test]
fn comparing_floats_does_not_double_what_is_compared() {
    let chain = (0..9).fold("x".to_owned(), |inner, _| format!("IF({inner} > y, x, y)"));
    let world = World::new().source("f", &[json!({"x": 1.5, "y": 2.5})]);
    let began = std::time::Instant::now();
    assert_eq!(world.rows(&format!("SELECT {chain} AS v FROM f WHERE {chain} != 7.5")), json!([{"v": 2.5}]));
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    let deep = (0..13).fold("x".to_owned(), |inner, _| format!("IF({inner} > y, x, y)"));
    let failure = world.failure(&format!("SELECT {deep} AS v FROM f"));
    assert!(failure.message.contains("deeper than 12 levels"), "{failure}");
    let arms = (0..40).fold("0".to_owned(), |inner, n| format!("IF(x = {n}, {n}, {inner})"));
    assert_eq!(world.rows(&format!("SELECT {arms} AS v FROM f")), json!([{"v": 0}]));
    let nan = "CAST('NaN' AS FLOAT64)";
    for (condition, expected) in [
        (format!("({nan} > IF(n = 1, NULL, 1.0)) IS NULL"), true),
        ("(a > b) IS NULL AND (a >= b) IS NULL AND (b < a) IS NULL AND (a = b) IS NULL".to_owned(), true),
        (format!("NOT ({nan} > 1.0)"), true),
    ] {
        let sql = format!("SELECT {condition} AS v FROM (SELECT 1 AS n, {nan} AS a, CAST(NULL AS FLOAT64) AS b)");
        assert_eq!(world.rows(&sql), json!([{"v": expected}]), "{sql}");
    }
}
