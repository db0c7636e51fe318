//! The tests of the dialect: each statement also runs over a store with several segments and rows in memory, whole and cut,
//! and both give the same rows.

#[path = "../../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "shadow.rs"]
mod engine;
#[path = "cut/mod.rs"]
mod split;
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;

/// What is compared must have been cut. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_most_statements_are_cut() {
    split::wait_for("cut", 600);
    eprintln!("{}", split::counts());
    assert!(split::count("compared rows") > 600, "{}", split::counts());
}
