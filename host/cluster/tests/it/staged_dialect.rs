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

/// What is compared must have exchanged rows, and few statements may do without that could. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn yet_many_statements_exchange_rows() {
    split::wait_for("exchanged", 100);
    eprintln!("{}", split::counts());
    assert!(split::count("not exchanged") * 4 < split::count("exchanged"), "{}", split::counts());
    assert!(split::count("compared rows") > 600, "{}", split::counts());
}
