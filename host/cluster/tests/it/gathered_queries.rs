//! Shipped queries give the same rows whether workers read their segments or not.

#[expect(dead_code, reason = "shared with tests that wait for others")]
#[path = "gathered/mod.rs"]
mod engine;
#[path = "shipped_in_parts.rs"]
mod shipped_in_parts;

#[test]
fn queries_give_the_same_rows_with_workers() {
    shipped_in_parts::compare(engine::engine);
    assert!(engine::count("remote") >= 40, "{}", engine::counts());
}
