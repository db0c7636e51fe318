//! UNNEST of stored records and of real lists.

use serde_json::json;

use super::super::support::World;

fn world() -> World {
    World::new()
        .source(
            "edge",
            &[
                json!({"id": "1", "timestamp": 3, "event_message": "one", "metadata": {"path": "/a", "request": {"method": "GET", "path": "/x", "tags": [1, 2]}, "response": {"status_code": 200}}}),
                json!({"id": "2", "timestamp": 2, "event_message": "two", "metadata": {"request": {"method": "POST"}}}),
                json!({"id": "3", "timestamp": 1, "event_message": "three"}),
            ],
        )
        .source(
            "many",
            &[
                json!({"id": "1", "timestamp": 1, "metadata": [{"level": "info"}, {"level": "error"}]}),
                json!({"id": "2", "timestamp": 2, "metadata": []}),
                json!({"id": "3", "timestamp": 3, "metadata": [{"level": "warn"}]}),
            ],
        )
        .source("empty", &[])
}

#[test]
fn a_record_is_unnested_by_name_and_shown_as_an_array() {
    let world = world();
    let sql = "select id, request.method, response.status_code as status
               from edge cross join unnest(metadata) as m cross join unnest(m.request) as request
               left join unnest(m.response) as response on true order by timestamp desc";
    assert_eq!(
        world.rows(sql),
        json!([{"id": "1", "method": "GET", "status": 200}, {"id": "2", "method": "POST", "status": null}])
    );
    let rows = world.rows("select metadata from edge where id = '1'");
    assert_eq!(
        rows,
        json!([{"metadata": [{"path": "/a", "request": [{"method": "GET", "path": "/x", "tags": [1, 2]}], "response": [{"status_code": 200}]}]}])
    );
}

#[test]
fn every_spelling_of_unnest() {
    let world = world();
    for sql in [
        "select m.path as p from edge, unnest(metadata) as m where m.path is not null",
        "select m.path as p from edge t, t.metadata m where m.path is not null",
        "select m.path as p from edge as t join unnest(t.metadata) m on m.path is not null",
        "select metadata.path as p from edge cross join unnest(metadata) as metadata where metadata.path = '/a'",
        "select path as p from edge cross join unnest(metadata) where path = '/a'",
        "select m.path as p from (edge t cross join unnest(metadata) as m) where m.path = '/a'",
        "select metadata[0].path as p from edge where metadata[offset(0)].path is not null",
        "select m.path as p from edge cross join unnest(coalesce(metadata, [])) as m where m.path is not null",
        "select (select m.path from unnest(metadata) as m) as p from edge where exists (select 1 from unnest(metadata) as m where m.path = '/a')",
    ] {
        assert_eq!(world.rows(sql), json!([{"p": "/a"}]), "{sql}");
    }
}

#[test]
fn a_cross_join_drops_and_a_left_join_keeps() {
    let world = world();
    let count = |sql: &str| world.rows(sql)[0]["c"].clone();
    assert_eq!(count("select count(*) as c from edge cross join unnest(metadata) as m"), json!(2));
    assert_eq!(count("select count(*) as c from edge left join unnest(metadata) as m"), json!(3));
    assert_eq!(
        count("select count(*) as c from edge cross join unnest(metadata) as m cross join unnest(m.response) as r"),
        json!(1)
    );
    assert_eq!(
        count("select count(*) as c from edge cross join unnest(metadata) m cross join unnest(m.nowhere) as r"),
        json!(0)
    );
    assert_eq!(
        count("select count(r.x) as c from edge cross join unnest(metadata) m left join unnest(m.nowhere) as r"),
        json!(0)
    );
    assert_eq!(count("select count(*) as c from many cross join unnest(metadata) as m"), json!(3));
    assert_eq!(count("select count(*) as c from many left join unnest(metadata) as m on true"), json!(4));
    assert_eq!(count("select count(*) as c from empty cross join unnest(metadata) as m where m.a.b is null"), json!(0));
}

#[test]
fn a_left_join_with_a_condition_keeps_the_row_and_empties_the_element() {
    let world = world();
    let sql = "select id, m.path as p from edge left join unnest(metadata) as m on m.path = '/a' order by id";
    assert_eq!(world.rows(sql), json!([{"id": "1", "p": "/a"}, {"id": "2", "p": null}, {"id": "3", "p": null}]));
}

#[test]
fn real_lists_and_offsets() {
    let world = world();
    assert_eq!(
        world.rows("select id, m.level as level, at from many cross join unnest(metadata) as m with offset as at order by id, at"),
        json!([{"id": "1", "level": "info", "at": 0}, {"id": "1", "level": "error", "at": 1}, {"id": "3", "level": "warn", "at": 0}])
    );
    assert_eq!(
        world.rows("select tag from edge cross join unnest(metadata) m cross join unnest(m.request) r cross join unnest(r.tags) as tag order by tag"),
        json!([{"tag": 1}, {"tag": 2}])
    );
    assert_eq!(world.rows("select x from unnest([3, 1, 2]) as x order by x"), json!([{"x": 1}, {"x": 2}, {"x": 3}]));
    assert_eq!(
        world.rows("select metadata[0].level as l from many order by id"),
        json!([{"l": "info"}, {"l": null}, {"l": "warn"}])
    );
}

