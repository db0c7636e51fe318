//! FLOAT64 where values are compared: both zeros are one number, and NaN equals nothing but is one key.

use serde_json::{Value, json};

use super::super::support::World;

const NAN: &str = "CAST('nan' AS FLOAT64)";

/// The one column of the rows of a statement.
fn column(sql: &str) -> Value {
    let rows = World::new().rows(sql);
    let values = rows.as_array().unwrap().iter().map(|row| row["v"].clone());
    Value::Array(values.collect())
}

/// An expression for x = -0.0, 0.0, NaN and 1.0.
fn of_each(expression: &str) -> Value {
    column(&format!("SELECT {expression} AS v FROM UNNEST([-0.0, 0.0, {NAN}, 1.0]) AS x WITH OFFSET AS at ORDER BY at"))
}

#[test]
fn in_knows_one_zero_and_no_nan() {
    let only_zeros = json!([true, true, false, false]);
    for list in [
        "(0)",
        "(0.0)",
        "(-0.0)",
        "(0, 5)",
        "(0.0, 5, 6, 7, 8, 9)",
        "(-0.0, 5, 6, 7, 8, 9)",
        "('0', 5)",
        "(0 * x, 5)",
        "UNNEST([0.0])",
        "UNNEST([-0.0, 5, 6, 7, 8, 9])",
        "UNNEST([0 * ABS(x), 5])",
        "(SELECT 0.0)",
    ] {
        assert_eq!(of_each(&format!("x IN {list}")), only_zeros, "{list}");
        assert_eq!(of_each(&format!("NOT x NOT IN {list}")), only_zeros, "{list}");
    }
    let none = json!([false, false, false, false]);
    let nan_list = format!("({NAN}, 5, 6, 7, 8, 9)");
    for list in [format!("({NAN})"), nan_list, "(IEEE_DIVIDE(0, 0))".to_owned(), format!("UNNEST([{NAN}, 5])")] {
        assert_eq!(of_each(&format!("x IN {list}")), none, "{list}");
        assert_eq!(of_each(&format!("x * 1 IN {list}")), none, "{list}");
    }
    assert_eq!(of_each(&format!("x IN (x, {NAN})")), json!([true, true, false, true]));
    assert_eq!(of_each("ROUND(x - 0.3) IN (0, 2)"), json!([true, true, false, false]));
    let null = json!([true, true, null, null]);
    assert_eq!(of_each("x IN (0, NULL)"), null);
    assert_eq!(of_each("x IN UNNEST([0.0, NULL])"), null);
    assert_eq!(of_each("x IN UNNEST([0 * ABS(x), NULL])"), json!([true, true, null, null]));
    assert_eq!(of_each(&format!("IF(x > 9, 1.0, NULL) IN ({NAN})")), json!([null, null, null, null]));
    assert_eq!(of_each("x IN UNNEST(CAST(NULL AS ARRAY<FLOAT64>))"), none);
    assert_eq!(of_each("x IN UNNEST(ARRAY<FLOAT64>[])"), none);
}

