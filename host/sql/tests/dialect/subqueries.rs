//! Subqueries over the arrays of the row they stand in.

use serde_json::{Value, json};
use tidegate_model::Code;

use super::super::support::World;
use super::tables::json_cases;

const CASES: &str = include_str!("cases/subqueries.txt");

fn world() -> World {
    World::new().source(
        "t",
        &[
            json!({"id": "1", "n": 2, "tags": ["x", "y", "x"], "items": [{"k": "a", "v": 1}, {"k": "b", "v": 3}], "m": {"level": "info", "list": [1, 2]}}),
            json!({"id": "2", "n": 5, "tags": [], "items": [{"k": "a", "v": 5}], "m": {"level": null, "list": [5]}}),
            json!({"id": "3", "n": null, "tags": null, "items": null, "m": null}),
            json!({"id": "4", "n": 3, "tags": ["z", null], "items": [{"k": null, "v": 3}, {"k": "c", "v": null}], "m": {"level": "warn", "list": []}}),
        ],
    )
}

/// One value for each of the four rows.
fn values(expression: &str) -> Value {
    let rows = world().rows(&format!("select id, {expression} as v from t order by id"));
    rows.as_array().unwrap().iter().map(|row| row["v"].clone()).collect()
}

#[test]
fn a_subquery_over_a_list_is_answered_for_each_row() {
    for (expression, expected) in json_cases(CASES, "a_subquery_over_a_list_is_answered_for_each_row") {
        let expression = expression.replace("m.list", "(select r.list from unnest(m) as r)").replace("[t.m]", "m");
        assert_eq!(values(&expression), expected, "{expression}");
    }
}

#[test]
fn a_left_join_of_a_list_with_a_condition_keeps_every_row() {
    let sql = "select id, i.k as k from t left join unnest(items) as i on i.v = t.n order by id";
    assert_eq!(
        world().rows(sql),
        json!([{"id": "1", "k": null}, {"id": "2", "k": "a"}, {"id": "3", "k": null}, {"id": "4", "k": null}])
    );
}

#[test]
fn a_constant_array_is_joined() {
    let sql = "select id, x from t, unnest([1, 2]) as x where id < '3' order by id, x";
    assert_eq!(
        world().rows(sql),
        json!([{"id": "1", "x": 1}, {"id": "1", "x": 2}, {"id": "2", "x": 1}, {"id": "2", "x": 2}])
    );
    let sql = "select id, x from t left join unnest([2, 5]) as x on x = n order by id";
    assert_eq!(
        world().rows(sql),
        json!([{"id": "1", "x": 2}, {"id": "2", "x": 5}, {"id": "3", "x": null}, {"id": "4", "x": null}])
    );
    assert_eq!(world().rows("select count(*) as c from t left join unnest([]) as x"), json!([{"c": 4}]));
    assert_eq!(world().rows("select array(select x from unnest([3, 1]) as x where x > 5) as v"), json!([{"v": []}]));
}

#[test]
fn what_cannot_be_answered_is_told() {
    for (sql, needle) in [
        ("select (select tag from unnest(tags) as tag) as v from t", "more than one row"),
        ("select (select tag, 1 from unnest(tags) as tag) as v from t", "one column"),
        ("select (select count(*) from unnest(tags) as tag group by tag) as v from t", "not supported"),
        (
            "select (select count(*) from (select n from t as o where o.n > t.n group by rollup(n))) as v from t",
            "write UNION ALL",
        ),
    ] {
        let failure = world().failure(sql);
        assert!(failure.to_string().contains(needle), "{sql}\n{failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
}

#[test]
fn a_subquery_without_rows_is_null_whatever_it_selects() {
    let world = World::new().source("s", &[json!({"id": "1"})]);
    for (value, condition) in
        [("2", "x > 3"), ("'a'", "false"), ("COUNT(*)", "true HAVING COUNT(*) > 5"), ("x", "x > 3")]
    {
        let of_list = format!("SELECT (SELECT {value} FROM UNNEST([1, 2]) AS x WHERE {condition}) AS a FROM s");
        let of_source = format!("SELECT (SELECT {value} FROM (SELECT 1 AS x FROM s) WHERE {condition}) AS a");
        for sql in [of_list, of_source] {
            assert_eq!(world.rows(&sql), json!([{"a": null}]), "{sql}");
        }
    }
}

/// The engine makes joins of subqueries over other tables, and of some it cannot, over which it fails in other ways beside
/// others.
#[test]
fn a_subquery_of_any_kind_has_its_value_whatever_stands_beside_it() {
    let stuck = [
        ("(select max(x.n) from t as p)", json!([2, 5, null, 3])),
        ("(select max(p.n + x.n) from t as p)", json!([7, 10, null, 8])),
        ("(select count(*) from t as p where p.n > x.n)", json!([2, 0, 0, 1])),
        ("(select x.n + 1 from t limit 1)", json!([3, 6, null, 4])),
    ];
    let beside = [
        ("1", json!([1, 1, 1, 1])),
        ("x.n in (select n from t)", json!([true, true, null, true])),
        ("exists (select 1 from t as q where q.n = x.n)", json!([true, true, false, true])),
    ];
    for (stuck, values) in &stuck {
        for (beside, others) in &beside {
            let rows: Value = (0..4).map(|row| json!({"a": values[row], "b": others[row]})).collect();
            for sql in [
                format!("select {stuck} as a, {beside} as b from t as x order by id"),
                format!("select a, b from (select id, {beside} as b, {stuck} as a from t as x) order by id"),
            ] {
                assert_eq!(world().rows(&sql), rows, "{sql}");
            }
            let kept: Value =
                (0..4).filter(|row| values[*row] == json!(1)).map(|row| json!({"b": others[row]})).collect();
            let sql = format!("select {beside} as b from t as x where {stuck} = 1");
            assert_eq!(world().rows(&sql), kept, "{sql}");
        }
    }
    let rows = world().rows(
        "select (select count(*) from t as p where p.n = x.n) as a, x.n in (select n from t where id > '1') as b from t as x order by id",
    );
    assert_eq!(rows, json!([{"a": 1, "b": null}, {"a": 1, "b": true}, {"a": 0, "b": null}, {"a": 1, "b": true}]));
}

#[test]
fn an_array_of_the_row_needs_no_unnest_in_a_subquery() {
    for (expression, expected) in [
        ("exists(select 1 from x.tags as tag where tag = 'x')", json!([true, false, false, false])),
        ("(select count(*) from x.items)", json!([2, 1, 0, 2])),
        ("(select sum(items.v) from x.items)", json!([4, 5, null, 3])),
    ] {
        let rows = world().rows(&format!("select id, {expression} as v from t as x order by id"));
        let values: Value = rows.as_array().unwrap().iter().map(|row| row["v"].clone()).collect();
        assert_eq!(values, expected, "{expression}");
    }
    let rows =
        world().rows("select (select string_agg(i, '-') from unnest(array_agg(id order by id)) as i) as v from t");
    assert_eq!(rows, json!([{"v": "1-2-3-4"}]));
    let failure = world().failure("select exists(select 1 from other.tags) as v from t as x");
    assert_eq!(failure.code, Code::UnknownTable, "{failure}");
}
