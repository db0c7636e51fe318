//! Window functions, QUALIFY, grouping sets, and the aggregates beyond the everyday ones.

use serde_json::{Value, json};

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/windows.txt");

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
    for (call, expected) in json_cases(CASES, "odd_frames_are_frames") {
        assert_eq!(
            column(&format!("select k, n, s, {call} as v from t order by k, n nulls last, s")),
            expected,
            "{call}"
        );
    }
}

#[test]
fn window_functions_mean_what_bigquery_means() {
    for (call, expected) in json_cases(CASES, "window_functions_mean_what_bigquery_means") {
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
    for (call, expected) in json_cases(CASES, "more_aggregates") {
        let sql = format!("select {call} as v from t");
        assert_eq!(column(&sql), json!([expected]), "{sql}");
    }
}

#[test]
fn misuse_is_told() {
    for (sql, needle) in text_cases(CASES, "misuse_is_told") {
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
        ("RANGE(NULL, DATE_FROM_UNIX_DATE(x))", "x"),
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