#[test]
fn lists_know_one_zero_and_no_nan() {
    let only_zeros = json!([true, true, false, false]);
    assert_eq!(of_each("ARRAY_INCLUDES([0.0, 7.0], x)"), only_zeros);
    assert_eq!(of_each("ARRAY_INCLUDES_ANY([-0.0, 7.0], [x])"), only_zeros);
    assert_eq!(of_each("ARRAY_INCLUDES_ALL([-0.0, 7.0], [7.0, x])"), only_zeros);
    assert_eq!(of_each("ARRAY_INCLUDES([x], x)"), json!([true, true, false, true]));
    assert_eq!(of_each("ARRAY_INCLUDES_ANY([x], [x, x])"), json!([true, true, false, true]));
    assert_eq!(of_each("ARRAY_INCLUDES_ALL([x, 1.0], [x])"), json!([true, true, false, true]));
    assert_eq!(of_each(&format!("ARRAY_IS_DISTINCT([x, -0.0, -{NAN}])")), json!([false, false, false, true]));
    for (expression, expected) in [
        ("ARRAY_INCLUDES([1.0], CAST(NULL AS FLOAT64))", json!(null)),
        ("ARRAY_INCLUDES(CAST(NULL AS ARRAY<FLOAT64>), 1.0)", json!(null)),
        ("ARRAY_INCLUDES_ANY([1.0, NULL], [NULL])", json!(true)),
        ("ARRAY_INCLUDES_ANY([1.0], CAST(NULL AS ARRAY<FLOAT64>))", json!(null)),
        ("ARRAY_INCLUDES_ALL([1.0], ARRAY<FLOAT64>[])", json!(true)),
        ("ARRAY_IS_DISTINCT([1.0, NULL, NULL])", json!(false)),
        ("ARRAY_IS_DISTINCT(ARRAY<FLOAT64>[])", json!(true)),
    ] {
        assert_eq!(column(&format!("SELECT {expression} AS v")), json!([expected]), "{expression}");
    }
}

#[test]
fn groups_and_distinct_values_know_one_zero_and_one_nan() {
    let from = format!("FROM UNNEST([-0.0, 0.0, {NAN}, -{NAN}, 1.0]) AS x");
    let three = json!([2, 2, 1]);
    for sql in [
        format!("SELECT COUNT(*) AS v {from} GROUP BY x ORDER BY v DESC"),
        format!("SELECT COUNT(*) AS v {from} GROUP BY 1 * x ORDER BY v DESC"),
        format!("SELECT COUNT(*) AS v FROM (SELECT x * 1 AS y {from}) GROUP BY y ORDER BY v DESC"),
        format!("SELECT COUNT(*) AS v {from} GROUP BY GROUPING SETS (x) ORDER BY v DESC"),
    ] {
        assert_eq!(column(&sql), three, "{sql}");
    }
    for sql in [
        format!("SELECT COUNT(*) AS v FROM (SELECT DISTINCT x {from})"),
        format!("SELECT COUNT(*) AS v FROM (SELECT x {from} UNION DISTINCT SELECT ABS(x) {from})"),
        format!("SELECT COUNT(*) AS v FROM (SELECT x {from} INTERSECT DISTINCT SELECT x {from})"),
        format!("SELECT 3 + COUNT(*) AS v FROM (SELECT x {from} EXCEPT DISTINCT SELECT x {from})"),
        format!("SELECT COUNT(DISTINCT x) AS v {from}"),
        format!("SELECT COUNT(DISTINCT x) + 0 * COUNT(DISTINCT -x) AS v {from}"),
        format!("SELECT APPROX_COUNT_DISTINCT(x) AS v {from}"),
        format!("SELECT ARRAY_LENGTH(ARRAY_AGG(DISTINCT x)) AS v {from}"),
        format!("SELECT ARRAY_LENGTH(ARRAY_AGG(DISTINCT x ORDER BY x DESC)) AS v {from}"),
        format!("SELECT ARRAY_LENGTH(APPROX_TOP_COUNT(x, 9)) AS v {from}"),
        format!("SELECT ARRAY_LENGTH(APPROX_TOP_SUM(x, 1, 9)) AS v {from}"),
    ] {
        assert_eq!(column(&sql), json!([3]), "{sql}");
    }
    assert_eq!(column("SELECT AVG(DISTINCT x) AS v FROM UNNEST([-0.0, 0.0, 2.0]) AS x"), json!([1.0]));
}

