//! Shipped queries give the same rows whether they are run in stages on workers or not.

#[expect(dead_code, reason = "shared with tests that wait for others")]
#[path = "staged/mod.rs"]
mod engine;
#[path = "shipped_in_parts.rs"]
mod shipped_in_parts;

#[test]
fn queries_give_the_same_rows_in_stages() {
    shipped_in_parts::compare(engine::engine);
    assert!(engine::count("refused") == 0 && engine::count("two stages") >= 20, "{}", engine::counts());
}
