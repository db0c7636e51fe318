use crate::support::World;
use serde_json::json;
#[test]
fn probe() {
    let world = World::new().source("t", &[
        json!({"id": "1", "timestamp": 1763633702000000_i64, "event_message": "{\"a\": {\"b\": [1, 2]}}", "n": 2, "s": "ab", "tags": ["x", "y"], "items": [{"k": "a", "v": 1}, {"k": "b", "v": 3}], "metadata": {"level": "info", "request": {"path": "/rest", "status": 200}}}),
        json!({"id": "2", "timestamp": 1763633702000001_i64, "event_message": "x", "n": null, "s": "cd", "tags": [], "items": [], "metadata": {"level": "error", "request": {"path": "/auth", "status": 500}}}),
    ]);
    for line in std::fs::read_to_string("/tmp/probe.sql").unwrap().lines().filter(|l| !l.is_empty()) {
        let out = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.granted("with t as (select * from t) select 1", line)
        })) {
            Ok(Ok(rows)) => rows.to_string(),
            Ok(Err(failure)) => format!("!! {:?} {failure}", failure.code),
            Err(_) => "PANIC".into(),
        };
        println!("{line}\n    {}", out.chars().take(300).collect::<String>());
    }
}