#[test]
fn windows_know_one_zero_and_one_nan() {
    for (call, expected) in [
        ("COUNT(*) OVER (PARTITION BY x)", json!([2, 2, 2, 2, 1])),
        ("COUNT(DISTINCT x) OVER ()", json!([3, 3, 3, 3, 3])),
        ("RANK() OVER (ORDER BY x)", json!([3, 3, 1, 1, 5])),
        ("DENSE_RANK() OVER (ORDER BY x DESC)", json!([2, 2, 3, 3, 1])),
        ("COUNT(*) OVER (ORDER BY x)", json!([4, 4, 2, 2, 5])),
    ] {
        let sql = format!(
            "SELECT {call} AS v FROM UNNEST([-0.0, 0.0, {NAN}, -{NAN}, 1.0]) AS x WITH OFFSET AS at ORDER BY at"
        );
        assert_eq!(column(&sql), expected, "{call}");
    }
}

#[test]
fn moving_frames_keep_nothing_of_what_left() {
    let moving = |call: &str, values: &str| {
        column(&format!("SELECT {call} AS v FROM UNNEST([{values}]) AS y WITH OFFSET AS x ORDER BY x"))
    };
    let two = "OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)";
    assert_eq!(moving(&format!("AVG(y) {two}"), "1e20, 1.0, 2.0, 2.0"), json!([1e20, 5e19, 1.5, 2.0]));
    let inf = "CAST('inf' AS FLOAT64)";
    let expected = json!(["Infinity", "Infinity", 3.0, 4.0]);
    assert_eq!(moving(&format!("SUM(y) {two}"), &format!("{inf}, 1.0, 2.0, 2.0")), expected);
    assert_eq!(moving(&format!("SUM(y) {two}"), &format!("{NAN}, 1.0, 2.0")), json!(["NaN", "NaN", 3.0]));
    assert_eq!(moving(&format!("SUM(y) {two}"), "NULL, NULL, 2.5, NULL, NULL"), json!([null, null, 2.5, 2.5, null]));
    for (frame, expected) in [
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", json!([1e20, 9.0, 5.0, 3.0])),
        ("ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", json!([null, 1e20, 1e20, 6.0])),
        ("ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", json!([6.0, 5.0, 3.0, null])),
        ("RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", json!([1e20, 1e20, 6.0, 5.0])),
    ] {
        let call = format!("SUM(y) OVER (ORDER BY x {frame})");
        assert_eq!(moving(&call, "1e20, 4.0, 2.0, 3.0"), expected, "{frame}");
    }
    let whole = format!("AVG(y) {two}");
    assert_eq!(moving(&whole, "1, 2, 4"), json!([1.0, 1.5, 3.0]));
    let filtered = "SUM(y) FILTER (WHERE y < 9) OVER (ORDER BY x ROWS 1 PRECEDING)";
    assert_eq!(moving(filtered, "1e20, 4.0, 2.5"), json!([null, 4.0, 6.5]));
}

#[test]
fn extremes_are_nan_if_an_argument_is() {
    for call in ["LEAST(x, 1.0)", "GREATEST(1.0, x)", "LEAST(1, -x, 2)", "GREATEST(-x, 3)"] {
        let sql = format!("SELECT {call} AS v FROM UNNEST([{NAN}, NULL]) AS x WITH OFFSET AS at ORDER BY at");
        assert_eq!(column(&sql), json!(["NaN", null]), "{call}");
    }
    assert_eq!(column("SELECT LEAST(2.5, 1, 3) + GREATEST(2.5, 1, 3) AS v"), json!([4.0]));
}

/// Stored numbers are never NaN, so that what is known of stored columns is used.
#[test]
fn stored_floats_are_keys_as_they_are() {
    let events = [json!({"f": 1.5}), json!({"f": -0.0}), json!({"f": 0.0}), json!({"f": null}), json!({"f": 2.5})];
    let world = World::new().source("t", &events);
    let saved = "with g as (select f, timestamp from t) select f from g";
    let explained = |sql: &str| world.physical(saved, sql);
    for sql in ["select f, count(*) as n from g group by f", "select distinct f from g"] {
        assert!(!explained(sql).contains("float_key"), "{sql}");
    }
    let listed = explained("select f from g where f in (0, 2.5)");
    assert!(!listed.contains("float_"), "{listed}");
    assert_eq!(world.rows("select count(*) as n from t where f in (0, 2.5)"), json!([{"n": 3}]));
    assert_eq!(world.rows("select count(*) as n from t where f in unnest([-0.0, 9])"), json!([{"n": 2}]));
    assert_eq!(world.rows("select count(distinct f) as n from t"), json!([{"n": 3}]));
    assert_eq!(world.rows("select f, count(*) as n from t group by f having n > 1"), json!([{"f": 0.0, "n": 2}]));
    assert_eq!(
        world.rows("select max(c) as n from (select count(*) over (partition by f) as c from t)"),
        json!([{"n": 2}])
    );
}

