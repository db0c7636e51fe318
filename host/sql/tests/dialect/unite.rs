//! Records with different fields in UNION, CASE, COALESCE and arrays: they go together by the names of their
//! fields, as if one source had held them all.

use serde_json::{Value, json};

use super::super::support::World;

fn world() -> World {
    World::new()
        .source(
            "edge",
            &[
                json!({"id": "e1", "timestamp": 4, "metadata": {
                    "project": "a", "status": 200, "mixed": 7, "request": {"method": "GET", "headers": {"host": "h"}},
                    "items": [{"k": "x", "v": 1}], "tags": [1, 2], "sb": {"jwt": 1}}}),
                json!({"id": "e2", "timestamp": 3, "metadata": {"project": null}}),
                json!({"id": "e3", "timestamp": 2}),
            ],
        )
        .source(
            "pg",
            &[
                json!({"id": "p1", "timestamp": 1, "metadata": {
                    "parsed": {"error_severity": "ERROR"}, "mixed": "text", "status": "ok", "project": "b",
                    "request": {"headers": {"accept": "*"}, "path": "/p"}, "items": [{"w": true}, {"v": 2}],
                    "tags": ["t"], "sb": 3}}),
                json!({"id": "p2", "timestamp": 0, "metadata": {}}),
            ],
        )
        .source(
            "fn",
            &[json!({"id": "f1", "timestamp": 5, "metadata": [{"level": "info"}, {"level": "warn", "project": "c"}]})],
        )
}

const BOTH: &str = "(SELECT id, metadata FROM edge UNION ALL SELECT id, metadata FROM pg)";

