//! The tests of the dialect: each statement also runs over a store with several segments and rows in memory, whole and in
//! stages, and both give the same rows.

#[path = "../../../sql/tests/dialect/cases.rs"]
mod cases;
#[path = "shadow.rs"]
mod engine;
#[path = "staged/mod.rs"]
mod split;
#[path = "../../../sql/tests/dialect/support.rs"]
mod support;

/// What is compared must have run in stages, and few statements may stay whole that could run so. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_most_statements_run_in_stages() {
    split::wait_for("two stages", 150);
    eprintln!("{}", split::counts());
    let staged = split::count("two stages") + split::count("more stages");
    assert!(split::count("refused") * 10 < staged, "{}", split::counts());
    assert!(split::count("compared rows") > 600, "{}", split::counts());
}
