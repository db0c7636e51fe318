//! FLOAT64 in comparisons, joins and orders: NaN compares with nothing, whatever its bits are, and zeros are one number.

use serde_json::{Value, json};

use super::super::support::World;
use super::tables::json_cases;

const CASES: &str = include_str!("cases/comparisons.txt");

/// The second NaN has a sign on most processors.
const VALUES: [(&str, Option<f64>); 8] = [
    ("CAST('nan' AS FLOAT64)", Some(f64::NAN)),
    ("IEEE_DIVIDE(0, 0)", Some(f64::NAN)),
    ("CAST('-inf' AS FLOAT64)", Some(f64::NEG_INFINITY)),
    ("-0.0", Some(-0.0)),
    ("0.0", Some(0.0)),
    ("1.5", Some(1.5)),
    ("CAST('inf' AS FLOAT64)", Some(f64::INFINITY)),
    ("CAST(NULL AS FLOAT64)", None),
];

type Holds = fn(f64, f64) -> bool;

const OPERATORS: [(&str, Holds); 6] = [
    ("=", |x, y| x == y),
    ("!=", |x, y| x != y),
    ("<", |x, y| x < y),
    ("<=", |x, y| x <= y),
    (">", |x, y| x > y),
    (">=", |x, y| x >= y),
];

/// Columns and computed values, as x and y of the comparisons.
const FORMS: [(&str, &str); 4] = [("x", "y"), ("x * 1", "y * 1"), ("x", "1 * y"), ("IF(x IS NULL, NULL, x)", "y")];

fn values() -> String {
    VALUES.map(|(sql, _)| sql).join(", ")
}

fn column(sql: &str) -> Vec<Value> {
    World::new().rows(sql).as_array().unwrap().iter().map(|row| row["v"].clone()).collect()
}

/// An expression for each pair of x and y.
fn of_pairs(expression: &str) -> Vec<Value> {
    let values = values();
    column(&format!(
        "SELECT {expression} AS v FROM UNNEST([{values}]) AS x WITH OFFSET AS i \
         CROSS JOIN UNNEST([{values}]) AS y WITH OFFSET AS j ORDER BY i, j"
    ))
}

/// What of each pair is expected; NULL beside a NULL.
fn expected(holds: impl Fn(f64, f64) -> bool) -> Vec<Value> {
    let pairs = VALUES.iter().flat_map(|(_, x)| VALUES.iter().map(|(_, y)| x.zip(*y)));
    pairs.map(|pair| pair.map_or(Value::Null, |(x, y)| json!(holds(x, y)))).collect()
}

#[test]
fn columns_and_computed_values_compare_alike() {
    for (op, holds) in OPERATORS {
        for (x, y) in FORMS {
            assert_eq!(of_pairs(&format!("{x} {op} {y}")), expected(holds), "{x} {op} {y}");
        }
    }
    for (x, y) in FORMS {
        let equal = expected(|x, y| x == y);
        assert_eq!(of_pairs(&format!("NOT {x} != {y}")), equal);
        assert_eq!(of_pairs(&format!("{x} IN ({y})")), equal);
        assert_eq!(of_pairs(&format!("{x} BETWEEN {y} AND {y}")), equal);
        assert_eq!(of_pairs(&format!("STRUCT({x} AS a) = STRUCT({y} AS a)")), equal);
        let found = expected(|x, y| x == y).into_iter().map(|equal| json!(equal == json!(true))).collect::<Vec<_>>();
        assert_eq!(of_pairs(&format!("CASE {x} WHEN {y} THEN TRUE ELSE FALSE END")), found);
        assert_eq!(of_pairs(&format!("x IS NOT NULL AND NULLIF({x}, {y}) IS NULL")), found);
    }
}

#[test]
fn nan_is_one_value_for_is_distinct_from() {
    let mut same = Vec::new();
    for (_, x) in VALUES {
        for (_, y) in VALUES {
            let nan = |value: Option<f64>| value.is_some_and(f64::is_nan);
            same.push(json!(x == y || nan(x) && nan(y)));
        }
    }
    for (x, y) in FORMS {
        assert_eq!(of_pairs(&format!("{x} IS NOT DISTINCT FROM {y}")), same, "{x}, {y}");
        assert_eq!(of_pairs(&format!("NOT ({x} IS DISTINCT FROM {y})")), same, "{x}, {y}");
    }
}

