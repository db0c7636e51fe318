//! The server killed with SIGKILL a hundred times under concurrent ingest: every acknowledged
//! event is there exactly once, and a request is there wholly or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PUBLIC, Server};

const ROUNDS: usize = 100;
const CLIENTS: usize = 4;
const BATCH: usize = 5;

#[test]
fn acknowledged_events_survive_a_hundred_kills_exactly_once() {
    let data = Data::new();
    let acknowledged: Mutex<BTreeSet<String>> = Mutex::default();
    for round in 0..ROUNDS {
        let server = Server::start_in(&data);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (server, acknowledged, stop) = (&server, &acknowledged, &stop);
                scope.spawn(move || {
                    for n in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let ids: Vec<String> = (0..BATCH).map(|i| format!("{round}.{client}.{n}.{i}")).collect();
                        let events: Vec<Value> =
                            ids.iter().map(|id| json!({"id": id, "project": "p1", "event_message": id})).collect();
                        let path = format!("/api/logs?source_name={EDGE}");
                        let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
                        let body = Value::Array(events).to_string();
                        match server.try_call("POST", &path, &headers, body.as_bytes()) {
                            Ok(answer) if answer.status == 200 => acknowledged.lock().unwrap().extend(ids),
                            // The server is gone: whether the batch is there is open.
                            _ => break,
                        }
                    }
                });
            }
            // Different moments of the server's life, the same in every run.
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 120));
            server.kill_now();
            stop.store(true, Ordering::Relaxed);
        });
    }
    let server = Server::start_in(&data);
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > ROUNDS * BATCH, "too little was acknowledged: {}", acknowledged.len());
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..ROUNDS {
        for client in 0..CLIENTS {
            let sql = format!("select id from edge_logs where starts_with(id, '{round}.{client}.')");
            let answer = server.sql(&sql);
            assert_eq!(answer.header("x-result-truncated"), None);
            for id in answer.ids() {
                *found.entry(id).or_default() += 1;
            }
        }
    }
    let lost: Vec<&String> = acknowledged.iter().filter(|id| !found.contains_key(*id)).collect();
    let doubled: Vec<&String> = found.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id).collect();
    assert!(lost.is_empty() && doubled.is_empty(), "lost {lost:?}, doubled {doubled:?}");
    let mut batches: BTreeMap<&str, usize> = BTreeMap::new();
    for id in found.keys() {
        *batches.entry(id.rsplit_once('.').unwrap().0).or_default() += 1;
    }
    let torn: Vec<_> = batches.iter().filter(|(_, count)| **count != BATCH).collect();
    assert!(torn.is_empty(), "requests stored in part: {torn:?}");
    let counted = server.sql("select count(*) as c, count(distinct id) as d from edge_logs");
    assert_eq!(counted.rows(), [json!({"c": found.len(), "d": found.len()})]);
    println!("{ROUNDS} kills: {} acknowledged, {} found", acknowledged.len(), found.len());
}
