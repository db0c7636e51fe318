//! The tests of the dialect: each statement also runs over a store with several segments and rows in memory, whole and with
//! workers that read its segments, and both give the same rows.

#[path = "../../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "shadow.rs"]
mod engine;
#[path = "gathered/mod.rs"]
mod split;
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;

/// What is compared must have run on workers. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_most_statements_run_on_workers() {
    split::wait_for("remote", 600);
    eprintln!("{}", split::counts());
    assert!(split::count("compared rows") > 600, "{}", split::counts());
}