#[test]
fn what_floats_cannot_do_is_refused() {
    for (sql, needle) in [
        ("SELECT DIV(7.5, 2)", "DIV takes INT64, not FLOAT64"),
        ("SELECT DIV(7, 2.0)", "DIV takes INT64, not FLOAT64"),
        (
            "SELECT APPROX_QUANTILES(x, 2 RESPECT NULLS) FROM UNNEST([1, NULL]) AS x",
            "APPROX_QUANTILES with RESPECT NULLS is not supported; leave the words out: NULLs are left out",
        ),
        (
            "SELECT APPROX_QUANTILES(x, 2) RESPECT NULLS FROM UNNEST([1, NULL]) AS x",
            "APPROX_QUANTILES with RESPECT NULLS is not supported",
        ),
        (
            "SELECT PERCENTILE_CONT(x, 0.5 RESPECT NULLS) OVER () FROM UNNEST([1, NULL]) AS x",
            "PERCENTILE_CONT with RESPECT NULLS is not supported; leave the words out: NULLs are left out",
        ),
    ] {
        let failure = World::new().failure(sql);
        assert!(failure.message.contains(needle), "{sql}: {failure}");
    }
    assert_eq!(
        column("SELECT APPROX_QUANTILES(x, 2 IGNORE NULLS) AS v FROM UNNEST([1, NULL, 1]) AS x"),
        json!([[1, 1, 1]])
    );
}

#[test]
fn structs_are_compared_field_by_field() {
    let only_zeros = json!([true, true, false, false]);
    for condition in [
        "STRUCT(x AS a, 'k' AS b) = STRUCT(0.0 AS a, 'k' AS b)",
        "(x, 1) = (0, 1)",
        "NOT (x, 1) != (-0.0, 1)",
        "(x, 1) IN ((0.0, 1), (5.0, 2))",
        "(x, (x, 1)) IN ((0.0, (-0.0, 1)), (1.0, (2.0, 1)))",
    ] {
        assert_eq!(of_each(condition), only_zeros, "{condition}");
    }
    assert_eq!(of_each("STRUCT(x AS a) = STRUCT(x AS a)"), json!([true, true, false, true]));
    assert_eq!(of_each("(x, NULL) = (0.0, 1)"), json!([null, null, false, false]));
    let structs = "UNNEST([STRUCT(-0.0 AS a, 1 AS b), STRUCT(0.0, 2), NULL])";
    let sql = format!("SELECT s = STRUCT(0.0, 1) AS v FROM {structs} AS s WITH OFFSET AS at ORDER BY at");
    assert_eq!(column(&sql), json!([true, false, null]));
}

#[test]
fn a_correlation_that_is_not_defined_is_nan() {
    for (values, expected) in [("1, 1", json!("NaN")), ("1", json!(null)), ("1, 3", json!(1.0)), ("NULL", json!(null))]
    {
        let from = format!("FROM UNNEST([{values}]) AS x");
        assert_eq!(column(&format!("SELECT CORR(x, x) AS v {from}")), json!([expected]), "{values}");
        assert_eq!(column(&format!("SELECT CORR(x, x) AS v {from} GROUP BY x > 9")), json!([expected]), "{values}");
        let over = column(&format!("SELECT DISTINCT CORR(x, x) OVER () AS v {from}"));
        assert_eq!(over, json!([expected]), "{values}");
    }
}
