//! Large calls, of which columns are made before they are committed, are stored like all others.

use serde_json::{Value, json};

use super::{again, all, manual, open};
use crate::{Intake, Store};

const BYTES: usize = 1 << 20;

fn event(id: &str, status: &Value) -> Value {
    json!({"id": id, "timestamp": 1_700_000_000_000_000_i64, "project": "p", "metadata": {"status": status}})
}

fn intake(store: &Store, events: &[(&str, Value)]) -> Intake {
    let mut intake = store.intake_of("s", 0, BYTES, tidegate_model::Audience::All);
    events.iter().for_each(|(id, status)| assert!(intake.add(event(id, status))));
    intake
}

/// The same rows come out whether or not the columns that were made could be used, from memory, after a restart and from a
/// segment.
#[tokio::test]
async fn a_large_call_is_stored_like_any_other() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, plain) = (open(&dir), open(&other));
    for store in [&store, &plain] {
        store.create_source("s").unwrap();
        store.create_source("t").unwrap();
    }
    store.ingest("s", vec![event("0", &json!(200))]).await.unwrap();
    // They were begun with the same schema; it changes with the second one.
    let same = intake(&store, &[("a", json!(200)), ("b", json!(404))]);
    let text = intake(&store, &[("c", json!(200)), ("d", json!("good"))]);
    let late = intake(&store, &[("e", json!(500)), ("f", json!(0.5))]);
    // Its columns are of another source.
    let elsewhere = intake(&store, &[("g", json!(200))]);
    let mut taken_back = intake(&store, &[("h", json!(200))]);
    let mark = taken_back.mark();
    taken_back.add(event("i", &json!(200)));
    taken_back.take_back(mark);
    taken_back.add(event("j", &json!(201)));
    for intake in [same, text, late, taken_back] {
        store.ingest_intake("s", intake).await.unwrap();
    }
    store.ingest_intake("t", elsewhere).await.unwrap();

    let (s, t) = (["0", "a", "b", "c", "d", "e", "f", "h", "j"], ["g"]);
    let status = |id: &str| match id {
        "b" => json!(404),
        "d" => json!("good"),
        "e" => json!(500),
        "f" => json!(0.5),
        "j" => json!(201),
        _ => json!(200),
    };
    for (source, ids) in [("s", &s[..]), ("t", &t[..])] {
        for id in ids {
            plain.ingest(source, vec![event(id, &status(id))]).await.unwrap();
        }
    }
    let expected = [all(&plain, "s").await, all(&plain, "t").await];
    assert_eq!([expected[0].len(), expected[1].len()], [s.len(), t.len()]);
    assert_eq!([all(&store, "s").await, all(&store, "t").await], expected);
    let store = again(store, dir.path(), manual());
    assert_eq!([all(&store, "s").await, all(&store, "t").await], expected);
    store.flush().await.unwrap();
    assert_eq!([all(&store, "s").await, all(&store, "t").await], expected);
}