#[test]
fn paths_that_no_record_ever_had_are_null() {
    let world = world();
    let sql = "select id, m.nothing.at.all as a, function_id, r.more as b from edge cross join unnest(metadata) as m
               left join unnest(m.gone) as r order by id limit 1";
    assert_eq!(world.rows(sql), json!([{"id": "1", "a": null, "function_id": null, "b": null}]));
    assert_eq!(
        world.rows("select avg(m.gone) as a, max(m.gone) as b, count(m.gone) as c, countif(m.gone > 3) as d from edge cross join unnest(metadata) as m"),
        json!([{"a": null, "b": null, "c": 0, "d": 0}])
    );
    assert_eq!(world.rows("select id from empty where metadata is null and anything like 'x%'"), json!([]));
    assert_eq!(
        world.rows("select m.gone as g, count(*) as c from edge cross join unnest(metadata) as m where not regexp_contains(m.gone, 'x') or m.gone is null group by g order by g"),
        json!([{"g": null, "c": 2}])
    );
}

/// A drawer of a log viewer asks so for a key that may be there: the text names the row, the value needs nothing of it.
#[test]
fn an_array_that_is_known_to_be_empty_has_no_rows() {
    let world = world();
    let from = "from edge cross join unnest(metadata) as m left join unnest(m.jwt) as jwt";
    for array in
        ["coalesce(jwt.apikey, [])", "ifnull(jwt.apikey, [])", "if(true, [], jwt.apikey)", "coalesce(m.no, jwt.no, [])"]
    {
        for (join, count) in [("cross join", 0), ("left join", 2), (",", 0)] {
            let sql =
                format!("select count(*) as c, count(k) as k, count(k.hash) as h {from} {join} unnest({array}) as k");
            assert_eq!(world.rows(&sql), json!([{"c": count, "k": 0, "h": 0}]), "{sql}");
        }
    }
    for array in ["coalesce(jwt.apikey, [5, 6])", "if(jwt.apikey is null, [5, 6], [])"] {
        let sql = format!("select id, k {from} cross join unnest({array}) as k where id = '1' order by k");
        assert_eq!(world.rows(&sql), json!([{"id": "1", "k": 5}, {"id": "1", "k": 6}]), "{sql}");
        let sql = format!("select id, k {from} left join unnest({array}) as k on k > 5 order by id");
        assert_eq!(world.rows(&sql), json!([{"id": "1", "k": 6}, {"id": "2", "k": 6}]), "{sql}");
    }
    let sql =
        format!("select id, (select count(*) from unnest(coalesce(jwt.apikey, [])) as k) as c {from} order by id");
    assert_eq!(world.rows(&sql), json!([{"id": "1", "c": 0}, {"id": "2", "c": 0}]));
    // A name that is none is still told.
    let failure = world.failure(&format!("select id {from} cross join unnest(coalesce(nope.apikey, [])) as k"));
    assert!(failure.message.contains("no table alias or column nope"), "{failure}");
}

#[test]
fn a_field_of_an_array_asks_for_unnest() {
    let world = world();
    let failure = world.failure("select m.request.path from edge cross join unnest(metadata) as m");
    assert!(failure.message.contains("unnest it first"), "{failure}");
    let failure = world.failure("select id from edge cross join unnest(metadata) as m where response.status_code > 1");
    assert!(failure.message.contains("response") || failure.message.contains("unnest"), "{failure}");
}