fn check(world: &World, cases: &[(&str, Value)]) {
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        match world.attempt(sql) {
            Ok(rows) if rows == *expected => {}
            Ok(rows) => wrong.push(format!("{sql}\n    gives {rows}\n  instead {expected}")),
            Err(failure) => wrong.push(format!("{sql}\n    fails: {failure}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn records_of_two_sources_have_the_fields_of_both() {
    let from = |rest: &str| format!("FROM {BOTH} AS t, UNNEST(metadata) AS m{rest}");
    check(
        &world(),
        &[
            (
                &format!(
                    "SELECT id, m.project AS p, s.error_severity AS s {} ORDER BY id",
                    from(" LEFT JOIN UNNEST(m.parsed) AS s")
                ),
                json!([{"id": "e1", "p": "a", "s": null}, {"id": "e2", "p": null, "s": null},
                       {"id": "p1", "p": "b", "s": "ERROR"}, {"id": "p2", "p": null, "s": null}]),
            ),
            // A record in the record, one of whose fields only the other has.
            (
                &format!(
                    "SELECT id, r.method AS m, r.path AS p, h.host AS h, h.accept AS a {} ORDER BY id",
                    from(", UNNEST(m.request) AS r, UNNEST(r.headers) AS h")
                ),
                json!([{"id": "e1", "m": "GET", "p": null, "h": "h", "a": null}, {"id": "p1", "m": null, "p": "/p", "h": null, "a": "*"}]),
            ),
            // Lists of records, lists of several kinds.
            (
                &format!("SELECT id, i.k, i.v, i.w {} ORDER BY id, i.v", from(", UNNEST(m.items) AS i")),
                json!([{"id": "e1", "k": "x", "v": 1, "w": null}, {"id": "p1", "k": null, "v": null, "w": true},
                       {"id": "p1", "k": null, "v": 2, "w": null}]),
            ),
            (
                &format!("SELECT tag {} ORDER BY tag", from(", UNNEST(m.tags) AS tag")),
                json!([{"tag": "1"}, {"tag": "2"}, {"tag": "t"}]),
            ),
            // A field of two kinds is text.
            (
                &format!("SELECT m.mixed, m.status {} WHERE m.mixed IS NOT NULL ORDER BY id", from("")),
                json!([{"mixed": "7", "status": "200"}, {"mixed": "text", "status": "ok"}]),
            ),
            (&format!("SELECT id {} WHERE m.status >= 200", from("")), json!([{"id": "e1"}])),
            // A record here and a number there: both are found.
            (&format!("SELECT id, sb.jwt AS j {}", from(", UNNEST(m.sb) AS sb")), json!([{"id": "e1", "j": 1}])),
            (
                &format!("SELECT id, CAST(m.sb AS STRING) AS sb {} WHERE m.sb IS NOT NULL ORDER BY id", from("")),
                json!([{"id": "e1", "sb": "{\"jwt\":1}"}, {"id": "p1", "sb": "3"}]),
            ),
            // What neither had is NULL; a record that is not there has no rows.
            (&format!("SELECT COUNT(*) AS c, COUNT(m.nowhere) AS n {}", from("")), json!([{"c": 4, "n": 0}])),
            (&format!("SELECT id FROM {BOTH} AS t WHERE metadata IS NULL"), json!([{"id": "e3"}])),
            // Aggregates and conditions over both.
            (
                &format!(
                    "SELECT m.project AS p, COUNT(*) AS c {} WHERE m.project IS NOT NULL GROUP BY p ORDER BY p",
                    from("")
                ),
                json!([{"p": "a", "c": 1}, {"p": "b", "c": 1}]),
            ),
        ],
    );
}

#[test]
fn united_records_are_shown_with_all_fields() {
    let rows = world().rows("SELECT id, metadata FROM edge WHERE id = 'e3' UNION ALL SELECT id, metadata FROM pg WHERE id = 'p1' ORDER BY id");
    assert_eq!(rows[0], json!({"id": "e3", "metadata": null}));
    assert_eq!(
        rows[1]["metadata"],
        json!([{"project": "b", "status": "ok", "mixed": "text", "sb": 3, "tags": ["t"],
                "request": [{"method": null, "headers": [{"host": null, "accept": "*"}], "path": "/p"}],
                "items": [{"k": null, "v": null, "w": true}, {"k": null, "v": 2, "w": null}],
                "parsed": [{"error_severity": "ERROR"}]}])
    );
}

#[test]
fn it_does_not_matter_how_many_or_in_which_order() {
    let world = world();
    let (edge, pg, list) =
        ("SELECT id, metadata FROM edge", "SELECT id, metadata FROM pg", "SELECT id, metadata FROM fn");
    let read = |union: &str| {
        world.rows(&format!(
            "SELECT id, m.project AS p, m.level AS l, s.error_severity AS s, m.mixed AS x FROM ({union}) AS t, UNNEST(metadata) AS m
             LEFT JOIN UNNEST(m.parsed) AS s ORDER BY id, l"
        ))
    };
    let expected = json!([
        {"id": "e1", "p": "a", "l": null, "s": null, "x": "7"},
        {"id": "e2", "p": null, "l": null, "s": null, "x": null},
        {"id": "f1", "p": null, "l": "info", "s": null, "x": null},
        {"id": "f1", "p": "c", "l": "warn", "s": null, "x": null},
        {"id": "p1", "p": "b", "l": null, "s": "ERROR", "x": "text"},
        {"id": "p2", "p": null, "l": null, "s": null, "x": null},
    ]);
    for [a, b, c] in [[edge, pg, list], [pg, edge, list], [list, pg, edge], [edge, list, pg], [list, edge, pg]] {
        for union in [
            format!("{a} UNION ALL {b} UNION ALL {c}"),
            format!("{a} UNION ALL ({b} UNION ALL {c})"),
            format!("WITH x AS ({a}), y AS ({b} UNION ALL {c}) SELECT * FROM x UNION ALL SELECT * FROM y"),
        ] {
            assert_eq!(read(&union), expected, "{union}");
        }
    }
    let order = world.rows(&format!("{edge} UNION ALL SELECT id, NULL FROM pg UNION ALL {pg} ORDER BY id"));
    assert_eq!(order.as_array().map(Vec::len), Some(7));
}

/// The hidden fields: what a record keeps without a column, and what stands in its place.
#[test]
fn what_records_keep_without_a_column_is_found_above_the_union() {
    let world = World::new()
        .source(
            "wide",
            &[
                json!({"id": "w1", "timestamp": 1, "metadata": {"a": 1, "_overflow_value": null, "_present": true, "_overflow_fields":
                    "{\"b\": \"kept\", \"n\": 5, \"r\": {\"x\": 6, \"deep\": {\"y\": [1]}, \"more\": 8}, \"only\": true, \"l\": [1, {\"z\": 2}]}"}}),
                json!({"id": "w2", "timestamp": 2, "metadata": {"a": 2, "_overflow_fields": null, "_present": true, "_overflow_value": null}}),
                json!({"id": "w3", "timestamp": 3, "metadata": {"_overflow_value": "\"down\""}}),
                json!({"id": "w4", "timestamp": 4, "metadata": {"a": 4, "_overflow_fields": "{\"r\": 9, \"b\": null}", "_present": true}}),
            ],
        )
        .source(
            "narrow",
            &[
                json!({"id": "n1", "timestamp": 1, "metadata": {"b": "own", "n": 1, "l": [3], "_present": true,
                    "r": {"x": 2, "deep": {"y": "u", "_present": true}, "_present": true}}}),
                json!({"id": "n2", "timestamp": 2}),
            ],
        );
    for union in [
        "(SELECT id, metadata FROM wide UNION ALL SELECT id, metadata FROM narrow)",
        "(SELECT id, metadata FROM narrow UNION ALL SELECT id, metadata FROM wide)",
    ] {
        let from = |rest: &str| format!("FROM {union} AS t, UNNEST(metadata) AS m{rest}");
        check(
            &world,
            &[
                (
                    &format!("SELECT id, m.a, m.b, m.n, m.only {} ORDER BY id", from("")),
                    json!([{"id": "n1", "a": null, "b": "own", "n": "1", "only": null},
                           {"id": "w1", "a": 1, "b": "kept", "n": "5", "only": "true"},
                           {"id": "w2", "a": 2, "b": null, "n": null, "only": null},
                           {"id": "w4", "a": 4, "b": null, "n": null, "only": null}]),
                ),
                (
                    &format!(
                        "SELECT id, r.x, r.more, d.y {} ORDER BY id",
                        from(", UNNEST(m.r) AS r LEFT JOIN UNNEST(r.deep) AS d")
                    ),
                    json!([{"id": "n1", "x": "2", "more": null, "y": "u"}, {"id": "w1", "x": "6", "more": "8", "y": "[1]"}]),
                ),
                (
                    &format!("SELECT id, CAST(m.r AS STRING) AS r {} WHERE id = 'w4'", from("")),
                    json!([{"id": "w4", "r": "9"}]),
                ),
                (
                    &format!("SELECT id, e {} ORDER BY id, e", from(", UNNEST(m.l) AS e")),
                    json!([{"id": "n1", "e": "3"}, {"id": "w1", "e": "1"}, {"id": "w1", "e": "{\"z\": 2}"}]),
                ),
                (
                    &format!(
                        "SELECT id, CAST(metadata AS STRING) AS v FROM {union} AS t WHERE id IN ('w3', 'n2') ORDER BY id"
                    ),
                    json!([{"id": "n2", "v": null}, {"id": "w3", "v": "down"}]),
                ),
                (&format!("SELECT SUM(CAST(m.n AS INT64)) AS s {}", from("")), json!([{"s": 6}])),
            ],
        );
        // Each field is shown once.
        let shown = world.rows(&format!("SELECT TO_JSON_STRING(metadata) AS t FROM {union} AS t WHERE id = 'w1'"));
        let text = shown[0]["t"].as_str().unwrap();
        for key in ["\"b\":", "\"n\":", "\"r\":", "\"only\":", "\"more\":", "\"l\":"] {
            assert_eq!(text.matches(key).count(), 1, "{key} in {text}");
        }
    }
}

#[test]
fn records_go_together_wherever_values_do() {
    check(
        &world(),
        &[
            (
                "SELECT id, r.path AS p, r.jwt AS j FROM (SELECT id, COALESCE(m.sb, m.request) AS r FROM edge, UNNEST(metadata) AS m) AS t, UNNEST(r) AS r",
                json!([{"id": "e1", "p": null, "j": 1}]),
            ),
            (
                "SELECT x.method, x.jwt FROM (SELECT IF(id = 'e1', m.request, m.sb) AS r FROM edge, UNNEST(metadata) AS m) AS t, UNNEST(r) AS x",
                json!([{"method": "GET", "jwt": null}]),
            ),
            (
                "SELECT e.metadata[0].project AS p FROM (SELECT e.metadata FROM edge AS e UNION ALL SELECT metadata FROM pg) AS e ORDER BY p",
                json!([{"p": null}, {"p": null}, {"p": null}, {"p": "a"}, {"p": "b"}]),
            ),
            // STRUCTs that no log had: by place, as BigQuery has it.
            (
                "SELECT STRUCT(1 AS a, 2 AS b) AS s UNION ALL SELECT STRUCT(3 AS b, 4.5 AS a) ORDER BY s.a",
                json!([{"s": {"a": 1, "b": 2.0}}, {"s": {"a": 3, "b": 4.5}}]),
            ),
            (
                "SELECT i.k, i.v FROM edge, UNNEST(metadata) AS m, UNNEST(COALESCE(m.items, [STRUCT('none' AS k)])) AS i ORDER BY k",
                json!([{"k": "none", "v": null}, {"k": "x", "v": 1}]),
            ),
        ],
    );
}

#[test]
fn what_does_not_go_together_is_told_with_its_column_and_field() {
    let world = world();
    for (sql, parts) in [
        (
            "SELECT id, metadata FROM edge UNION ALL SELECT id, 1 FROM pg",
            ["the column metadata of the UNION", "ARRAY<STRUCT> and INT64"],
        ),
        ("SELECT 1 AS a, TRUE AS b UNION ALL SELECT 2, 5", ["the column b of the UNION", "BOOL and INT64"]),
        (
            "SELECT STRUCT(1 AS a, STRUCT(TRUE AS x) AS b) AS s UNION ALL SELECT STRUCT(2 AS a, STRUCT(5 AS x) AS b)",
            ["the column s of the UNION: in the field b.x:", "BOOL and INT64"],
        ),
        (
            "SELECT STRUCT(1 AS a) AS s UNION ALL SELECT STRUCT(2 AS a, 3 AS c)",
            ["a STRUCT of the fields a and one of a, c", "give both the same fields"],
        ),
        ("SELECT metadata FROM edge INTERSECT DISTINCT SELECT 5", ["the column metadata of the INTERSECT", "INT64"]),
        (
            "SELECT INTERVAL 24 HOUR AS i UNION DISTINCT SELECT INTERVAL 1 DAY",
            ["the column i of the UNION", "DISTINCT cannot compare values of type INTERVAL"],
        ),
    ] {
        let failure = world.failure(sql);
        assert!(parts.iter().all(|part| failure.message.contains(part)), "{sql}: {failure}");
    }
}

/// Equal is what has equal fields, whichever side lacks some of them.
#[test]
fn united_records_are_compared_by_all_fields() {
    let world = world().source("edge2", &[json!({"id": "e2", "metadata": {"project": null, "more": null}})]);
    let projects = |sql: &str| {
        world.rows(&format!(
            "SELECT m.project AS p, m.mixed AS x FROM ({sql}) AS t, UNNEST(metadata) AS m ORDER BY p, x"
        ))
    };
    let (edge, pg, other) = ("SELECT metadata FROM edge", "SELECT metadata FROM pg", "SELECT metadata FROM edge2");
    let (none, a, b) = (json!({"p": null, "x": null}), json!({"p": "a", "x": "7"}), json!({"p": "b", "x": "text"}));
    for (sql, expected) in [
        (format!("{edge} UNION DISTINCT {pg}"), json!([none, a, b])),
        (format!("{edge} EXCEPT DISTINCT {pg}"), json!([a])),
        (format!("{edge} INTERSECT DISTINCT {pg}"), json!([none])),
    ] {
        assert_eq!(projects(&sql), expected, "{sql}");
    }
    assert_eq!(
        world.rows(&format!("SELECT COUNT(*) AS c FROM ({other} INTERSECT DISTINCT {edge}) AS t")),
        json!([{"c": 1}])
    );
}

#[test]
fn what_a_union_of_records_reads_is_told_by_field() {
    let saved = tidegate_sql::SavedQuery::parse(
        "SELECT id, m.project AS p FROM (SELECT id, metadata FROM edge UNION ALL SELECT id, metadata FROM pg) AS t, UNNEST(metadata) AS m",
    )
    .unwrap();
    let reads = world().reads(&saved, None);
    let shown: Vec<String> = reads
        .iter()
        .map(|(table, paths)| format!("{table}: {}", paths.iter().cloned().collect::<Vec<_>>().join(", ")))
        .collect();
    assert_eq!(shown, ["edge: id, metadata.project", "pg: id, metadata.project"]);
}

/// What a union of records takes to plan is held to the memory of the statement.
#[test]
fn a_union_of_very_many_wide_records_is_refused() {
    let wide = |prefix: &str| {
        let fields: serde_json::Map<_, _> = (0..500).map(|i| (format!("{prefix}{i}"), json!(i))).collect();
        [json!({"id": prefix, "metadata": fields})]
    };
    let world = World::new().holding(64 << 20).source("a", &wide("a")).source("b", &wide("b"));
    let union =
        |branches: usize| vec!["SELECT metadata FROM a UNION ALL SELECT metadata FROM b"; branches].join(" UNION ALL ");
    let failure = world.failure(&union(100));
    assert_eq!(failure.code, tidegate_model::Code::LimitExceeded, "{failure}");
    let rows = world.rows(&format!(
        "SELECT COUNT(*) AS c, SUM(m.a1) AS a, SUM(m.b2) AS b FROM ({}) AS t, UNNEST(metadata) AS m",
        union(2)
    ));
    assert_eq!(rows, json!([{"c": 4, "a": 2, "b": 4}]));
}

/// A sort over a union whose inputs have different constants: the engine moved it below the union, and did not find the
/// order again.
#[test]
fn a_union_of_inputs_with_different_constants_is_sorted() {
    let rows: Vec<Value> = (0..40)
        .map(|n| {
            json!({"id": format!("i{n}"), "timestamp": n, "project": format!("p{}", n % 2), "n": n % 5,
                "event_message": format!("GET {}", n % 3), "late": if n % 3 == 0 { json!("a") } else { Value::Null },
                "metadata": {"status": n % 4}})
        })
        .collect();
    let world = World::new().source("t", &rows);
    let columns = "id, timestamp AS ts, project AS p, event_message AS k, n, metadata[0].status AS s, late AS l";
    let sql = format!(
        "SELECT id FROM ((SELECT {columns} FROM t WHERE late = 'a' AND project = 'p0') UNION ALL \
         (SELECT {columns} FROM t WHERE n = 3)) AS u WHERE REGEXP_CONTAINS(k, r'^GET (0|1)$') \
         ORDER BY k DESC, id, id, ts, p, k, n, s, l LIMIT 100 OFFSET 2"
    );
    // The first two, i13 and i28, are left out by OFFSET.
    let ids = ["i0", "i12", "i18", "i18", "i24", "i3", "i30", "i33", "i36", "i6"];
    assert_eq!(world.rows(&sql), Value::from_iter(ids.map(|id| json!({"id": id}))));
}
