//! Window functions, QUALIFY, grouping sets, and the aggregates beyond the everyday ones.

use serde_json::{Value, json};

use crate::support::World;

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
