//! Random statements over random records: the engine and the evaluator agree.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};

use super::grammar::{self, Statement};
use super::naive;
use super::support::World;
use super::tape::Tape;

const CASES: u32 = 400;

/// The table of two sources.
const UNION: &str = "WITH t AS (SELECT id, n, s, m FROM t UNION ALL SELECT id, n, s, m FROM u) SELECT id FROM t";

#[test]
fn the_engine_agrees_with_the_naive_evaluator() {
    let cases = std::env::var("TIDEGATE_PROPERTY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    // Without the variable, the same cases each time: a test of somebody's change tests that change.
    let mut runner = match std::env::var_os("TIDEGATE_PROPERTY_CASES") {
        Some(_) => TestRunner::new(config),
        None => {
            let seed = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
            TestRunner::new_with_rng(config, seed)
        }
    };
    let bytes = || proptest::collection::vec(any::<u8>(), 0..120);
    let outcome = runner.run(&(bytes(), bytes()), |(records, query)| {
        let records = grammar::records(&mut Tape::new(&records));
        let statement = grammar::statement(&mut Tape::new(&query));
        let one = World::new().source("t", &records);
        compare(&one, "WITH t AS (SELECT * FROM t) SELECT id FROM t", &records, &statement)?;
        let (here, there) = grammar::parted(&records);
        let two = World::new().source("t", &here).source("u", &there);
        compare(&two, UNION, &records, &statement)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Through a grant, as the statements of callers are.
fn compare(world: &World, grant: &str, records: &[Json], statement: &Statement) -> Result<(), TestCaseError> {
    let sql = statement.to_string();
    let shown = || format!("{grant}\n{}", records.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    let fail = |text: String| Err(TestCaseError::fail(text));
    let got = match world.granted(grant, &sql) {
        Ok(Json::Array(rows)) => rows,
        Ok(other) => return fail(format!("no rows: {other}")),
        Err(failure) => return fail(format!("\n{sql}\nover\n{}\nfails: {failure}", shown())),
    };
    let mut expected = naive::rows(records, statement);
    let mut got: Vec<String> = got.iter().map(ToString::to_string).collect();
    if !statement.is_ordered() {
        expected.sort();
        got.sort();
    }
    if got == expected {
        return Ok(());
    }
    fail(format!("\n{sql}\nover\n{}\ngives\n{}\ninstead of\n{}", shown(), got.join("\n"), expected.join("\n")))
}

/// What once gave another answer than the evaluator, made small.
#[test]
fn what_once_diverged() {
    let world = World::new().source(
        "t",
        &[
            json!({"id": "r0", "n": 1, "m": {"z": 1, "a": 1, "tags": [1, null]}}),
            json!({"id": "r1", "n": 1, "m": {"z": 1}}),
            json!({"id": "r2", "n": 2, "m": {"z": 1, "a": 1, "tags": [1, null]}}),
            json!({"id": "r3", "m": {"z": 1}}),
        ],
    );
    let mut wrong = Vec::new();
    for (sql, expected) in [
        // The value that is compared with is NULL: unknown, not false.
        ("SELECT n IN (SELECT q.a FROM UNNEST(t.m) AS q) AS c FROM t WHERE id = 'r1'", json!([{"c": null}])),
        ("SELECT id FROM t WHERE n NOT IN (SELECT q.a FROM UNNEST(t.m) AS q) AND id = 'r1'", json!([])),
        // NULL unnests to nothing, in which nothing is.
        ("SELECT n IN UNNEST(m.tags) AS c FROM t CROSS JOIN UNNEST(t.m) AS m WHERE id = 'r1'", json!([{"c": false}])),
        // None of them, but one is unknown.
        ("SELECT n IN UNNEST(m.tags) AS c FROM t CROSS JOIN UNNEST(t.m) AS m WHERE id = 'r2'", json!([{"c": null}])),
        // An item is NULL by a CASE; a column that is NULL is taken well.
        ("SELECT 2 IN (1, CASE WHEN n > 0 THEN 3 ELSE NULL END) AS c FROM t WHERE id = 'r3'", json!([{"c": null}])),
        // EXISTS and IN of a table, as values.
        ("SELECT EXISTS (SELECT 1 FROM t) AS c", json!([{"c": true}])),
        ("SELECT n IN (SELECT n FROM t) AS c FROM t WHERE id = 'r0'", json!([{"c": true}])),
    ] {
        let got = match world.granted("WITH t AS (SELECT * FROM t) SELECT id FROM t", sql) {
            Ok(rows) if rows == expected => continue,
            Ok(rows) => rows.to_string(),
            Err(failure) => failure.to_string(),
        };
        wrong.push(format!("{sql}\n    gives {got} instead of {expected}"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A rule of the optimizer made a column twice here, and the statement failed.
#[test]
fn what_once_failed_over_a_union() {
    let records = grammar::records(&mut Tape::new(&[]));
    let (here, there) = grammar::parted(&records);
    let world = World::new().source("t", &here).source("u", &there);
    let sql = "SELECT ((SELECT q.a FROM UNNEST(t.m) AS q WHERE (q.a IS NULL)) + (n + n)) AS s, COUNT(*) AS c0,
        COUNT(CASE WHEN (n = n) THEN n ELSE NULL END) AS c1, COUNTIF(((tag BETWEEN -1 AND t.n) AND (NOT (m1.b NOT LIKE 'a')))) AS c2
        FROM t CROSS JOIN UNNEST(t.m) AS m1 CROSS JOIN UNNEST(m1.tags) AS tag
        WHERE COALESCE(t.n IN (SELECT q.a FROM UNNEST(t.m) AS q), FALSE) GROUP BY s";
    assert_eq!(world.granted(UNION, sql).unwrap(), json!([{"s": null, "c0": 4, "c1": 4, "c2": 2}]));
}
