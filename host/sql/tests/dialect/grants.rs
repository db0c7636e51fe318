//! The border of granted tables: an expression that fails never tells of a row that the grant leaves out.

use serde_json::json;

use super::super::support::World;

const GRANT: &str = "WITH t AS (SELECT * FROM s WHERE project = @project), \
                     u AS (SELECT s.* FROM s, UNNEST(m) AS m WHERE m.owner = @project ORDER BY n DESC), \
                     v AS (SELECT * FROM t UNION ALL SELECT * FROM u) SELECT 1";

fn world() -> World {
    let row = |id: &str, project: &str, text: &str| json!({"id": id, "project": project, "n": 1, "event_message": text, "m": {"owner": project, "text": text}, "list": [text]});
    World::new()
        .source("s", &[row("1", "mine", "7"), row("2", "theirs", "secret"), row("3", "mine", "8")])
        .with("project", "mine")
}

/// Expressions that fail for the row of somebody else, and for no other.
const FAILING: [&str; 18] = [
    "CAST(event_message AS INT64)",
    "CAST(event_message AS FLOAT64)",
    "1 / IF(event_message = 'secret', 0, 1)",
    "DIV(1, IF(event_message = 'secret', 0, 1))",
    "MOD(1, IF(event_message = 'secret', 0, 1))",
    "IF(event_message = 'secret', ERROR('x'), '1')",
    "LENGTH(REPEAT('x', IF(event_message = 'secret', 1000000000, 1)))",
    "ARRAY_LENGTH(GENERATE_ARRAY(1, 3, IF(event_message = 'secret', 0, 1)))",
    "REGEXP_CONTAINS('a', IF(event_message = 'secret', '(', 'a'))",
    "PARSE_TIMESTAMP('%Y', IF(event_message = 'secret', 'x', '2026'))",
    "TIMESTAMP(IF(event_message = 'secret', 'x', '2026-01-01'))",
    "SUBSTR('abc', IF(event_message = 'secret', 1, 1), IF(event_message = 'secret', -1, 1))",
    "list[IF(event_message = 'secret', 5, 0)]",
    "(SELECT CAST(x AS INT64) FROM UNNEST(list) AS x)",
    "CAST(IF(event_message = 'secret', 'x', '[2026-01-01, UNBOUNDED)') AS RANGE<DATE>)",
    "RANGE(TIMESTAMP '2026-01-01', IF(event_message = 'secret', TIMESTAMP '2026-01-01', NULL))",
    "RANGE_INTERSECT(RANGE<DATE> '[2026-01-01, 2026-01-02)', IF(event_message = 'secret', RANGE<DATE> '[2027-01-01, NULL)', RANGE<DATE> '[2026-01-01, NULL)'))",
    // The week of the first day that there is begins before it.
    "(SELECT TIMESTAMP_TRUNC(t, WEEK) FROM (SELECT IF(event_message = 'secret', TIMESTAMP '0001-01-01', TIMESTAMP '2026-01-01') AS t))",
];

#[test]
fn an_expression_never_fails_for_a_row_outside() {
    let (world, nobody) = (world(), world().with("project", "nobody"));
    let mut tried = 0;
    for fails in FAILING {
        // What is no failure here at all shows nothing.
        if world.granted(&GRANT.replace("project = @project", "true"), &format!("SELECT {fails} AS x FROM t")).is_ok() {
            continue;
        }
        tried += 1;
        for table in ["t", "u", "v"] {
            for sql in [
                format!("SELECT id FROM {table} WHERE {fails} IS NOT NULL"),
                format!("SELECT {fails} AS x FROM {table}"),
                format!("SELECT project, {fails} AS x FROM {table}"),
                format!("SELECT id FROM (SELECT id, {fails} AS x FROM {table}) WHERE x IS NOT NULL"),
                format!(
                    "SELECT id FROM (SELECT id, project, event_message, list, ROW_NUMBER() OVER (ORDER BY id) AS r FROM {table}) WHERE {fails} IS NOT NULL"
                ),
                format!("SELECT COUNT(*) AS c FROM {table} WHERE project = 'theirs' AND {fails} IS NOT NULL"),
                format!("SELECT COUNT({fails}) AS c FROM {table}"),
                format!("SELECT project, COUNT(*) AS c FROM {table} GROUP BY project, {fails}"),
                format!(
                    "SELECT a.id FROM {table} AS a JOIN {table} AS b ON a.id = b.id AND (SELECT {fails} FROM (SELECT a.event_message, a.list)) IS NOT NULL"
                ),
                format!("SELECT id FROM {table} ORDER BY {fails} LIMIT 1"),
                format!("SELECT id FROM {table} QUALIFY ROW_NUMBER() OVER (ORDER BY {fails}) = 1"),
                format!("WITH w AS (SELECT * FROM {table}) SELECT id FROM w WHERE {fails} IS NOT NULL"),
                // A grant that was read within another one before.
                format!("SELECT (SELECT COUNT(*) FROM v) AS c, id FROM {table} WHERE {fails} IS NOT NULL"),
                format!("SELECT id FROM {table} WHERE id IN (SELECT id FROM v) AND {fails} IS NOT NULL"),
                format!("SELECT IF({fails} IS NULL, 1, 2) AS x FROM {table} WHERE n = 1 LIMIT 5"),
            ] {
                let told = world.granted(GRANT, &sql);
                if let Err(failure) = &told {
                    // Some of these are not possible at all; then they fail without any row too.
                    let none = nobody.granted(GRANT, &sql);
                    assert_eq!(none.as_ref().err().map(|none| &none.message), Some(&failure.message), "{sql}");
                }
            }
        }
    }
    assert!(tried >= 10, "only {tried} expressions fail at all");
}

