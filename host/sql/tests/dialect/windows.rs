//! Window functions, QUALIFY, grouping sets, and the aggregates beyond the everyday ones.

use serde_json::{Value, json};

use super::super::support::World;

fn world() -> World {
    World::new().source(
        "t",
        &[
            json!({"k": "a", "n": 1, "s": "x"}),
            json!({"k": "a", "n": 2, "s": null}),
            json!({"k": "a", "n": 2, "s": "y"}),
            json!({"k": "b", "n": 5, "s": "z"}),
            json!({"k": "b", "n": null, "s": "z"}),
        ],
    )
}

/// The one column of the rows.
fn column(sql: &str) -> Value {
    let rows = world().rows(sql);
    let values =
        rows.as_array().unwrap().iter().map(|row| row.as_object().unwrap().values().next_back().unwrap().clone());
    Value::Array(values.collect())
}

/// Frames that are empty by their bounds, and one frame written in several ways.
#[test]
fn odd_frames_are_frames() {
    for (call, expected) in [
        ("sum(n) over (order by n rows between 1 preceding and 2 preceding)", json!([null, null, null, null, null])),
        ("count(*) over (order by n rows between 2 following and 1 following)", json!([0, 0, 0, 0, 0])),
        ("count(n) over (order by n range between 1 preceding and 1.5 preceding)", json!([0, 0, 0, 0, 0])),
        (
            "countif(n > 1) over (partition by k order by n rows between 1 preceding and 2 preceding)",
            json!([0, 0, 0, 0, 0]),
        ),
        (
            "first_value(s) over (order by n, s rows between 3 following and 1 following)",
            json!([null, null, null, null, null]),
        ),
        (
            "nth_value(n, 1) over (order by n rows between 1 preceding and 2 preceding)",
            json!([null, null, null, null, null]),
        ),
        (
            "coalesce(sum(n) over (order by n rows between 1 preceding and 2 preceding), -1)",
            json!([-1, -1, -1, -1, -1]),
        ),
        ("sum(n) over (order by k, n, s rows between 1 preceding and 1 preceding)", json!([null, 1, 2, null, 2])),
        ("sum(n) over (range between unbounded preceding and unbounded following)", json!([10, 10, 10, 10, 10])),
        (
            "sum(n) over () + sum(n) over (range between unbounded preceding and unbounded following)",
            json!([20, 20, 20, 20, 20]),
        ),
        ("sum(n) over (order by n) - sum(n) over (order by n range unbounded preceding)", json!([0, 0, 0, 0, null])),
        (
            "sum(n) over (order by n) - sum(n) over (order by n range between unbounded preceding and current row)",
            json!([0, 0, 0, 0, null]),
        ),
        (
            "sum(n) over (order by n rows 1 preceding) - sum(n) over (order by n rows between 1 preceding and current row)",
            json!([0, 0, 0, 0, null]),
        ),
    ] {
        assert_eq!(
            column(&format!("select k, n, s, {call} as v from t order by k, n nulls last, s")),
            expected,
            "{call}"
        );
    }
}

