//! The checks over the committed corpus and over what once broke a promise, in every test run.
#![expect(clippy::unwrap_used, reason = "a test stops where its premise does not hold")]

use std::path::Path;

/// Checks every file of a folder; the name of the file stands before what went wrong.
fn replay(folder: &str, check: fn(&str)) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in &files {
        let text = String::from_utf8(std::fs::read(file).unwrap()).unwrap();
        let outcome = std::panic::catch_unwind(|| check(&text));
        assert!(outcome.is_ok(), "{} breaks a promise", file.display());
    }
    files.len()
}

#[test]
fn sql_of_the_corpus() {
    assert!(replay("corpus/sql", tidegate_fuzz::sql) > 0);
}

#[test]
fn lql_of_the_corpus() {
    assert!(replay("corpus/lql", tidegate_fuzz::lql) > 0);
}

#[test]
fn sql_that_once_failed() {
    replay("regressions/sql", tidegate_fuzz::sql);
}

#[test]
fn lql_that_once_failed() {
    replay("regressions/lql", tidegate_fuzz::lql);
}

#[test]
#[ignore = "open: each of these still breaks a promise"]
fn sql_that_still_fails() {
    replay("regressions/open", tidegate_fuzz::sql);
}