#[test]
fn what_cannot_fail_reaches_the_storage_and_the_rest_stops_at_the_border() {
    let world = world();
    let plan = |sql: &str| world.physical(GRANT, sql);
    for sql in [
        "SELECT id, event_message FROM t WHERE event_message LIKE '%x%' AND n > 0 ORDER BY timestamp DESC LIMIT 100",
        "SELECT COUNT(*) AS n FROM t, UNNEST(m) AS m WHERE m.text = 'a' OR REGEXP_CONTAINS(event_message, 'a|b')",
        "SELECT id FROM t WHERE DATE(timestamp) = '2025-01-01' AND n > 0.5",
        "SELECT TIMESTAMP_TRUNC(timestamp, MINUTE) AS minute, COUNTIF(m.text = 'a') AS n FROM t, UNNEST(m) AS m GROUP BY minute",
    ] {
        assert!(!plan(sql).contains("SecurityBarrier"), "{sql}\n{}", plan(sql));
    }
    // It fails for a text of more than 4 MiB.
    let sql = "SELECT id FROM t WHERE JSON_VALUE(event_message, '$.a') = 'b'";
    assert!(plan(sql).contains("SecurityBarrier"), "{}", plan(sql));
    let sql = "SELECT id FROM t WHERE CAST(event_message AS INT64) = 7";
    assert!(plan(sql).contains("SecurityBarrier"), "{}", plan(sql));
    assert_eq!(world.granted(GRANT, sql).unwrap(), json!([{"id": "1"}]));
}

/// A column of a subquery is no column of the storage: its times may be anywhere.
#[test]
fn times_of_any_year_are_cut_the_same_on_both_sides_of_the_border() {
    let world = world();
    for year in ["0001", "1600", "9999"] {
        for part in ["DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"] {
            let time = format!("IF(event_message = 'secret', TIMESTAMP '{year}-12-31', TIMESTAMP '2026-01-01')");
            let sql = format!(
                "SELECT id FROM (SELECT id, {time} AS t FROM t) WHERE TIMESTAMP_TRUNC(t, {part}) > TIMESTAMP '2000-01-01' ORDER BY id"
            );
            assert_eq!(world.granted(GRANT, &sql).unwrap(), json!([{"id": "1"}, {"id": "3"}]), "{sql}");
        }
    }
}

/// What cannot fail tells nothing of the rows that a grant leaves out, so it is computed below the barrier, where the
/// storage prunes by it; what can fail is computed above.
#[test]
fn conditions_that_cannot_fail_pass_the_barrier() {
    let world = world();
    let sql = "SELECT id, JSON_VALUE(event_message, '$.a') AS a FROM t \
               WHERE n > 0 AND CAST(event_message AS INT64) = 7";
    let plan = world.physical(GRANT, sql);
    let (above, below) = plan.split_once("SecurityBarrier").unwrap();
    assert!(below.contains("n@") && !above.contains("n@"), "{plan}");
    assert!(above.contains("json_value") && !below.contains("json_value"), "{plan}");
    assert!(above.contains("parse_int64") && !below.contains("parse_int64"), "{plan}");
    assert_eq!(world.granted(GRANT, sql).unwrap(), json!([{"id": "1", "a": null}]));
    // Through an UNNEST too.
    let sql = "SELECT JSON_VALUE(event_message, '$.a') AS a FROM t, UNNEST(m) AS m WHERE n > 0";
    let plan = world.physical(GRANT, sql);
    let (above, below) = plan.split_once("SecurityBarrier").unwrap();
    assert!(below.contains("n@") && !above.contains("n@"), "{plan}");
}

/// A guard is for what may fail: a condition on a day is one that the storage prunes by.
#[test]
fn a_day_of_a_stored_time_is_compared_as_it_stands() {
    let world = world();
    let plan = |condition: &str| {
        world.physical(&format!("WITH t AS (SELECT id FROM s WHERE {condition}) SELECT id FROM t"), "SELECT id FROM t")
    };
    let day = plan("DATE(timestamp) >= '2025-01-01' AND n > 0 AND project = 'mine'");
    assert!(!day.contains("CASE"), "{day}");
    let number = plan("CAST(event_message AS INT64) >= 7 AND n > 0");
    assert!(number.contains("CASE") && number.contains("n@"), "{number}");
}

/// Nor in the rounds of a recursive table, or for the keys of a correlated subquery.
#[test]
fn recursion_and_correlation_stay_within_the_grant() {
    let world = world();
    for fails in ["CAST(event_message AS INT64)", "1 / IF(event_message = 'secret', 0, 1)"] {
        for sql in [
            format!(
                "WITH RECURSIVE r AS (SELECT id, event_message FROM t UNION DISTINCT SELECT t.id, t.event_message FROM r JOIN t ON {} IS NOT NULL) SELECT id FROM r",
                fails.replace("event_message", "t.event_message")
            ),
            format!(
                "SELECT id, (SELECT COUNT(*) FROM t AS b WHERE b.id > a.id AND {} IS NOT NULL) AS c FROM t AS a",
                fails.replace("event_message", "b.event_message")
            ),
            format!(
                "SELECT id, (SELECT COUNT(*) FROM t AS b WHERE b.id > a.id) AS c FROM (SELECT id, {fails} AS x FROM t) AS a WHERE x IS NOT NULL"
            ),
        ] {
            let rows = world.granted(GRANT, &sql).unwrap_or_else(|failure| panic!("{failure}: {sql}"));
            let ids: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["id"].clone()).collect();
            assert_eq!(ids.len(), 2, "{sql}: {rows}");
            assert!(ids.iter().all(|id| *id == json!("1") || *id == json!("3")), "{sql}: {rows}");
        }
    }
}
