//! The same answers on one process, on workers over its folder, and on workers over an object store: byte for byte where
//! the order of the rows is total, else the same rows, floats up to their last digits.

mod rows;
mod statements;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{PRIVATE, Server, binary, folder, now};

use crate::cluster::{LONG, worker, worker_over};
use crate::object_server::ObjectServer;
use rows::{column, rows, sort_column};
use statements::{Case, ENDPOINT, QUERY, corpus, records, table_rows};

#[path = "../../../host/cluster/tests/it/shipped/records.rs"]
mod logs;

/// Where copies of segments are in the object store.
const COPIES: &str = "s3://bucket/logs";

/// Parts of the logs that become segments; one more stays in memory.
const PARTS: usize = 4;
/// Requests at once.
const ASKERS: usize = 6;

/// An answer, and how much of it came from workers.
struct Given {
    status: u16,
    body: Vec<u8>,
    /// Whether there were more rows than an answer may have.
    is_cut: bool,
    tasks: u64,
}

/// A server over the folder, which has the logs already or gets them.
fn serve(folder: &TempDir, objects: &ObjectServer, workers: &[Server]) -> Server {
    let addresses = workers.iter().map(Server::address).collect::<Vec<_>>().join(", ");
    let mut command = Command::new(binary());
    command
        .args(["serve", "--pack", "log-viewer", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"));
    command.envs([
        ("TIDEGATE_STORAGE_URL", COPIES),
        ("TIDEGATE_CLUSTER_WORKERS", &addresses),
        ("TIDEGATE_CLUSTER_LEAST_BYTES", "0"),
        // Workers exchange whatever they can.
        ("TIDEGATE_CLUSTER_LEAST_EXCHANGED_ROWS", "0"),
        ("TIDEGATE_CACHE_MEMORY", "0"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h"),
        ("TIDEGATE_INGEST_FLUSH_ROWS", "2"),
        ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
    ]);
    command.envs(objects.settings());
    let server = Server::spawn(command, folder.path().join("data.log"), true);
    let began = Instant::now();
    while !workers.is_empty() {
        let ready = server.call("GET", "/ready", &[], b"").body;
        if ready["workers"].as_array().unwrap().iter().all(|worker| worker["used"] == true) {
            break;
        }
        assert!(began.elapsed() < LONG, "{ready}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server
}

/// Sends the logs in parts, each of which becomes segments; the last rows of each source, one a source, stay in memory.
fn fill(server: &Server) {
    let known = server.read("/api/sources");
    let is_known = |name: &str| known.as_array().unwrap().iter().any(|source| source["name"] == name);
    for source in ["corpus.records", "corpus.pairs", "corpus.lists"].into_iter().chain(logs::SOURCES) {
        if !is_known(source) {
            assert_eq!(server.manage("POST", "/api/sources", &json!({"name": source})).status, 201, "{source}");
        }
    }
    let query = json!({"name": ENDPOINT, "query": QUERY, "sandboxable": true, "max_limit": 10_000});
    let saved = server.manage("POST", "/api/endpoints", &query);
    let now = now();
    for (part, nested) in records(PARTS + 1).into_iter().enumerate() {
        let is_last = part == PARTS;
        let mut sent: Vec<(&str, Vec<Value>)> = vec![("corpus.records", nested)];
        for source in logs::SOURCES {
            // Some at a fixed time, and some of the last hour, for queries that count from now.
            let number = |n: usize| (n * (PARTS + 1) + part) as i64;
            let fixed = (0..12).map(|n| logs::record(number(n), source, logs::NOW));
            let mut events: Vec<Value> = fixed.collect();
            events.extend((0..8).map(|n| {
                let mut event = logs::record(number(n), source, now);
                // Far from the edges of windows of a quarter of an hour and of an hour.
                event["timestamp"] = json!(now - 120_000_000 - number(n) * 2_000_000);
                event["id"] = json!(format!("now-{source}-{}", number(n)));
                event
            }));
            sent.push((source, events));
        }
        if is_last {
            sent.extend(table_rows().map(|(source, rows)| (source, rows.as_array().unwrap().clone())));
        }
        for (source, mut events) in sent {
            if is_last {
                // So many become a segment at once, and one stays.
                let one = events.pop().unwrap();
                server.send(source, &Value::Array(events));
                flushed(server);
                server.send(source, &json!([one]));
            } else {
                server.send(source, &Value::Array(events));
            }
        }
        if !is_last {
            flushed(server);
        }
    }
    let saved = match saved.status {
        201 => saved,
        _ => server.manage("POST", "/api/endpoints", &query),
    };
    assert_eq!(saved.status, 201, "{}", saved.body);
}

fn flushed(server: &Server) {
    let began = Instant::now();
    // A source has less than two rows in memory.
    while server
        .manage("GET", "/api/sources", &Value::Null)
        .body
        .as_array()
        .unwrap()
        .iter()
        .any(|source| source["memory_rows"].as_u64() > Some(1))
    {
        assert!(began.elapsed() < LONG, "no segments come");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The answers of a server, in the order of the cases.
fn ask(server: &Server, cases: &[Case]) -> Vec<Given> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                while let Some((place, case)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, cases.get(place)?)))
                {
                    let raw = server.fetch("GET", &case.path, &[("x-api-key", PRIVATE)], b"");
                    let cost = raw.header("x-tidegate-cost").unwrap_or_default();
                    let tasks = cost.split("tasks=").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
                    let given = Given {
                        status: raw.status,
                        is_cut: raw.header("x-result-truncated").is_some(),
                        body: raw.body,
                        tasks: tasks.unwrap_or(0),
                    };
                    answers.lock().unwrap().insert(place, given);
                }
            });
        }
    });
    answers.into_inner().unwrap().into_values().collect()
}