#[test]
fn constants_compare_as_columns() {
    for (at, (sql, y)) in VALUES.iter().enumerate() {
        for (op, holds) in OPERATORS {
            for x in ["x", "x * 1"] {
                let sql =
                    format!("SELECT {x} {op} {sql} AS v FROM UNNEST([{}]) AS x WITH OFFSET AS i ORDER BY i", values());
                let one = |x: Option<f64>| x.zip(*y).map_or(Value::Null, |(x, y)| json!(holds(x, y)));
                assert_eq!(column(&sql), VALUES.map(|(_, x)| one(x)), "{at}: {sql}");
            }
        }
    }
}

#[test]
fn joins_and_subqueries_join_numbers_only() {
    let values = values();
    let with = format!(
        "WITH a AS (SELECT x, i FROM UNNEST([{values}]) AS x WITH OFFSET AS i), \
         b AS (SELECT y, j FROM UNNEST([{values}]) AS y WITH OFFSET AS j)"
    );
    // The infinities and 1.5 with themselves, each zero with both.
    for (x, y) in FORMS {
        for sql in [
            format!("SELECT COUNT(*) AS v FROM a JOIN b ON {x} = {y}"),
            format!("SELECT COUNT(*) AS v FROM a, b WHERE {x} = {y}"),
            format!("SELECT COUNT(y) AS v FROM a LEFT JOIN b ON {x} = {y}"),
            format!("SELECT COUNT(*) + 2 AS v FROM a WHERE {x} IN (SELECT {y} FROM b)"),
            format!("SELECT COUNT(*) + 2 AS v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {x} = {y})"),
            format!("SELECT COUNTIF({x} IN (SELECT {y} FROM b)) + 2 AS v FROM a"),
        ] {
            assert_eq!(column(&format!("{with} {sql}")), [json!(7)], "{sql}");
        }
        for (sql, expected) in [
            // Both NaN.
            (format!("SELECT COUNT(*) AS v FROM a WHERE {x} NOT IN (SELECT {y} FROM b WHERE y IS NOT NULL)"), 2),
            (format!("SELECT COUNT(*) AS v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {x} = {y})"), 3),
            // -inf < 4 values, zeros < 2 each, 1.5 < 1.
            (format!("SELECT COUNT(*) AS v FROM a JOIN b ON {x} < {y}"), 9),
        ] {
            assert_eq!(column(&format!("{with} {sql}")), [json!(expected)], "{sql}");
        }
    }
    let counts = column(&format!("{with} SELECT (SELECT COUNT(*) FROM b WHERE y = x) AS v FROM a ORDER BY i"));
    assert_eq!(counts, [0, 0, 1, 2, 2, 1, 1, 0].map(|count| json!(count)));
    let using = format!("{with} SELECT COUNT(*) AS v FROM a JOIN (SELECT y AS x FROM b) USING (x)");
    assert_eq!(column(&using), [json!(7)]);
}

