//! Workers over an object store that fails: what they cannot read in time is read elsewhere, and the answer is right.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{Answer, Chance, EDGE, Server, folder, now, until};

use crate::cluster::{LONG, fill, idle, serve_over, worker_over};
use crate::object_server::{Fault, ObjectServer};

/// Each segment goes to one of two workers by its name, which is random: with so many, one worker has none of them in one
/// run of thirty thousand.
const PARTS: usize = 16;
const ROWS: usize = 100;
/// Far more than any of these statements may take.
const REQUEST_TIME: &str = "30 min";
/// A store that hangs.
const FOR_EVER: Fault = Fault::Slow(Duration::from_secs(3600));

const STATEMENTS: [&str; 3] = [
    "select id, event_message from edge_logs where event_message like '%/path/3%' order by timestamp desc limit 100",
    "select r.status_code as status, count(*) as c from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.response) as r group by status order by status",
    "select count(*) as c from edge_logs where regexp_contains(event_message, 'n=1[0-9]3$')",
];

/// A folder with segments, the answers of a server without workers, and their copies in stores.
struct Stage {
    folder: TempDir,
    expected: Vec<Value>,
}

fn serve(folder: &TempDir, workers: &[Server], settings: &[(&str, &str)]) -> Server {
    let rows = ROWS.to_string();
    let own = [
        ("TIDEGATE_INGEST_FLUSH_ROWS", rows.as_str()),
        ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
        ("TIDEGATE_LIMITS_REQUEST_TIME", REQUEST_TIME),
    ];
    serve_over(folder, workers, &[&own, settings].concat())
}

/// A worker over a store, with a cache that has nothing.
fn cold_worker(folder: &TempDir, objects: &ObjectServer, store_time: &str) -> Server {
    let cache = folder.path().join(format!("cache-{}", std::fs::read_dir(folder.path()).unwrap().count()));
    let arguments = ["--listen", "127.0.0.1:0", "--store-time", store_time, "--cache", cache.to_str().unwrap()];
    worker_over(folder, "s3://bucket/logs", &arguments, &objects.settings())
}

impl Stage {
    fn start() -> Self {
        let folder = folder();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let alone = serve(&folder, &[], &[]);
        fill(&alone, PARTS, ROWS, true);
        let expected = STATEMENTS.iter().map(|sql| result(&alone.sql(sql))).collect();
        alone.kill_now();
        drop(alone);
        Self { folder, expected }
    }

    fn store(&self) -> ObjectServer {
        let objects = ObjectServer::start();
        objects.put_segments(&self.folder.path().join("data"), "logs/");
        objects
    }

    /// Asks everything: the answers are right, and come long before the time of a request. How many tasks there were, and
    /// how often one of them went elsewhere.
    fn ask(&self, server: &Server) -> (u64, u64) {
        let (mut tasks, mut moves) = (0, 0);
        for (sql, expected) in STATEMENTS.iter().zip(&self.expected) {
            let began = Instant::now();
            let answer = server.sql(sql);
            assert_eq!(result(&answer), *expected, "{sql}");
            assert!(began.elapsed() < LONG, "{sql}: {:?}", began.elapsed());
            let cost = answer.header("x-tidegate-cost").unwrap();
            // Without tasks, nothing is said of them.
            let of =
                |name: &str| cost.split(", ").find_map(|one| one.strip_prefix(name)?.parse().ok()).unwrap_or(0_u64);
            (tasks, moves) = (tasks + of("tasks="), moves + of("moves="));
        }
        (tasks, moves)
    }
}

fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(!answer.rows().is_empty());
    answer.body["result"].clone()
}

fn sum(workers: &[Server], name: &str) -> f64 {
    workers.iter().map(|worker| worker.metric(name)).sum()
}

#[test]
fn what_workers_cannot_read_in_time_is_read_by_the_server() {
    let stage = Stage::start();
    for fault in [FOR_EVER, Fault::Status(503), Fault::Cut, Fault::Close] {
        let objects = stage.store();
        objects.faults(move |_| Some(fault));
        let workers: Vec<_> = (0..2).map(|_| cold_worker(&stage.folder, &objects, "1 s")).collect();
        let server = serve(&stage.folder, &workers, &[]);
        let (tasks, moves) = stage.ask(&server);
        // Without one worker, if the other one has not failed yet, and then on the server.
        assert!(tasks >= 3 && (3..=6).contains(&moves), "{fault:?}: {tasks} tasks, {moves} moves");
        assert!(sum(&workers, "tidegate_worker_store_failed_requests_total") >= 2.0, "{fault:?}");
        // What failed a while ago is not failing any more.
        assert!(sum(&workers, "tidegate_worker_store_failing") >= 1.0, "{fault:?}");
        assert!(server.text("/metrics").contains("outcome=\"gone\""), "{fault:?}");

        // It is back: so are the workers.
        objects.faults(|_| None);
        until(&format!("the store is well after {fault:?}"), || {
            stage.ask(&server).1 == 0 && sum(&workers, "tidegate_worker_store_failing") == 0.0
        });
        idle(&workers, LONG);
        server.kill_now();
    }
}

#[test]
fn what_one_worker_cannot_read_is_read_by_another() {
    let stage = Stage::start();
    let (good, bad) = (stage.store(), stage.store());
    bad.faults(|_| Some(FOR_EVER));
    let workers = [cold_worker(&stage.folder, &good, "10 s"), cold_worker(&stage.folder, &bad, "500 ms")];
    let server = serve(&stage.folder, &workers, &[]);
    let (tasks, moves) = stage.ask(&server);
    // Each statement ran again without it.
    assert!(moves > 0 && moves < tasks, "{tasks} tasks, {moves} moves");
    assert_eq!(workers[0].metric("tidegate_worker_store_failed_requests_total"), 0.0);
    let gone = server.private_metrics();
    let gone = gone.lines().filter(|line| line.contains("outcome=\"gone\"") && !line.ends_with(" 0"));
    assert!(gone.map(|line| line.contains(workers[1].address())).eq([true]), "{}", server.text("/metrics"));
    // Not every statement waited for it.
    assert!(workers[1].metric("tidegate_worker_store_refused_requests_total") > 0.0);
}

