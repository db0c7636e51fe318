//! Columns that a filter makes constant, above outer joins and grouping sets that add NULLs to them.

use serde_json::{Value, json};

use super::super::support::World;

fn world() -> World {
    let row = |k: &str, l: &str, n: i64| json!({"k": k, "l": l, "n": n});
    World::new()
        .source("y", &[row("a", "q", 1), row("b", "q", 2), row("c", "r", 3), row("d", "r", 4)])
        .source("s", &[row("b", "e", 10), row("d", "e", 20), row("a", "f", 30), row("x", "e", 40)])
}

/// The rows as texts of their values.
fn rows(sql: &str) -> Vec<String> {
    let rows = world().rows(sql);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| row.as_object().unwrap().values().map(text).collect::<Vec<_>>().join(" ");
    rows.as_array().unwrap().iter().map(row).collect()
}

const LEFT: &str = "y LEFT JOIN (SELECT * FROM s WHERE l = 'e') AS x ON x.k = y.k";
const RIGHT: &str = "(SELECT * FROM s WHERE l = 'e') AS x RIGHT JOIN y ON x.k = y.k";
const FULL: &str = "(SELECT * FROM s WHERE l = 'e') AS x FULL JOIN (SELECT * FROM y WHERE l = 'q') AS y ON x.k = y.k";
/// A join without a key, which is another operator.
const LOOP: &str = "y LEFT JOIN (SELECT * FROM s WHERE l = 'e') AS x ON x.n > y.n * 8 AND x.n < y.n * 12";

#[test]
fn orders_limits_and_windows_see_the_nulls() {
    for (sql, expected) in [
        (format!("SELECT y.k, x.l FROM {LEFT} ORDER BY x.l, y.k"), vec!["a null", "c null", "b e", "d e"]),
        (format!("SELECT y.k, x.l FROM {RIGHT} ORDER BY x.l DESC, y.k"), vec!["b e", "d e", "a null", "c null"]),
        (
            format!("SELECT x.k AS xk, y.k AS yk FROM {FULL} ORDER BY x.l, y.l, x.k"),
            vec!["null a", "d null", "x null", "b b"],
        ),
        (format!("SELECT y.k, x.l FROM {LOOP} ORDER BY x.l, y.k"), vec!["c null", "a e", "b e", "d e"]),
        (format!("SELECT y.k FROM {LEFT} ORDER BY x.l, y.k DESC LIMIT 1"), vec!["c"]),
        (format!("SELECT y.k FROM {LEFT} ORDER BY x.l IS NULL, y.k"), vec!["b", "d", "a", "c"]),
        (format!("SELECT y.k FROM {LEFT} ORDER BY COALESCE(x.l, 'z'), y.k"), vec!["b", "d", "a", "c"]),
        (
            format!("SELECT y.k, RANK() OVER (ORDER BY x.l) AS r FROM {LEFT} ORDER BY y.k"),
            vec!["a 1", "b 3", "c 1", "d 3"],
        ),
        (
            format!("SELECT y.k, COUNT(*) OVER (PARTITION BY x.l ORDER BY y.k) AS r FROM {LEFT} ORDER BY y.k"),
            vec!["a 1", "b 1", "c 2", "d 2"],
        ),
        (
            format!("SELECT y.k, LAG(y.k) OVER (ORDER BY x.l, y.k) AS r FROM {LEFT} ORDER BY y.k"),
            vec!["a null", "b c", "c a", "d b"],
        ),
        (
            format!("SELECT y.k, SUM(y.n) OVER (ORDER BY x.l DESC, y.k) AS r FROM {LEFT} ORDER BY y.k"),
            vec!["a 7", "b 2", "c 10", "d 6"],
        ),
        (format!("SELECT x.l, COUNT(*) AS c FROM {LEFT} GROUP BY x.l ORDER BY x.l"), vec!["null 2", "e 2"]),
        (format!("SELECT DISTINCT x.l FROM {LEFT} ORDER BY x.l DESC"), vec!["e", "null"]),
        (
            format!("SELECT x.l, STRING_AGG(y.k ORDER BY x.l DESC, y.k) AS g FROM {LEFT} GROUP BY x.l ORDER BY x.l"),
            vec!["null a,c", "e b,d"],
        ),
        (format!("SELECT STRING_AGG(y.k ORDER BY x.l DESC, y.k) AS g FROM {LEFT}"), vec!["b,d,a,c"]),
        // Through a second join, which adds no NULLs of its own.
        (format!("SELECT y.k FROM {LEFT} JOIN y AS z ON z.k = y.k ORDER BY x.l, y.k"), vec!["a", "c", "b", "d"]),
        (
            "SELECT y.k, (SELECT ANY_VALUE(s.l) FROM s WHERE s.k = y.k AND s.l = 'e') AS l FROM y ORDER BY l, k"
                .to_owned(),
            vec!["a null", "c null", "b e", "d e"],
        ),
    ] {
        assert_eq!(rows(&sql), expected, "{sql}");
    }
}

#[test]
fn grouping_sets_see_the_keys_that_they_leave_out() {
    for (sql, expected) in [
        ("SELECT l, COUNT(*) AS c FROM s WHERE l = 'e' GROUP BY ROLLUP(l) ORDER BY l", vec!["null 3", "e 3"]),
        ("SELECT l, COUNT(*) AS c FROM s WHERE l = 'e' GROUP BY ROLLUP(l) ORDER BY l DESC LIMIT 1", vec!["e 3"]),
        (
            "SELECT l, k, SUM(n) AS c FROM s WHERE l = 'e' GROUP BY CUBE(l, k) ORDER BY l, k",
            vec!["null null 70", "null b 10", "null d 20", "null x 40", "e null 70", "e b 10", "e d 20", "e x 40"],
        ),
        (
            "SELECT l, k, RANK() OVER (ORDER BY l, k) AS r FROM s WHERE l = 'e' GROUP BY GROUPING SETS ((l), (k)) ORDER BY r",
            vec!["null b 1", "null d 2", "null x 3", "e null 4"],
        ),
    ] {
        assert_eq!(rows(sql), expected, "{sql}");
    }
}