#[test]
fn orders_begin_with_nan_and_have_one_zero() {
    let from = "FROM UNNEST([1.5, -0.0, CAST('nan' AS FLOAT64), NULL, 0.0, IEEE_DIVIDE(0, 0), \
                CAST('-inf' AS FLOAT64)]) AS x WITH OFFSET AS i";
    let up = json!([3, 5, 2, 6, 4, 1, 0]);
    let down = json!([0, 4, 1, 6, 5, 2, 3]);
    for (order, expected) in [("x, i DESC", &up), ("x DESC, i DESC", &down), ("1 * x, i DESC", &up)] {
        for sql in [
            format!("SELECT i AS v {from} ORDER BY {order}"),
            format!("SELECT i AS v, x {from} ORDER BY {order} LIMIT 7"),
            format!(
                "SELECT i AS v, x FROM (SELECT i, x {from}) UNION ALL SELECT 9, 99 FROM UNNEST([1]) WHERE FALSE \
                     ORDER BY {}",
                order.replace("1 * ", "").replace('i', "v")
            ),
        ] {
            assert_eq!(json!(column(&sql)), *expected, "{sql}");
        }
        let list = column(&format!("SELECT ARRAY_AGG(i ORDER BY {order}) AS v {from}"));
        assert_eq!(json!(list), json!([expected]), "{order}");
        let list = column(&format!("SELECT ARRAY(SELECT i {from} ORDER BY {order}) AS v FROM UNNEST([1]) AS one"));
        assert_eq!(json!(list), json!([expected]), "{order}");
        let places = format!("SELECT i AS v, ROW_NUMBER() OVER (ORDER BY {order}) AS n {from} ORDER BY n");
        assert_eq!(json!(column(&places)), *expected, "{order}");
    }
    let distinct = format!("SELECT DISTINCT x AS v {from} ORDER BY x");
    assert_eq!(json!(column(&distinct)), json!([null, "NaN", "-Infinity", 0.0, 1.5]));
    assert_eq!(json!(column(&format!("{distinct} LIMIT 3"))), json!([null, "NaN", "-Infinity"]));
    let largest = format!("SELECT x AS v, MAX(i) AS n {from} GROUP BY x ORDER BY n DESC LIMIT 2");
    assert_eq!(json!(column(&largest)), json!(["-Infinity", "NaN"]));
    let grouped = format!("SELECT x AS v, COUNT(*) AS n {from} GROUP BY x ORDER BY v DESC, n");
    assert_eq!(json!(column(&grouped)), json!([1.5, 0.0, "-Infinity", "NaN", null]));
    let list = format!("SELECT ARRAY_AGG(DISTINCT x IGNORE NULLS ORDER BY x) AS v {from}");
    assert_eq!(column(&list), [json!(["NaN", "-Infinity", 0.0, 1.5])]);
    let ranks = format!("SELECT RANK() OVER (PARTITION BY (x > 1) IS TRUE ORDER BY x) AS v {from} ORDER BY i");
    assert_eq!(column(&ranks), [1, 5, 2, 1, 5, 2, 4].map(|rank| json!(rank)));
}

/// Stored numbers are never NaN: conditions on them reach the storage as they are written.
#[test]
fn stored_floats_are_compared_as_they_are() {
    let events = [json!({"f": -0.0, "g": 2.5}), json!({"f": 0.0, "g": 1.5}), json!({"f": 2.5, "g": 2.5})];
    let world = World::new().source("t", &events).source("u", &events);
    let saved = "with g as (select f, g, timestamp from t), h as (select f, g from t union all select f, g from u) \
                 select f from g";
    for condition in ["f > 2", "f < 2", "f >= g", "f = g", "not f <= 0", "f between 1 and 2", "f is distinct from g"] {
        for table in ["g", "h"] {
            let plan = world.physical(saved, &format!("select f from {table} where {condition}"));
            assert!(!plan.contains("float_"), "{condition}: {plan}");
        }
    }
    let joined = world.physical(saved, "select g.f from g join h on g.f = h.f and g.g > h.g");
    assert!(!joined.contains("float_"), "{joined}");
    // The last key decides nothing more, and zeros before another key are one.
    let plan = world.physical(saved, "select f from g order by g, f limit 2");
    assert!(plan.contains("float_key(") && plan.matches("float_key(").count() == 1, "{plan}");
    let newest = world.physical(saved, "select f from g order by f desc limit 2");
    assert!(!newest.contains("float_"), "{newest}");
    assert_eq!(world.rows("select g from t order by f, g"), json!([{"g": 1.5}, {"g": 2.5}, {"g": 2.5}]));
    assert_eq!(world.rows("select g from t order by f desc, g desc"), json!([{"g": 2.5}, {"g": 2.5}, {"g": 1.5}]));
    assert_eq!(world.rows("select count(*) as n from t join u on t.f = u.f"), json!([{"n": 5}]));
    assert_eq!(world.rows("select count(*) as n from t where f in (select f from u)"), json!([{"n": 3}]));
}

