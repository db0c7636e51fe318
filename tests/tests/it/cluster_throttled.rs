//! How workers over a slow object store share a scan, for `docs/contributing/measurements/cluster.md`. Each worker has a line of its own
//! to the store. Nothing is asserted of the times; they are of use with a release build only:
//!
//! `TIDEGATE_BIN=target/release/tidegate cargo test -p tidegate-tests --test it cluster_throttled -- --ignored --nocapture`

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{Chance, EDGE, Server, folder, iso, now};

use crate::cluster::{serve_over, worker_over};
use crate::object_server::ObjectServer;

/// Segments of each scan. No two of them read the same.
const SCANS: [usize; 3] = [4, 16, 64];
const ROWS: usize = 4_000;
/// Time between two events, in microseconds.
const STEP: i64 = 1_000;
/// Before an answer of the store, and bytes a second of a worker's line.
const WAIT: Duration = Duration::from_millis(30);
const RATE: f64 = 50e6;
const ROUNDS: usize = 5;

/// A server whose own segments are local files. They are full, so that they stay as they are.
fn serve(folder: &TempDir, workers: &[Server]) -> Server {
    let rows = ROWS.to_string();
    let settings = [("TIDEGATE_INGEST_FLUSH_ROWS", rows.as_str()), ("TIDEGATE_COMPACTION_ROWS", &rows)];
    serve_over(folder, workers, &settings)
}

/// Sends events with a long text that does not compress, a segment at a time. The time of the first.
fn fill(server: &Server) -> i64 {
    let start = now() - 3_600_000_000;
    let mut chance = Chance::new(7);
    for segment in 0..SCANS.iter().sum() {
        let event = |row: usize| {
            let number = segment * ROWS + row;
            let text: String = (0..40).map(|_| format!("{:08x}", chance.number() as u32)).collect();
            json!({"id": format!("{number:08}"), "project": "p1", "timestamp": iso(start + number as i64 * STEP), "event_message": text})
        };
        server.send(EDGE, &Value::Array((0..ROWS).map(event).collect()));
        server.until_segments(segment + 1);
    }
    start
}

/// For each scan its segments and its statement, which reads all of their texts.
fn statements(start: i64) -> Vec<(usize, String)> {
    let mut first = 0;
    let statement = |segments: usize| {
        let at = |segment: usize| iso(start + (segment * ROWS) as i64 * STEP);
        let (from, to) = (at(first), at(first + segments));
        first += segments;
        let sql = format!(
            "select sum(length(replace(event_message, 'ab', ''))) as n from edge_logs \
             where timestamp >= '{from}' and timestamp < '{to}'"
        );
        (segments, sql)
    };
    SCANS.into_iter().map(statement).collect()
}

fn ask(server: &Server, sql: &str) -> (f64, Value) {
    let began = Instant::now();
    let answer = server.sql(sql);
    let time = began.elapsed().as_secs_f64() * 1_000.0;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.rows()[0]["n"].as_u64() > Some(1 << 20), "{}", answer.body);
    (time, answer.body["result"].clone())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn scans_over_a_slow_store() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let alone = serve(&folder, &[]);
    let start = fill(&alone);
    let statements = statements(start);
    let local: Vec<Value> = statements
        .iter()
        .map(|(segments, sql)| {
            let mut times: Vec<f64> = (0..ROUNDS).map(|_| ask(&alone, sql).0).collect();
            eprintln!("{segments} segments, local files from the page cache: {:.0} ms", median(&mut times));
            ask(&alone, sql).1
        })
        .collect();
    alone.stop("-TERM");
    let objects = ObjectServer::start();
    objects.put_segments(&folder.path().join("data"), "logs/");
    let stored: usize = objects.objects().values().map(bytes::Bytes::len).sum();
    eprintln!("{stored} bytes in {} segments", SCANS.iter().sum::<usize>());
    for count in [1, 4, 16, 64] {
        // What was read, cold and asked again, of each size.
        let mut times = vec![(Vec::new(), Vec::new(), 0); SCANS.len()];
        for round in 0..ROUNDS {
            let lines: Vec<ObjectServer> = (0..count).map(|_| objects.again()).collect();
            lines.iter().for_each(|line| line.throttle(WAIT, RATE));
            let workers: Vec<Server> = lines
                .iter()
                .enumerate()
                .map(|(number, line)| {
                    let cache = folder.path().join(format!("cache-{count}-{round}-{number}"));
                    let arguments = ["--listen", "127.0.0.1:0", "--cache", cache.to_str().unwrap()];
                    worker_over(&folder, "s3://bucket/logs", &arguments, &line.settings())
                })
                .collect();
            let server = serve(&folder, &workers);
            for (((_, sql), expected), (cold, warm, requests)) in statements.iter().zip(&local).zip(&mut times) {
                let before: usize = lines.iter().map(ObjectServer::requests).sum();
                let (time, result) = ask(&server, sql);
                assert_eq!(result, *expected, "{}", server.log());
                cold.push(time);
                *requests = lines.iter().map(ObjectServer::requests).sum::<usize>() - before;
                warm.push(ask(&server, sql).0);
            }
            server.stop("-TERM");
            for worker in workers {
                worker.stop("-TERM");
            }
        }
        for (segments, (cold, warm, requests)) in SCANS.iter().zip(&mut times) {
            let (cold, warm) = (median(cold), median(warm));
            eprintln!(
                "{count} workers, {segments} segments: cold {cold:.0} ms ({requests} requests), warm {warm:.0} ms"
            );
        }
    }
}
