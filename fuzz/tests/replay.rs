//! The checks over the committed corpus and over what once broke a promise, in every test run.
#![expect(clippy::unwrap_used, reason = "a test stops where its premise does not hold")]

use std::path::Path;

/// Checks every file of a folder, if there is one, and names all that break a promise.
fn replay(folder: &str, check: fn(&str)) -> usize {
    replay_bytes(folder, |bytes| check(std::str::from_utf8(bytes).unwrap()))
}

/// The same for files that are no texts.
fn replay_bytes(folder: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else { return 0 };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let broken: Vec<_> = files
        .iter()
        .filter(|file| {
            let bytes = std::fs::read(file).unwrap();
            std::panic::catch_unwind(|| check(&bytes)).is_err()
        })
        .collect();
    assert!(broken.is_empty(), "these inputs break a promise: {broken:#?}");
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
fn uploads_of_the_corpus() {
    assert!(replay_bytes("corpus/upload", tidegate_fuzz::upload) > 0);
}

#[test]
fn uploads_that_once_failed() {
    replay_bytes("regressions/upload", tidegate_fuzz::upload);
}
