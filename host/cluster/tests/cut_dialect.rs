//! The tests of the dialect: each statement also runs over a store with several segments and rows in memory, whole and cut,
//! and both give the same rows.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

#[path = "../../sql/tests/dialect/correlated.rs"]
mod correlated;
#[path = "../../sql/tests/dialect/document.rs"]
mod document;
#[path = "../../sql/tests/dialect/endpoints.rs"]
mod endpoints;
#[path = "cut/dialect.rs"]
mod engine;
#[path = "../../sql/tests/dialect/functions.rs"]
mod functions;
#[path = "../../sql/tests/dialect/grants.rs"]
mod grants;
#[path = "../../sql/tests/dialect/limits.rs"]
mod limits;
#[path = "../../sql/tests/dialect/lineage.rs"]
mod lineage;
#[path = "../../sql/tests/dialect/names.rs"]
mod names;
#[path = "../../sql/tests/dialect/narrow.rs"]
mod narrow;
#[path = "../../sql/tests/dialect/operators.rs"]
mod operators;
#[path = "../../sql/tests/dialect/remarks.rs"]
mod remarks;
#[path = "../../sql/tests/dialect/shared_parts.rs"]
mod shared_parts;
#[path = "../../sql/tests/dialect/subqueries.rs"]
mod subqueries;
#[path = "../../sql/tests/dialect/support.rs"]
mod support;
#[path = "../../sql/tests/dialect/unite.rs"]
mod unite;
#[path = "../../sql/tests/dialect/unnest.rs"]
mod unnest;
#[path = "../../sql/tests/dialect/values.rs"]
mod values;
#[path = "../../sql/tests/dialect/windows.rs"]
mod windows;

/// What is compared must have been cut. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_most_statements_are_cut() {
    engine::counts::wait_for("cut", 600);
    eprintln!("{}", engine::counts::counts());
    assert!(engine::counts::count("compared rows") > 600, "{}", engine::counts::counts());
}
