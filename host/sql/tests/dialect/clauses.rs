//! Set operations by name, joins by USING, grouping sets and the pipe syntax: statements with their rows, and what is said
//! of those that are refused.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/clauses.txt");

/// Runs the cases of a section.
fn run(world: &World, section: &str) {
    let mut wrong = Vec::new();
    for (sql, expected) in json_cases(CASES, section) {
        match world.attempt(sql) {
            Ok(rows) if rows == expected => {}
            Ok(rows) => wrong.push(format!("{sql}\n    gives {rows}\n  instead {expected}")),
            Err(failure) => wrong.push(format!("{sql}\n    fails: {failure}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the statements of a section, which are refused, with what must be said.
fn refused(world: &World, section: &str) {
    let mut wrong = Vec::new();
    for (sql, said) in text_cases(CASES, section) {
        match world.attempt(sql) {
            Err(failure) if failure.message.contains(said) => {}
            other => wrong.push(format!("{sql}\n    gives {other:?}\n  instead of {said}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn set_operations_match_columns_by_name() {
    run(&World::new(), "set operations by name");
    refused(&World::new(), "refused set operations");
}

#[test]
fn a_literal_takes_the_type_of_the_column_that_it_is_united_with() {
    run(&World::new(), "literals beside columns");
}

#[test]
fn columns_of_using_come_first_and_each_side_keeps_its_own() {
    run(&World::new(), "joins by USING");
}

#[test]
fn grouping_sets_hold_others_and_functions_of_their_keys() {
    run(&World::new(), "grouping sets");
}

#[test]
fn like_takes_the_patterns_of_arrays_and_subqueries() {
    run(&World::new(), "LIKE of arrays and subqueries");
}

#[test]
fn structs_are_found_in_arrays() {
    run(&World::new(), "IN UNNEST of STRUCT");
}

#[test]
fn limits_are_numbers() {
    for clause in ["LIMIT NULL", "LIMIT 1 OFFSET NULL", "LIMIT IF(TRUE, NULL, 1)"] {
        let failure = World::new().failure(&format!("SELECT 1 AS a {clause}"));
        assert!(failure.message.contains("must be a number"), "{clause}: {failure}");
    }
    // A parameter that was not sent limits nothing.
    assert_eq!(World::new().rows("SELECT 1 AS a LIMIT @limit"), json!([{"a": 1}]));
}

#[test]
fn having_needs_groups() {
    let failure = World::new().failure("SELECT 1 AS a FROM UNNEST([1]) AS x HAVING COUNT(*) > 5");
    assert!(failure.message.starts_with("HAVING needs GROUP BY"), "{failure}");
    assert_eq!(World::new().rows("SELECT COUNT(*) AS n FROM UNNEST([1]) AS x HAVING COUNT(*) > 0"), json!([{"n": 1}]));
}

#[test]
fn piped_queries_give_their_rows() {
    run(&World::new(), "pipes");
    refused(&World::new(), "refused pipes");
}

fn logs() -> World {
    World::new().source(
        "edge",
        &[
            json!({"id": "a", "timestamp": 1_000_000, "event_message": "one", "metadata": {"status": 200, "path": "/a"}}),
            json!({"id": "b", "timestamp": 2_000_000, "event_message": "two", "metadata": {"status": 500, "path": "/b"}}),
            json!({"id": "c", "timestamp": 3_000_000, "event_message": "three", "metadata": {"status": 500, "path": "/a"}}),
        ],
    )
}

#[test]
fn pipes_read_logs_grants_and_no_more() {
    let world = logs();
    let piped = "FROM edge AS e |> CROSS JOIN UNNEST(e.metadata) AS m |> WHERE m.status >= 500 |> EXTEND m.path AS path \
                 |> AGGREGATE COUNT(*) AS n GROUP BY path |> ORDER BY path";
    assert_eq!(world.rows(piped), json!([{"path": "/a", "n": 1}, {"path": "/b", "n": 1}]));
    // A name that no log has had is NULL in records and tables of logs, after pipes too.
    assert_eq!(
        world.rows("FROM edge |> WHERE id = 'a' |> EXTEND nowhere AS n |> SELECT id, n"),
        json!([{"id": "a", "n": null}])
    );
    let saved = "WITH errors AS (FROM edge |> CROSS JOIN UNNEST(metadata) AS m |> WHERE m.status = 500 |> SELECT id, m.path) \
                 FROM errors |> ORDER BY id";
    let rows = world.granted(saved, "FROM errors |> WHERE path = '/b' |> SELECT id").unwrap();
    assert_eq!(rows, json!([{"id": "b"}]));
    for sql in [
        "FROM edge |> SELECT id",
        "FROM errors |> JOIN edge USING (id)",
        "FROM errors |> UNION ALL (FROM edge |> SELECT id, event_message)",
        "FROM errors |> WITH t AS (FROM edge) |> SELECT id",
        "FROM errors |> WHERE EXISTS (FROM edge)",
    ] {
        let failure = world.granted(saved, sql).unwrap_err();
        assert_eq!(failure.code, tidegate_model::Code::UnknownTable, "{sql}: {failure}");
    }
}

#[test]
fn lineage_sees_through_pipes() {
    let world = logs();
    let saved = tidegate_sql::SavedQuery::parse(
        "WITH errors AS (FROM edge |> CROSS JOIN UNNEST(metadata) AS m |> WHERE m.status = 500 |> SELECT id, m.path AS p) \
         FROM errors |> SELECT p",
    )
    .unwrap();
    let reads = world.reads(&saved, None);
    let of_errors: Vec<&str> =
        reads.get("errors").map(|of| of.iter().map(String::as_str).collect()).unwrap_or_default();
    assert_eq!(of_errors, ["p"], "{reads:?}");
    let reads: BTreeMap<String, Vec<String>> = world
        .reads_of_grant(&saved, "errors")
        .into_iter()
        .map(|(table, of)| (table, of.into_iter().collect()))
        .collect();
    let expected: BTreeMap<String, Vec<String>> =
        BTreeMap::from([("edge".to_owned(), ["id", "metadata.path", "metadata.status"].map(str::to_owned).to_vec())]);
    assert_eq!(reads, expected);
    assert_eq!(saved.relations().into_iter().collect::<Vec<_>>(), ["edge"]);
}

#[test]
fn mistakes_in_pipes_have_their_places() {
    let world = logs();
    for (sql, line, column) in [
        ("FROM edge\n|> WHERE id = 'a'\n|> SELECT MAXX(id)", 3, 11),
        ("FROM edge\n|> EXTEND id AS a, UPPER(1, 2) AS b", 2, 20),
        ("FROM edge\n|> SELECT id AS a\n|> WHERE b = 1", 3, 10),
        ("FROM edge\n|> SELECT id AS a\n|> DROP c", 3, 9),
        ("FROM edge\n|> AGGREGATE COUNT(*) AS n GROUP BY UPPER(nowhere.x)", 2, 43),
        ("FROM edge\n|> SELECT id\n|> LIMIT -1", 3, 11),
        ("FROM edge\n|> WERE id", 2, 4),
        ("FROM edge\n|> SELECT id id2 id3\n|> LIMIT 1", 2, 18),
    ] {
        let failure = world.failure(sql);
        let at = failure.position.map(|at| (at.line, at.column));
        assert_eq!(at, Some((line, column)), "{sql}: {failure}");
    }
}

#[test]
fn chains_of_pipes_are_bounded() {
    let chain = |count: usize| format!("FROM (SELECT 1 AS a) {}", "|> WHERE a = 1 ".repeat(count));
    assert_eq!(World::new().rows(&chain(100)), Value::from(vec![json!({"a": 1})]));
    let failure = World::new().failure(&chain(2_000));
    assert_eq!(failure.code, tidegate_model::Code::TooLarge, "{failure}");
}

#[test]
fn pivot_and_unpivot_turn_rows_and_columns() {
    run(&World::new(), "PIVOT and UNPIVOT");
    refused(&World::new(), "refused PIVOT and UNPIVOT");
}
