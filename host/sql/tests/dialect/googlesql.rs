//! Statements whose answers were compared with the reference evaluator of GoogleSQL, at the edges of each kind: NULL, NaN,
//! infinities, empty groups and frames.

use super::super::support::World;
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/googlesql.txt");

/// Whether the statements of a section give what is expected, and those of `refused_` fail as they should.
fn check(section: &str, refused: Option<&str>) {
    let world = World::new();
    let mut wrong = Vec::new();
    for (sql, expected) in json_cases(CASES, section) {
        match world.attempt(sql) {
            Ok(rows) if rows == expected => {}
            other => wrong.push(format!("{sql}\n    gives {other:?}\n    and not {expected}")),
        }
    }
    for (sql, needle) in refused.into_iter().flat_map(|section| text_cases(CASES, section)) {
        match world.attempt(sql) {
            Err(failure) if failure.to_string().contains(needle) && failure.code.status() / 100 == 4 => {}
            other => wrong.push(format!("{sql}\n    gives {other:?}\n    and not {needle}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn windows_and_aggregates_answer_as_the_reference() {
    check("windows_and_aggregates", Some("refused_windows_and_aggregates"));
}

#[test]
fn functions_answer_as_the_reference() {
    check("functions", Some("refused_functions"));
}

#[test]
fn keys_and_times_answer_as_the_reference() {
    check("keys_and_times", Some("refused_keys_and_times"));
}

#[test]
fn named_arguments_and_bytes_answer_as_the_reference() {
    check("named_arguments_and_bytes", Some("refused_named_arguments_and_bytes"));
}

#[test]
fn casts_in_a_format_answer_as_the_reference() {
    check("cast_in_format", Some("refused_cast_in_format"));
}

#[test]
fn correlated_subqueries_answer_as_the_reference() {
    check("correlated_subqueries", Some("refused_correlated_subqueries"));
}

#[test]
fn recursive_tables_answer_as_the_reference() {
    check("recursive_tables", Some("refused_recursive_tables"));
}

#[test]
fn expressions_with_names_and_chained_calls_answer_as_the_reference() {
    check("with_expressions", Some("refused_with_expressions"));
}

#[test]
fn fields_and_subqueries_answer_as_the_reference() {
    check("fields_and_subqueries", None);
}
