//! Shipped queries give the same rows whether they are cut and run by workers or not.

#[expect(dead_code, reason = "shared with tests that wait for others")]
#[path = "cut/mod.rs"]
mod engine;
#[path = "shipped_in_parts.rs"]
mod shipped_in_parts;

#[test]
fn queries_give_the_same_rows_when_they_are_cut() {
    shipped_in_parts::compare(engine::engine);
    assert!(engine::count("cut") >= 40, "{}", engine::counts());
}
