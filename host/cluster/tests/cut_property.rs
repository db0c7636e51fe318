//! Random statements, over records and over rows cut into segments and memory, that are cut and run by workers: the same
//! rows, in the same order where the statement has one, as an evaluator and as the same rows in one batch give.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

#[path = "../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "cut/mod.rs"]
mod engine;
#[path = "../../sql/tests/property/tape.rs"]
mod tape;

/// What is compared must have been cut. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn most_statements_are_cut() {
    engine::wait_for("cut", 100);
    eprintln!("{}", engine::counts());
    assert!(engine::count("leaves of several tasks") > 50 && engine::count("order_lost") == 0, "{}", engine::counts());
}