/// What a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    /// The same bytes.
    Bytes,
    /// The same rows, and the same values in the column by which they are ordered.
    Rows,
    /// As many rows, with the same values in that column: which of several with the same one are above a limit is not
    /// determined.
    Limited,
    /// The same code of a failure.
    Failure,
}

/// Compares an answer with that of the server without workers.
fn compared(case: &Case, expected: &Given, got: &Given) -> Result<Same, String> {
    let shown = |given: &Given| {
        let text = String::from_utf8_lossy(&given.body);
        format!("{} {}", given.status, text.chars().take(1_500).collect::<String>())
    };
    let wrong =
        || Err(format!("{}\n  {}\n  expected {}\n  got      {}", case.text, case.path, shown(expected), shown(got)));
    if expected.status != got.status {
        return wrong();
    }
    if expected.status != 200 {
        // Which of several rows that fail is met first is not determined.
        let code = |given: &Given| serde_json::from_slice::<Value>(&given.body).unwrap()["error"]["code"].clone();
        return if code(expected) == code(got) { Ok(Same::Failure) } else { wrong() };
    }
    if expected.body == got.body {
        return Ok(Same::Bytes);
    }
    let (expected_rows, got_rows) = (rows(&expected.body), rows(&got.body));
    let keys = |given: &Given| sort_column(&case.text).map(|name| column(&given.body, &name));
    if case.is_ordered || expected_rows.len() != got_rows.len() || keys(expected) != keys(got) {
        return wrong();
    }
    let is_limited = expected.is_cut && got.is_cut || case.text.to_lowercase().contains("limit");
    match expected_rows == got_rows {
        true => Ok(Same::Rows),
        false if is_limited => Ok(Same::Limited),
        false => wrong(),
    }
}

#[test]
fn the_corpus_has_the_same_answers_on_workers() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let objects = ObjectServer::start();
    let cases = corpus();
    let alone = serve(&folder, &objects, &[]);
    fill(&alone);
    let expected = ask(&alone, &cases);
    let good = expected.iter().filter(|given| given.status == 200).count();
    let with_rows = expected.iter().filter(|given| given.status == 200 && !rows(&given.body).is_empty()).count();
    eprintln!("{} requests, {good} with an answer, {with_rows} of them with rows", cases.len());
    alone.kill_now();
    drop(alone);
    for over_store in [false, true] {
        let start = |number: usize| {
            let cache = folder.path().join(format!("cache-{number}"));
            let of_store = ["--listen", "127.0.0.1:0", "--cache-size", "256 MiB", "--cache", cache.to_str().unwrap()];
            match over_store {
                true => worker_over(&folder, COPIES, &of_store, &objects.settings()),
                false => worker(&folder, "127.0.0.1:0", &[]),
            }
        };
        let workers: Vec<Server> = (0..3).map(start).collect();
        let server = serve(&folder, &objects, &workers);
        let given = ask(&server, &cases);
        let mut found = BTreeMap::<Same, usize>::new();
        let mut wrong = Vec::new();
        for ((case, expected), got) in cases.iter().zip(&expected).zip(&given) {
            match compared(case, expected, got) {
                Ok(same) => *found.entry(same).or_default() += 1,
                Err(error) => wrong.push(error),
            }
        }
        let on_workers = given.iter().filter(|given| given.tasks > 0).count();
        eprintln!("over an object store: {over_store}; {found:?}, {on_workers} on workers");
        assert!(
            wrong.is_empty(),
            "{} are wrong, over an object store: {over_store}\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert!(on_workers * 2 > cases.len(), "only {on_workers} of {} ran on workers", cases.len());
        // They ran there, and none of them was given to another machine.
        let page = server.text("/metrics");
        for fault in ["gone", "busy", "nonsense", "damaged"] {
            let mark = format!("outcome=\"{fault}\"}}");
            let counts: Vec<&str> = page.lines().filter(|line| line.contains(&mark)).collect();
            assert!(counts.iter().all(|line| line.ends_with(" 0")), "{counts:?}");
        }
        if over_store {
            let fetched: f64 =
                workers.iter().map(|worker| worker.metric("tidegate_worker_store_fetched_bytes_total")).sum();
            assert!(fetched > 0.0);
        }
        server.kill_now();
    }
    assert!(with_rows > 200, "only {with_rows} of {} have rows", cases.len());
}
