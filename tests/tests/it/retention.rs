//! A clock that jumps: it is told, nothing is dropped by it, and the operator says what it was.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, binary, folder, now, request, serve, until};

const YEAR: i64 = 365 * 24 * 3_600 * 1_000_000;

fn start(folder: &Path, log: &str) -> Server {
    let mut command = serve(folder.join("data"));
    command.envs([("TIDEGATE_INGEST_FLUSH_ROWS", "10"), ("TIDEGATE_INGEST_FLUSH_INTERVAL", "100ms")]);
    Server::spawn(command, folder.join(log), true)
}

fn send(server: &Server, from: usize) {
    let event = |number: usize| request(&format!("{number:04}"), now(), "/items");
    server.send(EDGE, &Value::Array((from..from + 20).map(event).collect()));
    server.until_flushed();
}

fn count(server: &Server) -> Value {
    server.sql("SELECT COUNT(*) AS c FROM edge_logs").rows()[0]["c"].clone()
}

/// Makes all that the data folder knows of time a year older, which is what a clock looks like that has jumped since.
fn jump(folder: &Path) {
    let catalog = rusqlite::Connection::open(folder.join("data/catalog.sqlite")).unwrap();
    let sql = "UPDATE meta SET value = json_object('age', json_extract(value, '$.age') - ?1, 'wall', json_extract(value, '$.wall') - ?1)
               WHERE key = 'age_clock'";
    assert_eq!(catalog.execute(sql, [YEAR]).unwrap(), 1);
    assert!(catalog.execute("UPDATE segments SET created_at = created_at - ?1", [YEAR]).unwrap() > 0);
}

fn retention(folder: &Path, word: &[&str]) -> String {
    let mut command = Command::new(binary());
    let done = command.args(["retention", "--data-dir"]).arg(folder.join("data")).args(word).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn warnings(server: &Server) -> Vec<String> {
    let ready = server.call("GET", "/ready", &[], b"").is(200);
    let warnings = ready.body["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["what"].as_str().unwrap().to_owned()).collect()
}

/// Until the server has said this, and has looked at all logs after it.
fn retained(server: &Server, words: &str) {
    server.until_logged(words);
    // The same thread writes segments.
    send(server, 1_000);
}

#[test]
fn a_clock_that_has_jumped_drops_nothing_and_is_told() {
    let folder = folder();
    let server = start(folder.path(), "first");
    send(&server, 0);
    assert_eq!((warnings(&server), server.metric("tidegate_store_clock_ahead_seconds")), (vec![], 0.0));
    assert_eq!(server.stop("-TERM"), Some(0));
    assert!(retention(folder.path(), &[]).contains("waits for nothing"));
    jump(folder.path());
    assert!(retention(folder.path(), &[]).contains("--time-has-passed"));

    let server = start(folder.path(), "second");
    retained(&server, "the clock is ahead of what is plausible");
    assert_eq!((count(&server), warnings(&server)), (json!(40), vec!["clock".to_owned()]));
    assert!(server.metric("tidegate_store_clock_ahead_seconds") > 360.0 * 24.0 * 3600.0);
    // Beside the server, which takes it at its next run or start.
    assert!(retention(folder.path(), &["--clock-is-right"]).contains("takes this word"));
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start(folder.path(), "third");
    retained(&server, "the operator says that the clock is right");
    assert_eq!((count(&server), warnings(&server)), (json!(60), vec![]));
    assert_eq!(server.stop("-TERM"), Some(0));

    // A year that has really passed.
    jump(folder.path());
    retention(folder.path(), &["--time-has-passed", "--drop-at-once"]);
    let server = start(folder.path(), "fourth");
    until("the events are dropped", || server.metric("tidegate_store_events_dropped_total") == 60.0);
    assert_eq!((count(&server), warnings(&server)), (json!(0), vec![]));
}
