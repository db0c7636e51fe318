//! Random statements, over records and over rows cut into segments and memory, whose segments workers read: the same
//! rows, in the same order where the statement has one, as an evaluator and as the same rows in one batch give.

#[path = "../../../sql/tests/property/cuts/mod.rs"]
mod cuts;
#[path = "gathered/mod.rs"]
mod engine;
#[path = "../../../sql/tests/property/excuse.rs"]
mod excuse;
#[path = "../../../sql/tests/property/tape.rs"]
mod tape;

/// What is compared must have run on workers. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn most_statements_run_on_workers() {
    engine::wait_for("remote", 100);
    eprintln!("{}", engine::counts());
    // Few statements have an order in one of their parts only, which would be lost: they stay whole.
    let (remote, order_lost) = (engine::count("remote"), engine::count("order_lost"));
    assert!(engine::count("leaves of several tasks") > 50 && order_lost * 5 < remote, "{}", engine::counts());
}
