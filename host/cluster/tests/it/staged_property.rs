//! Random statements, over records and over rows cut into segments and memory, that run in stages on workers: the same
//! rows, in the same order where the statement has one, as an evaluator and as the same rows in one batch give.

#[path = "../../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "staged/mod.rs"]
mod engine;
#[path = "../../../sql/tests/property/excuse.rs"]
mod excuse;
#[path = "../../../sql/tests/property/tape.rs"]
mod tape;

/// What is compared must have exchanged rows, and few statements may do without that could. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn many_statements_exchange_rows() {
    engine::wait_for("exchanged", 50);
    eprintln!("{}", engine::counts());
    assert!(engine::count("not exchanged") * 10 < engine::count("exchanged"), "{}", engine::counts());
}