/// A field that was text first and a record later is a column of text with the JSON of the records.
#[test]
fn a_field_of_several_kinds_is_read_through_ctes_and_unions() {
    let world = World::new().source(
        "t",
        &[
            json!({"id": "1", "timestamp": 1, "e": "plain", "s": "{\"a\":1}"}),
            json!({"id": "2", "timestamp": 2, "e": "{\"message\":\"hi\",\"list\":[1,2]}", "s": "x"}),
        ],
    );
    let read = [
        "from t",
        "from (select * from t) t",
        "from (select e, timestamp from (select * from t)) t",
        "from (select e, timestamp from t group by e, timestamp) t",
        "from (select e as e, timestamp from t where id != '3' order by timestamp limit 9) t",
    ];
    for from in read {
        let sql = format!("select t.e.message as m {from} order by timestamp");
        assert_eq!(world.rows(&sql), json!([{"m": null}, {"m": "hi"}]), "{sql}");
        let sql = format!("select x.message as m {from}, unnest(t.e) as x order by timestamp");
        assert_eq!(world.rows(&sql).as_array().map(Vec::len), Some(2), "{sql}");
    }
    let sql = "with c as (select * from t), d as (select e as f, timestamp as at from c),
               u as (select e, timestamp from t union all select f, at from d)
               select u.e.message as m from u where timestamp = 2";
    assert_eq!(world.rows(sql), json!([{"m": "hi"}, {"m": "hi"}]));
    let granted = world.granted(
        "with g as (select * from t) select * from g",
        "select g.e.message as m from g where g.e.message is not null",
    );
    assert_eq!(granted.unwrap(), json!([{"m": "hi"}]));
    // A text that was computed, or is a constant in one of the queries, has no fields.
    for computed in ["select upper(e) as e from t", "select e from t union all select 'x'", "select max(e) as e from t"]
    {
        let refused = world.failure(&format!("select t.e.message from ({computed}) t"));
        assert!(refused.message.contains("has no field message"), "{computed}: {refused:?}");
    }
}

#[test]
fn values_are_looked_up_in_lists_of_the_row() {
    let events = [
        json!({"n": 1, "a": [1, 2, 3], "b": [3, 1, 9], "s": ["x", "y"]}),
        json!({"n": 2, "a": [], "b": [1], "s": ["x"]}),
        json!({"n": 3, "a": [4], "b": [4, 4], "s": ["y"]}),
    ];
    let world = World::new().source("t", &events);
    let rows = world.rows(
        "SELECT n, n IN UNNEST(a) AS v, (SELECT COUNT(*) FROM UNNEST(b) AS x WHERE x IN UNNEST(a)) AS c, \
         (SELECT COUNT(*) FROM UNNEST(b) AS x WHERE x NOT IN UNNEST(a) AND x < ARRAY_LENGTH(a)) AS d, \
         EXISTS (SELECT 1 FROM UNNEST(s) AS x WHERE x IN UNNEST(s)) AS e FROM t ORDER BY n",
    );
    let expected = json!([
        {"n": 1, "v": true, "c": 2, "d": 0, "e": true},
        {"n": 2, "v": false, "c": 0, "d": 0, "e": true},
        {"n": 3, "v": false, "c": 2, "d": 0, "e": true},
    ]);
    assert_eq!(rows, expected);
    let of = |element: &str, list: &str| {
        let sql =
            format!("SELECT {element} IN UNNEST({list}) AS v FROM UNNEST([1, NULL]) AS x WITH OFFSET AS i ORDER BY i");
        let rows = World::new().rows(&sql);
        json!([rows[0]["v"], rows[1]["v"]])
    };
    for (list, expected) in [
        ("[x]", json!([true, null])),
        ("[2, x + 1]", json!([false, null])),
        ("[NULL, x + 1]", json!([null, null])),
        ("GENERATE_ARRAY(x, 0)", json!([false, false])),
        ("IF(x > 9, [x], NULL)", json!([false, false])),
        ("ARRAY_CONCAT(GENERATE_ARRAY(1, 40), [x])", json!([true, null])),
        ("GENERATE_ARRAY(1, 40)", json!([true, null])),
    ] {
        assert_eq!(of("x", list), expected, "{list}");
        assert_eq!(of("CAST(x AS FLOAT64)", list), expected, "{list}");
    }
    assert_eq!(of("CAST(x AS STRING)", "[CAST(x AS STRING), 'a']"), json!([true, null]));
    assert_eq!(of("CAST(CAST(x AS STRING) AS BYTES)", "[b'1', CAST('a' AS BYTES)]"), json!([true, null]));
    assert_eq!(of("DATE_ADD(DATE '2025-01-01', INTERVAL x DAY)", "[DATE '2025-01-02']"), json!([true, null]));
    assert_eq!(of("(x, 1)", "[(1, 1)]"), json!([true, null]));
}

/// The pairs of two lists of 50000 elements have 20 GB, and take minutes.
#[test]
fn long_lists_are_looked_up_in_without_their_pairs() {
    let from = "FROM (SELECT GENERATE_ARRAY(1, n) AS a, GENERATE_ARRAY(2, 2 * n, 2) AS b FROM UNNEST([50000, 3]) AS n)";
    let texts = |list: &str| format!("ARRAY(SELECT CAST(y AS STRING) FROM UNNEST({list}) AS y)");
    for (a, b) in [("a".to_owned(), "b".to_owned()), (texts("a"), texts("b"))] {
        let sql = format!(
            "SELECT (SELECT COUNT(*) FROM UNNEST(l.b) AS x WHERE x IN UNNEST(l.a)) AS n \
             FROM (SELECT {a} AS a, {b} AS b {from}) AS l ORDER BY n"
        );
        assert_eq!(World::new().rows(&sql), json!([{"n": 1}, {"n": 25_000}]), "{sql}");
    }
}
