//! The tests of the dialect: each statement also runs over a store with several segments and rows in memory, whole and cut,
//! and both give the same rows.

#[path = "../../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "cut/dialect.rs"]
mod engine;
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;

/// What is compared must have been cut. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_most_statements_are_cut() {
    engine::counts::wait_for("cut", 600);
    eprintln!("{}", engine::counts::counts());
    assert!(engine::counts::count("compared rows") > 600, "{}", engine::counts::counts());
}