#[test]
fn window_functions_mean_what_bigquery_means() {
    for (call, expected) in [
        ("row_number() over (partition by k order by n, s)", json!([1, 2, 3, 1, 2])),
        ("rank() over (partition by k order by n)", json!([1, 2, 2, 1, 2])),
        ("dense_rank() over (partition by k order by n desc)", json!([2, 1, 1, 2, 1])),
        ("count(*) over ()", json!([5, 5, 5, 5, 5])),
        ("count(n) over (partition by k)", json!([3, 3, 3, 1, 1])),
        ("countif(n > 1) over (partition by k)", json!([2, 2, 2, 1, 1])),
        ("count(distinct n) over (partition by k)", json!([2, 2, 2, 1, 1])),
        // The default frame ends with the peers of the row.
        ("sum(n) over (partition by k order by n)", json!([1, 5, 5, null, 5])),
        ("sum(n) over (partition by k order by n, s rows unbounded preceding)", json!([1, 3, 5, null, 5])),
        ("sum(n) over (order by k, n, s rows between 1 preceding and 1 following)", json!([3, 5, 4, 7, 5])),
        ("max(n) over (order by n range between 1 preceding and current row)", json!([1, 2, 2, null, 5])),
        (
            "approx_quantiles(n, 1) over (partition by k order by n, s rows unbounded preceding)",
            json!([[1, 1], [1, 2], [1, 2], null, [5, 5]]),
        ),
        ("lag(n) over (partition by k order by n, s)", json!([null, 1, 2, null, null])),
        ("lead(n, 1, -1) over (partition by k order by n, s)", json!([2, 2, -1, 5, -1])),
        ("first_value(s) over (partition by k order by n, s)", json!(["x", "x", "x", "z", "z"])),
        ("last_value(s ignore nulls) over (partition by k order by n, s)", json!(["x", "x", "y", "z", "z"])),
        (
            "nth_value(n, 2) over (partition by k order by n, s rows between unbounded preceding and unbounded following)",
            json!([2, 2, 2, 5, 5]),
        ),
        ("ntile(2) over (order by k, n, s)", json!([1, 1, 1, 2, 2])),
        ("percent_rank() over (partition by k order by n)", json!([0.0, 0.5, 0.5, 0.0, 1.0])),
        ("percentile_cont(n, 0.25) over (partition by k)", json!([1.5, 1.5, 1.5, 5.0, 5.0])),
        ("percentile_disc(n, 0.5) over (partition by k)", json!([2, 2, 2, 5, 5])),
        (
            "string_agg(s) over (partition by k order by n, s rows unbounded preceding)",
            json!(["x", "x", "x,y", "z", "z,z"]),
        ),
        ("round(n / sum(n) over (partition by k), 1)", json!([0.2, 0.4, 0.4, null, 1.0])),
        ("sum(n) over w", json!([5, 5, 5, 5, 5])),
    ] {
        let named = if call.ends_with(" w") { " window w as (partition by k)" } else { "" };
        let sql = format!("select k, n, s, {call} as v from t{named} order by k, n, s");
        assert_eq!(column(&sql), expected, "{sql}");
    }
}

#[test]
fn windows_stand_over_groups() {
    let sql = "select k, count(*) as c, sum(count(*)) over () as total, rank() over (order by count(*) desc) as place
        from t group by k order by place";
    let expected = json!([{"k": "a", "c": 3, "total": 5, "place": 1}, {"k": "b", "c": 2, "total": 5, "place": 2}]);
    assert_eq!(world().rows(sql), expected);
}

#[test]
fn qualify_filters_by_windows() {
    let newest = json!([{"k": "a", "n": 2}, {"k": "b", "n": 5}]);
    for sql in [
        "select k, n from t where true qualify row_number() over (partition by k order by n desc, s desc) = 1 order by k",
        "select k, n, row_number() over w as place from t where true qualify place = 1
            window w as (partition by k order by n desc, s desc) order by k",
    ] {
        let mut rows = world().rows(sql);
        for row in rows.as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("place");
        }
        assert_eq!(rows, newest, "{sql}");
    }
    let sql = "select k, count(*) as c from t group by k qualify row_number() over (order by count(*)) = 1";
    assert_eq!(world().rows(sql), json!([{"k": "b", "c": 2}]));
}

#[test]
fn grouping_sets_roll_up() {
    let sql = "select k, n > 1 as big, count(*) as c, grouping(k) as g from t where n is not null
        group by rollup(k, big) order by g, k, big";
    assert_eq!(
        world().rows(sql),
        json!([
            {"k": "a", "big": null, "c": 3, "g": 0},
            {"k": "a", "big": false, "c": 1, "g": 0},
            {"k": "a", "big": true, "c": 2, "g": 0},
            {"k": "b", "big": null, "c": 1, "g": 0},
            {"k": "b", "big": true, "c": 1, "g": 0},
            {"k": null, "big": null, "c": 4, "g": 1},
        ])
    );
    assert_eq!(
        column("select count(*) as c from t group by cube(k, s) order by c"),
        json!([1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 5])
    );
    assert_eq!(column("select k, count(*) as c from t group by grouping sets ((k), ()) order by k"), json!([5, 3, 2]));
}

#[test]
fn more_aggregates() {
    for (call, expected) in [
        ("approx_top_count(k, 1)", json!([{"value": "a", "count": 3}])),
        ("approx_top_sum(k, n, 2)", json!([{"value": "a", "sum": 5}, {"value": "b", "sum": 5}])),
        ("max_by(s, n)", json!("z")),
        ("any_value(s having min n)", json!("x")),
        ("string_agg(s, '-' order by s desc limit 2)", json!("z-z")),
        ("string_agg(distinct s, '-' order by s)", json!("x-y-z")),
        ("array_agg(s ignore nulls order by s limit 2)", json!(["x", "y"])),
        ("array_agg(distinct n ignore nulls order by n)", json!([1, 2, 5])),
        ("array_length(array_concat_agg([n, n]))", json!(10)),
        ("approx_quantiles(n, 2)[offset(1)]", json!(2)),
        ("-approx_count_distinct(k) - 1", json!(-3)),
        ("countif(n > 1)", json!(3)),
        ("logical_and(n > 0)", json!(true)),
        ("stddev(n)", json!(1.732_050_807_568_877_2)),
    ] {
        let sql = format!("select {call} as v from t");
        assert_eq!(column(&sql), json!([expected]), "{sql}");
    }
}

