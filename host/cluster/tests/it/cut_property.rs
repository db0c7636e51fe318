//! Random statements, over records and over rows cut into segments and memory, that are cut and run by workers: the same
//! rows, in the same order where the statement has one, as an evaluator and as the same rows in one batch give.

#[path = "../../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "cut/mod.rs"]
mod engine;
#[path = "../../../sql/tests/property/excuse.rs"]
mod excuse;
#[path = "../../../sql/tests/property/tape.rs"]
mod tape;

/// What is compared must have been cut. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn most_statements_are_cut() {
    engine::wait_for("cut", 100);
    eprintln!("{}", engine::counts());
    // Few statements have an order in one of their parts only, which the cut would lose: they stay whole.
    let (cut, order_lost) = (engine::count("cut"), engine::count("order_lost"));
    assert!(engine::count("leaves of several tasks") > 50 && order_lost * 5 < cut, "{}", engine::counts());
}
