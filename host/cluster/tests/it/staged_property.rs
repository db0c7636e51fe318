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

/// What is compared must have run in stages, and few statements may stay whole that could run so. Its name is the last one: with one thread it runs after the other tests.
#[test]
fn most_statements_run_in_stages() {
    engine::wait_for("two stages", 100);
    engine::wait_for("more stages", 50);
    eprintln!("{}", engine::counts());
    let staged = engine::count("two stages") + engine::count("more stages");
    assert!(engine::count("refused") * 20 < staged, "{}", engine::counts());
}