#[test]
fn misuse_is_told() {
    for (sql, needle) in [
        ("select rank() over () from t", "needs an ORDER BY"),
        ("select k from t where row_number() over () = 1", "not allowed in WHERE; QUALIFY"),
        ("select rank() from t", "write RANK(...) OVER"),
        ("select lower(k) over () from t", "no window function"),
        ("select sum(n) over w from t", "there is no window w"),
        ("select sum(sum(n) over ()) over () from t", "is not allowed in"),
        ("select k, count(*) from t group by k having row_number() over () = 1", "QUALIFY"),
        ("select sum(n) over (order by k range 1 preceding) from t", "one numeric ORDER BY key"),
        ("select grouping(k) from t", "GROUPING needs a GROUP BY"),
        ("select k from t group by cube(k, n, s, id, event_message, k, n)", "more than 64"),
        ("select distinct on (k) k from t", "QUALIFY ROW_NUMBER()"),
        ("select string_agg(k, k) from t", "the separator of STRING_AGG is a constant"),
        ("select string_agg(k, cast(n as string)) over () from t", "the separator of STRING_AGG is a constant"),
    ] {
        let failure = world().failure(sql);
        assert!(failure.to_string().contains(needle), "{sql}\n{failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
}

/// Each type as a key of each function, in both directions, as it stands and computed.
#[test]
fn every_function_orders_by_every_type() {
    let values = [
        ("x", "x"),
        ("-x", "-x"),
        ("x + 1", "x + 1"),
        ("x = 2", "x = 2"),
        ("CAST(x AS FLOAT64)", "CAST(x AS FLOAT64)"),
        ("-CAST(x AS FLOAT64)", "-CAST(x AS FLOAT64)"),
        ("CAST(x AS STRING)", "x"),
        ("CAST(CAST(x AS STRING) AS BYTES)", "x"),
        ("TIMESTAMP_SECONDS(x)", "x"),
        ("CAST(TIMESTAMP_SECONDS(x) AS DATETIME)", "x"),
        ("DATE_FROM_UNIX_DATE(x)", "x"),
        ("TIME(10, 0, x)", "x"),
        ("INTERVAL x DAY", "x"),
        ("NULL", "0"),
        ("'a'", "0"),
        ("IF(x = 2, NULL, TIME(10, 0, x))", "IF(x = 2, NULL, x)"),
    ];
    let functions = [
        "ROW_NUMBER()",
        "RANK()",
        "DENSE_RANK()",
        "PERCENT_RANK()",
        "CUME_DIST()",
        "NTILE(2)",
        "LAG(x)",
        "LEAD(x, 2)",
        "FIRST_VALUE(x)",
        "LAST_VALUE(x)",
        "NTH_VALUE(x, 2)",
        "COUNT(*)",
        "COUNT(x)",
        "SUM(x)",
        "AVG(x)",
        "MIN(x)",
        "MAX(x)",
        "COUNTIF(x > 1)",
        "STRING_AGG(CAST(x AS STRING))",
        "ARRAY_AGG(x)",
        "ANY_VALUE(1)",
        "LOGICAL_OR(x > 1)",
    ];
    let world = World::new();
    let (mut wrong, mut known) = (Vec::new(), std::collections::HashMap::new());
    for (key, same) in values {
        for direction in ["", " DESC NULLS LAST"] {
            let calls = |key: &str| {
                let over = format!("OVER (ORDER BY {key}{direction})");
                // Rows that are equal have no order among each other: only what is the same for all of them.
                let tied = ["0", "x = 2"].contains(&same);
                let calls = functions.iter().enumerate().filter(|(i, name)| {
                    !tied || ["RANK()", "DENSE_RANK()", "COUNT(*)", "SUM(x)", "CUME_DIST()"].contains(name) || *i == 12
                });
                calls.map(|(i, call)| format!("{call} {over} AS c{i}")).collect::<Vec<_>>().join(", ")
            };
            let rows =
                |key: &str| world.attempt(&format!("SELECT x, {} FROM UNNEST([3, 1, 2]) AS x ORDER BY x", calls(key)));
            let expected = known.entry(format!("{same}{direction}")).or_insert_with(|| rows(same)).clone();
            match (rows(key), expected) {
                (Ok(one), Ok(other)) if one == other => {}
                (Ok(one), Ok(other)) => wrong.push(format!("{key}{direction}: {one}\n    instead of {other}")),
                (Err(failure), _) | (_, Err(failure)) => wrong.push(format!("{key}{direction}: {failure}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (sql, expected) in [
        ("ROW_NUMBER() OVER (ORDER BY TIME(10, 0, x))", [1, 2, 3]),
        ("ROW_NUMBER() OVER (ORDER BY -x)", [3, 2, 1]),
        ("SUM(x) OVER (ORDER BY -x)", [6, 5, 3]),
        ("COUNT(*) OVER (ORDER BY -x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", [2, 2, 1]),
        ("RANK() OVER (PARTITION BY TIME(10, 0, 0) ORDER BY TIME(10, 0, x) DESC)", [3, 2, 1]),
        ("SUM(x) OVER (ORDER BY TIME(10, 0, x) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", [1, 3, 5]),
        ("ROW_NUMBER() OVER (ORDER BY -x, TIME(10, 0, x))", [3, 2, 1]),
    ] {
        let expected = json!(expected.map(|c| json!({"c": c})));
        let stored = World::new().source("t", &[json!({"x": 3}), json!({"x": 1}), json!({"x": 2})]);
        for from in ["UNNEST([3, 1, 2]) AS x", "t"] {
            let sql = format!("SELECT {sql} AS c FROM {from} ORDER BY x");
            let rows = stored.attempt(&sql);
            assert_eq!(rows.map_err(|failure| failure.to_string()), Ok(expected.clone()), "{sql}");
        }
    }
}

/// What is computed from fields of records as a key: the engine must know that what it sorted is sorted.
#[test]
fn a_window_is_ordered_by_what_is_computed_from_fields() {
    let rows: Vec<_> = (1..4)
        .map(|i| json!({"id": format!("{i}"), "timestamp": i, "s": format!("{i}"), "m": {"x": i, "s": format!("{i}"), "b": i > 1}}))
        .collect();
    let world = World::new().source("t", &rows);
    let mut wrong = Vec::new();
    for key in [
        "-m.x",
        "-s",
        "-m.s",
        "-CAST(m.s AS INT64)",
        "-INTERVAL m.x DAY",
        "INTERVAL -m.x DAY",
        "~m.x",
        "-(-(-m.x))",
        "-ABS(m.x)",
        "NOT m.b, -m.x",
        "m.x IS NULL, -m.x",
        "4 - m.x",
        "0 - m.x",
        "m.x * -1",
        "-UNIX_MICROS(timestamp)",
        "-LENGTH(REPEAT('a', m.x))",
        "TIME(9, 0, 10 - m.x)",
        "CONCAT('a', CAST(10 - m.x AS STRING))",
        "-IF(m.b, m.x, 1)",
        "CASE WHEN m.b THEN -m.x ELSE 0 END",
        "DATE_SUB(DATE '2025-01-31', INTERVAL m.x DAY)",
        "-LOG(m.x)",
        "-m.x / 2",
    ] {
        for (sql, expected) in [
            (
                format!("SELECT ROW_NUMBER() OVER (ORDER BY {key}) AS c FROM t, UNNEST(m) AS m ORDER BY id"),
                json!([3, 2, 1]),
            ),
            (
                format!(
                    "SELECT SUM(m.x) OVER (PARTITION BY m.x > 9 ORDER BY {key}) AS c FROM t, UNNEST(m) AS m ORDER BY id"
                ),
                json!([6, 5, 3]),
            ),
            (
                format!("SELECT m.x AS c FROM t, UNNEST(m) AS m WHERE TRUE QUALIFY RANK() OVER (ORDER BY {key}) = 1"),
                json!([3]),
            ),
            (format!("SELECT m.x AS c FROM t, UNNEST(m) AS m ORDER BY {key} LIMIT 2"), json!([3, 2])),
        ] {
            match world.attempt(&sql) {
                Ok(rows) if rows.as_array().unwrap().iter().map(|row| &row["c"]).eq(expected.as_array().unwrap()) => {}
                other => wrong.push(format!("{sql}\n    gives {other:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let failure = world.failure("SELECT -x AS v FROM UNNEST([-9223372036854775808]) AS x");
    assert!(failure.message.contains("an integer overflowed"), "{failure}");
    let rows = world.rows(
        "SELECT -x AS v, -0.0 AS z, SAFE_NEGATE(y) AS n FROM UNNEST([1.5]) AS x, UNNEST([-9223372036854775808]) AS y",
    );
    assert_eq!(rows, json!([{"v": -1.5, "z": -0.0, "n": null}]));
}
