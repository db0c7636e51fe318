//! Shipped queries give the same rows whether they are run in stages on workers or not.

#[expect(dead_code, reason = "shared with tests that wait for others")]
#[path = "staged/mod.rs"]
mod engine;
#[path = "shipped_in_parts.rs"]
mod shipped_in_parts;

#[test]
fn queries_give_the_same_rows_in_stages() {
    shipped_in_parts::compare(engine::engine);
    let (exchanged, remote) = (engine::count("exchanged"), engine::count("remote"));
    assert!(engine::count("not exchanged") == 0 && exchanged > 0 && exchanged + remote >= 20, "{}", engine::counts());
}