/// What is damaged is damaged for all workers: it is named, counted, not held against them, and read from the server's own folder.
#[test]
fn a_damaged_copy_is_named_and_the_good_one_read() {
    let stage = Stage::start();
    for is_missing in [false, true] {
        let objects = stage.store();
        let (name, mut bytes) = {
            let all = objects.objects();
            let (name, bytes) = all.iter().next().unwrap();
            (name.clone(), bytes.to_vec())
        };
        bytes[100] ^= 1;
        if is_missing {
            objects.remove(&name)
        } else {
            objects.put(&name, bytes)
        }
        let workers: Vec<_> = (0..2).map(|_| cold_worker(&stage.folder, &objects, "10 s")).collect();
        let server = serve(&stage.folder, &workers, &[]);
        // One task meets it, and the statement runs on the server at once. If some of its rows were used already, it says what is
        // damaged and that it may be asked again.
        for (sql, expected) in STATEMENTS.iter().zip(&stage.expected) {
            let first = server.sql(sql);
            if first.status != 200 {
                first.refused(503, "data_unavailable", &["damaged copies", "segments/", "try again"]);
                continue;
            }
            assert_eq!(result(&first), *expected, "{sql}");
        }
        // From then on no worker is given a statement that needs it.
        assert_eq!(stage.ask(&server), (0, 0));
        let page = server.text("/metrics");
        assert!(page.contains("tidegate_cluster_tasks_total{outcome=\"damaged\"} 1"), "{page}");
        assert!(page.contains("tidegate_cluster_tasks_total{outcome=\"gone\"} 0"), "{page}");
        assert_eq!(sum(&workers, "tidegate_worker_store_damaged_total"), 1.0);
        // By the name that it has in the store, there and here.
        let short = name.strip_prefix("logs/").unwrap();
        assert!(workers.iter().any(|worker| worker.log().contains(short)), "{}", workers[0].log());
        assert!(server.log().contains(short), "{}", server.log());
        server.kill_now();
    }
}

/// Nobody has a good one: the answer says what is damaged, and not that a worker is gone.
#[test]
fn what_is_damaged_everywhere_is_told_as_damaged() {
    let stage = Stage::start();
    let objects = stage.store();
    for (name, mut bytes) in objects.objects().iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())) {
        bytes[100] ^= 1;
        std::fs::write(stage.folder.path().join("data").join(name.strip_prefix("logs/").unwrap()), &bytes).unwrap();
        objects.put(&name, bytes);
    }
    let workers: Vec<_> = (0..2).map(|_| cold_worker(&stage.folder, &objects, "10 s")).collect();
    let server = serve(&stage.folder, &workers, &[]);
    for sql in STATEMENTS {
        let began = Instant::now();
        loop {
            // Of each segment, a worker says it once.
            let answer = server.sql(sql);
            if answer.status != 503 {
                answer.refused(500, "data_damaged", &["segment", "tidegate verify"]);
                break;
            }
            answer.refused(503, "data_unavailable", &["damaged copies", "try again"]);
            assert!(began.elapsed() < LONG, "{}", answer.body);
        }
    }
    assert!(server.text("/metrics").contains("tidegate_cluster_tasks_total{outcome=\"gone\"} 0"));
}

/// What fits into the memory of a statement without workers does so with them, though a block does not.
#[test]
fn a_statement_that_may_not_hold_a_block_is_read_by_the_server() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let settings = [("TIDEGATE_LIMITS_STATEMENT_MEMORY", "1 MiB"), ("TIDEGATE_INGEST_FLUSH_ROWS", "50")];
    let alone = serve(&folder, &[], &settings);
    let mut chance = Chance::new(11);
    for part in 0..2 {
        // Four megabytes that do not become small, beside columns that are.
        let mut event = |n: usize| {
            let words = (0..80 << 6).map(|_| format!("{:016x}", chance.number()));
            let (id, text) = (format!("{part}-{n}"), words.collect::<String>());
            json!({"id": id, "timestamp": now() - 1_000_000, "project": "p1", "n": n, "event_message": text})
        };
        alone.send(EDGE, &Value::Array((0..50).map(&mut event).collect()));
        alone.until_segments(usize::try_from(part).unwrap() + 1);
    }
    let sql = "select count(*) as c, max(id) as i from edge_logs where id <> '0-7'";
    let expected = result(&alone.sql(sql));
    alone.kill_now();
    drop(alone);
    let objects = ObjectServer::start();
    objects.put_segments(&folder.path().join("data"), "logs/");
    let workers = [cold_worker(&folder, &objects, "10 s")];
    let server = serve(&folder, &workers, &settings);
    let answer = server.sql(sql);
    assert_eq!(result(&answer), expected);
    assert!(answer.header("x-tidegate-cost").unwrap().contains("moves=1"), "{:?}", answer.headers);
    idle(&workers, LONG);
    // With more memory the worker reads it.
    server.kill_now();
    drop(server);
    let server = serve(&folder, &workers, &[]);
    let answer = server.sql(sql);
    assert_eq!(result(&answer), expected);
    assert!(answer.header("x-tidegate-cost").unwrap().contains("moves=0"), "{:?}", answer.headers);
}