/// The engine took the condition for one that is never NULL in one place, and for one that may be in another.
#[test]
fn membership_of_a_constant_stands_in_aggregates_and_keys() {
    let long = "GENERATE_ARRAY(2, 9000)";
    for (sql, expected) in [
        ("SELECT COUNTIF(x IN UNNEST([1, 2])) AS v FROM UNNEST([1, 2, 3]) AS x".to_owned(), json!([{"v": 2}])),
        (format!("SELECT COUNTIF(x IN UNNEST({long})) AS v FROM UNNEST([1, 2, 3]) AS x"), json!([{"v": 2}])),
        (
            "SELECT COUNTIF(x NOT IN UNNEST(['a'])) AS v FROM UNNEST(['a', 'b', NULL]) AS x".to_owned(),
            json!([{"v": 1}]),
        ),
        ("SELECT COUNTIF(x IN UNNEST(['a', NULL])) AS v FROM UNNEST(['a', 'b']) AS x".to_owned(), json!([{"v": 1}])),
        ("SELECT COUNTIF(x IN UNNEST([b'a'])) AS v FROM UNNEST([b'a', b'b']) AS x".to_owned(), json!([{"v": 1}])),
        (
            "SELECT COUNTIF(x IN UNNEST([DATE '2025-01-02'])) AS v FROM UNNEST([DATE '2025-01-02']) AS x".to_owned(),
            json!([{"v": 1}]),
        ),
        ("SELECT COUNTIF(x IN UNNEST(SPLIT('a,b'))) AS v FROM UNNEST(['a', 'c']) AS x".to_owned(), json!([{"v": 1}])),
        (
            "SELECT SUM(IF(x IN UNNEST([0.0, 1.5]), 1, 0)) AS v FROM UNNEST([-0.0, 2.0]) AS x".to_owned(),
            json!([{"v": 1}]),
        ),
        (
            "SELECT COUNTIF(2 IN UNNEST(x.a)) AS v FROM UNNEST([STRUCT([1, 2] AS a), STRUCT([3] AS a)]) AS x"
                .to_owned(),
            json!([{"v": 1}]),
        ),
        (
            "SELECT x IN UNNEST(['a']) AS v, COUNT(*) AS c FROM UNNEST(['a', 'b', 'a']) AS x GROUP BY v ORDER BY v"
                .to_owned(),
            json!([{"v": false, "c": 1}, {"v": true, "c": 2}]),
        ),
        (
            "SELECT COUNT(DISTINCT IF(x IN UNNEST([1, 2]), x, NULL)) AS v FROM UNNEST([1, 2, 3, 2]) AS x".to_owned(),
            json!([{"v": 2}]),
        ),
    ] {
        assert_eq!(World::new().rows(&sql), expected, "{sql}");
    }
}

/// A STRUCT with a NULL in it is equal to none, and different only where another field differs.
#[test]
fn structs_compare_field_by_field() {
    let null = "CAST(NULL AS INT64)";
    let pairs = [("1", "1"), ("1", "2"), (null, "1"), (null, null)];
    for (form, expected) in json_cases(CASES, "structs_compare_field_by_field") {
        let value = |(x, y): (&str, &str)| {
            let literal = format!("SELECT {} AS v", form.replace('X', x).replace('Y', y));
            let column =
                format!("SELECT {} AS v FROM (SELECT {x} AS x, {y} AS y)", form.replace('X', "x").replace('Y', "y"));
            let row = World::new().source("t", &[json!({"x": 1})]);
            let (literal, column) = (row.rows(&literal), row.rows(&column));
            assert_eq!(literal, column, "{form} {x} {y}");
            literal[0]["v"].clone()
        };
        assert_eq!(json!(pairs.map(value)), expected, "{form}");
    }
    let world =
        World::new().source("t", &[json!({"k": 1, "a": 1}), json!({"k": 2, "a": 2}), json!({"k": 3, "a": null})]);
    for (condition, expected) in [
        ("(a, 1) IN (SELECT AS STRUCT a, 1 FROM t)", json!([1, 2])),
        ("(a, 1) IN (SELECT AS STRUCT a, 1 FROM t WHERE k > 1)", json!([2])),
        // One of them may be equal to any.
        ("(a, 1) NOT IN (SELECT AS STRUCT a, 1 FROM t)", json!([])),
        ("(a, 1) NOT IN (SELECT AS STRUCT a, 1 FROM t WHERE k = 1)", json!([2])),
        ("(a, 0.0) IN (SELECT AS STRUCT a, -0.0 FROM t)", json!([1, 2])),
    ] {
        let rows = world.attempt(&format!("SELECT k FROM t WHERE {condition} ORDER BY k"));
        let keys = rows.map(|rows| rows.as_array().unwrap().iter().map(|row| row["k"].clone()).collect());
        assert_eq!(keys.map_err(|failure| failure.to_string()), Ok(expected), "{condition}");
    }
    let failure = world.failure("SELECT (a, 1) < (k, 1) AS v FROM t");
    assert!(failure.message.contains("STRUCTs have no order"), "{failure}");
}
