//! A server with workers: the same answers as without, also while workers come and go, and nothing is left behind.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{
    Answer, EDGE, PRIVATE, PUBLIC, Server, binary, folder, iso, lasting_port, now, query_string, serve, until,
    until_within,
};

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A server, its workers, and a server without workers that was sent the same.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) workers: Vec<Server>,
    folder: TempDir,
}

/// A worker over the data folder of a cluster.
pub(crate) fn worker(folder: &TempDir, listen: &str, arguments: &[&str]) -> Server {
    let data = folder.path().join("data");
    worker_over(folder, data.to_str().unwrap(), &[&["--listen", listen], arguments].concat(), &[])
}

/// A worker over the segments at a folder or an address; its log is in the folder.
pub(crate) fn worker_over(
    folder: &TempDir,
    store: &str,
    arguments: &[&str],
    environment: &[(String, String)],
) -> Server {
    let mut command = Command::new(binary());
    command.args(["worker", "--store", store]).args(arguments).envs(environment.iter().cloned());
    let log = folder.path().join(format!("worker-{}.log", std::fs::read_dir(folder.path()).unwrap().count()));
    Server::spawn(command, log, false)
}

/// A server over the data folder of a test, which keeps no answers, flushes only by size, and uses all of these workers.
pub(crate) fn serve_over(folder: &TempDir, workers: &[Server], settings: &[(&str, &str)]) -> Server {
    let mut command = serve(folder.path().join("data"));
    command.envs([
        ("TIDEGATE_CLUSTER_WORKERS", workers.iter().map(Server::address).collect::<Vec<_>>().join(",").as_str()),
        ("TIDEGATE_CLUSTER_LEAST_BYTES", "0"),
        ("TIDEGATE_CACHE_MEMORY", "0"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h"),
    ]);
    command.envs(settings.iter().copied());
    let server = Server::spawn(command, folder.path().join("data.log"), true);
    let all_are_used = || {
        let ready = server.call("GET", "/ready", &[], b"").body;
        ready["workers"].as_array().is_none_or(|workers| workers.iter().all(|worker| worker["used"] == true))
    };
    until("all workers are used", all_are_used);
    server
}

impl Cluster {
    pub(crate) fn start(workers: usize, settings: &[(&str, &str)]) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        // The folder is named by its path, and by its address.
        let names = [data.to_str().unwrap().to_owned(), format!("file://{}", data.display())];
        let workers: Vec<Server> = (0..workers)
            .map(|number| {
                worker_over(&folder, &names[number % 2], &["--listen", &format!("127.0.0.1:{}", lasting_port())], &[])
            })
            .collect();
        let addresses = workers.iter().map(Server::address).collect::<Vec<_>>().join(", ");
        let mut command = serve(&data);
        command.env("TIDEGATE_CLUSTER_WORKERS", &addresses).env("TIDEGATE_CLUSTER_LEAST_BYTES", "0");
        command.env("TIDEGATE_CACHE_MEMORY", "0").env("TIDEGATE_INGEST_FLUSH_ROWS", "400");
        command.envs(settings.iter().copied());
        let server = Server::spawn(command, folder.path().join("data.log"), true);
        let cluster = Self { server, workers, folder };
        if !cluster.workers.is_empty() {
            cluster.used(cluster.workers.len());
        }
        cluster
    }

    /// Waits until so many workers are used.
    pub(crate) fn used(&self, count: usize) {
        until_within(Duration::from_secs(30), &format!("{count} workers are used"), || {
            // Workers never make a server unready.
            let ready = self.server.call("GET", "/ready", &[], b"").is(200);
            let workers = ready.body["workers"].as_array().unwrap();
            workers.iter().filter(|worker| worker["used"] == true).count() == count
        });
    }

    /// How many tasks ended so.
    pub(crate) fn tasks(&self, outcome: &str) -> f64 {
        let page = self.server.text("/metrics");
        let mark = format!("outcome=\"{outcome}\"}} ");
        let lines = page.lines().filter(|line| line.starts_with("tidegate_cluster_tasks_total{"));
        lines.filter_map(|line| line.split(&mark).nth(1)?.parse::<f64>().ok()).sum()
    }

    /// Sends events in parts, each of which becomes a segment, and some that are still in memory.
    pub(crate) fn fill(&self) {
        fill(&self.server, PARTS, ROWS, true);
    }

    /// Waits until the workers have no task and no memory.
    fn idle(&self, within: Duration) {
        idle(&self.workers, within);
    }
}

/// Waits until workers have no task and no memory: one lets go of a part after its last row is on its way.
pub(crate) fn idle(workers: &[Server], within: Duration) {
    let began = Instant::now();
    loop {
        let held: Vec<_> = workers
            .iter()
            .map(|worker| (worker.metric("tidegate_worker_tasks"), worker.metric("tidegate_worker_memory_bytes")))
            .collect();
        if held.iter().all(|held| *held == (0.0, 0.0)) {
            return;
        }
        assert!(began.elapsed() < within, "tasks and bytes: {held:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PARTS: usize = 5;
const ROWS: usize = 400;
const PRODUCTS: [&str; 4] = ["rest", "storage", "auth", "realtime"];

/// Sends parts of so many events, half a second after each other, and half a part more. `flushed`: each part becomes a
/// segment before the next one is sent, and the last half stays in memory; the server must
/// have `rows` as its `flush_rows`.
pub(crate) fn fill(server: &Server, parts: usize, rows: usize, flushed: bool) {
    // All of them are over, so that a window up to now has the same ones later.
    let start = now() - 3_600_000_000 - ((parts + 1) * rows) as i64 * 500_000;
    for part in 0..=parts {
        let event = |n: usize| {
            let number = part * rows + n;
            let time = start / 3_600_000_000 * 3_600_000_000 + number as i64 * 500_000;
            json!({
                "id": format!("{number:08}"), "timestamp": iso(time), "project": if n.is_multiple_of(5) { "p2" } else { "p1" },
                "event_message": format!("GET | {} | /path/{}?n={number}", 200 + number % 4 * 100, number % 7),
                "metadata": {"request": {"method": "GET", "path": format!("/{}/v1/{}", PRODUCTS[number % 4], number % 7),
                                         "url": format!("https://p1.example.test/{number}")},
                             "response": {"status_code": 200 + number % 4 * 100, "origin_time": number % 50}},
            })
        };
        let sent = if part == parts { rows / 2 } else { rows };
        server.send(EDGE, &Value::Array((0..sent).map(event).collect()));
        if !flushed || part == parts {
            continue;
        }
        server.until_segments(part + 1);
    }
}

/// Statements whose rows have one order.
const STATEMENTS: [&str; 9] = [
    "select id, timestamp, event_message from edge_logs order by timestamp desc limit 100",
    "select count(*) as c from edge_logs",
    "select r.status_code as status, count(*) as c, avg(r.origin_time) as t from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.response) as r group by status order by status",
    "select q.path as path, count(*) as c from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.request) as q where event_message like '%300%' group by path order by c desc, path limit 5",
    "select a.id, b.id as other from edge_logs as a join edge_logs as b on a.id = b.id where a.event_message like '%/path/3%' order by a.id limit 50",
    "select id from edge_logs where regexp_contains(event_message, 'n=1[0-9]3$') order by id",
    "select timestamp_trunc(timestamp, minute) as at, count(*) as c from edge_logs group by at order by at",
    "select distinct substr(event_message, 1, 9) as s from edge_logs order by s",
    "select id, row_number() over (order by timestamp) as n from edge_logs order by timestamp limit 20",
];

fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["result"].clone()
}

#[test]
fn a_server_with_workers_answers_as_one_without() {
    let cluster = Cluster::start(3, &[]);
    cluster.fill();
    let alone = Server::start();
    fill(&alone, PARTS, ROWS, false);
    for sql in STATEMENTS {
        let before = cluster.tasks("done") + cluster.tasks("left");
        let (got, expected) = (cluster.server.sql(sql), alone.sql(sql));
        assert_eq!(result(&got), result(&expected), "{sql}");
        assert!(!got.rows().is_empty(), "{sql}");
        assert!(cluster.tasks("done") + cluster.tasks("left") > before, "it did not go to workers: {sql}");
    }
    // Endpoints that are shipped.
    for (endpoint, parameters) in
        [("logs.all", vec![("project", "p1")]), ("usage.api-counts", vec![("project", "p1"), ("interval", "1hr")])]
    {
        let (got, expected) = (cluster.server.query(endpoint, &parameters), alone.query(endpoint, &parameters));
        assert_eq!((got.status, &got.body["result"]), (expected.status, &expected.body["result"]), "{endpoint}");
    }
    // Failures keep their code and text.
    let wrong = "select cast(event_message as int64) as x from edge_logs";
    let (got, expected) = (cluster.server.sql(wrong), alone.sql(wrong));
    assert_eq!((got.status, &got.body["error"]["code"]), (expected.status, &expected.body["error"]["code"]));
    assert_eq!(got.status, 400, "{}", got.body);
    for fault in ["gone", "busy", "nonsense", "damaged"] {
        assert_eq!(cluster.tasks(fault), 0.0, "{fault}");
    }
    cluster.idle(LONG);
}

/// Where workers are is for who runs the server: others learn how many are used.
#[test]
fn addresses_of_workers_are_told_to_private_tokens_only() {
    let cluster = Cluster::start(2, &[]);
    cluster.fill();
    assert_eq!(cluster.server.sql("select count(*) as c from edge_logs").status, 200);
    for token in [None, Some(PUBLIC), Some(PRIVATE)] {
        let headers: Vec<_> = token.iter().map(|token| ("x-api-key", *token)).collect();
        let ready = cluster.server.call("GET", "/ready", &headers, b"").body;
        assert_eq!(ready["workers"].as_array().unwrap().len(), 2);
        assert!(ready["workers"].as_array().unwrap().iter().all(|worker| worker["used"] == true), "{ready}");
        let page = cluster.server.fetch("GET", "/metrics", &headers, b"");
        let page = String::from_utf8_lossy(&page.body).into_owned();
        assert!(page.contains("tidegate_cluster_workers 2") && page.ends_with("# EOF\n"), "{page}");
        let is_private = token == Some(PRIVATE);
        assert_eq!(page.contains("tidegate_cluster_worker_usable 2"), !is_private, "{page}");
        for worker in &cluster.workers {
            assert_eq!(page.contains(worker.address()), is_private, "{page}");
            assert_eq!(ready.to_string().contains(worker.address()), is_private, "{ready}");
        }
    }
}

#[test]
fn without_workers_nothing_is_said_of_them() {
    let server = Server::start();
    assert!(server.call("GET", "/ready", &[], b"").body.get("workers").is_none());
    assert!(!server.text("/metrics").contains("tidegate_cluster_tasks_total{"));
}

/// Workers are killed, stopped and told to end while statements run: each answer is right, or says that it is none.
#[test]
fn workers_that_go_away_make_no_answer_wrong() {
    let mut cluster = Cluster::start(3, &[]);
    cluster.fill();
    let expected: Vec<Value> = STATEMENTS.iter().map(|sql| result(&cluster.server.sql(sql))).collect();
    let (over, mut outcomes) = (AtomicBool::new(false), BTreeMap::<u16, usize>::new());
    let killed = cluster.workers[0].address().to_owned();
    std::thread::scope(|scope| {
        let (server, over, expected) = (&cluster.server, &over, &expected);
        let askers: Vec<_> = (0..6)
            .map(|asker| {
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    for turn in asker.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let place = turn % STATEMENTS.len();
                        let answer = server.sql(STATEMENTS[place]);
                        match answer.status {
                            200 => assert_eq!(answer.body["result"], expected[place], "{}", STATEMENTS[place]),
                            503 => assert!(answer.body["error"]["message"].is_string(), "{}", answer.body),
                            _ => panic!("{}: {}", answer.status, answer.body),
                        }
                        seen.push(answer.status);
                    }
                    seen
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(700));
        cluster.workers[0].kill_now();
        std::thread::sleep(Duration::from_millis(700));
        signal(&cluster.workers[1], "-STOP");
        std::thread::sleep(Duration::from_millis(5_000));
        signal(&cluster.workers[2], "-TERM");
        std::thread::sleep(Duration::from_millis(700));
        signal(&cluster.workers[1], "-CONT");
        std::thread::sleep(Duration::from_millis(700));
        over.store(true, Ordering::Relaxed);
        for status in askers.into_iter().flat_map(|asker| asker.join().unwrap()) {
            *outcomes.entry(status).or_default() += 1;
        }
    });
    assert!(outcomes[&200] > 20, "{outcomes:?}");
    // The one that was stopped is used again, and one that is started again.
    cluster.used(1);
    cluster.workers.remove(2);
    cluster.workers[0] = worker(&cluster.folder, &killed, &[]);
    cluster.used(2);
    for (sql, expected) in STATEMENTS.iter().zip(&expected) {
        assert_eq!(result(&cluster.server.sql(sql)), *expected, "{sql}");
    }
    cluster.idle(LONG);
}

/// A worker over another folder has none of the segments: what it should read is read elsewhere.
#[test]
fn a_worker_over_another_folder_makes_no_answer_wrong() {
    let mut cluster = Cluster::start(1, &[]);
    cluster.fill();
    let expected: Vec<Value> = STATEMENTS.iter().map(|sql| result(&cluster.server.sql(sql))).collect();
    let (other, at) = (folder(), cluster.workers[0].address().to_owned());
    std::fs::create_dir(other.path().join("data")).unwrap();
    cluster.workers.remove(0).stop("-TERM");
    cluster.used(0);
    cluster.workers.push(worker(&other, &at, &[]));
    cluster.used(1);
    for (sql, expected) in STATEMENTS.iter().zip(&expected) {
        assert_eq!(result(&cluster.server.sql(sql)), *expected, "{sql}");
    }
    // It is asked again and again: the folders of other workers may be the right ones.
    let damaged = cluster.tasks("damaged");
    assert!(damaged > 1.0, "{}", cluster.server.text("/metrics"));
    cluster.idle(LONG);
}

pub(crate) fn signal(server: &Server, signal: &str) {
    let status = Command::new("kill").args([signal, &server.process().to_string()]).status().unwrap();
    assert!(status.success());
}

/// A statement that computes for minutes on workers.
fn slow() -> String {
    let condition = |n: u32| format!("regexp_contains(repeat(event_message, 2000), '(G.*T.*)+x.*y{n}.*z')");
    let conditions: Vec<String> = (0..80).map(condition).collect();
    format!("select count(*) as c from edge_logs where {}", conditions.join(" or "))
}

/// Asks for a statement and waits until workers have tasks of it.
fn ask(cluster: &Cluster) -> TcpStream {
    let mut stream = TcpStream::connect(cluster.server.address()).unwrap();
    let query = query_string(&[("project", "p1"), ("sql", &slow())]);
    let head = format!("GET /api/endpoints/query/logs.all?{query} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let runs = || cluster.workers.iter().any(|worker| worker.metric("tidegate_worker_tasks") > 0.0);
    until("a task is started", runs);
    // They do not end by themselves.
    std::thread::sleep(Duration::from_millis(700));
    assert!(runs());
    stream
}

#[test]
fn a_caller_who_leaves_ends_the_tasks() {
    let cluster = Cluster::start(3, &[]);
    cluster.fill();
    for _ in 0..3 {
        let stream = ask(&cluster);
        drop(stream);
        cluster.idle(Duration::from_secs(5));
    }
    // What is left is usable.
    assert_eq!(result(&cluster.server.sql(STATEMENTS[1])).as_array().unwrap().len(), 1);
}

#[test]
fn a_server_that_is_killed_leaves_no_tasks() {
    let cluster = Cluster::start(3, &[]);
    cluster.fill();
    let _stream = ask(&cluster);
    cluster.server.kill_now();
    cluster.idle(Duration::from_secs(5));
}

#[test]
fn a_server_that_is_stopped_leaves_no_tasks() {
    let cluster = Cluster::start(3, &[]);
    cluster.fill();
    let _stream = ask(&cluster);
    signal(&cluster.server, "-STOP");
    cluster.idle(Duration::from_secs(15));
    signal(&cluster.server, "-CONT");
    cluster.used(3);
}

#[test]
fn a_worker_that_is_told_to_end_says_so_and_ends() {
    let mut cluster = Cluster::start(2, &[]);
    cluster.fill();
    let stream = ask(&cluster);
    let leaving = cluster.workers.remove(0);
    signal(&leaving, "-TERM");
    let began = Instant::now();
    loop {
        let ready = cluster.server.manage("GET", "/ready", &Value::Null);
        let view = ready.body["workers"].as_array().unwrap().iter().find(|view| view["name"] == leaving.address());
        let reason = view.unwrap()["reason"].as_str().unwrap_or_default().to_owned();
        if reason.contains("shutting down") || reason.contains("connection") || reason.contains("reached") {
            break;
        }
        assert!(began.elapsed() < LONG, "{}", ready.body);
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(stream);
    assert_eq!(leaving.wait(), Some(0));
}

fn refused(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let out = Command::new(binary()).args(arguments).envs(environment.iter().copied()).output().unwrap();
    assert!(!out.status.success());
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn other_machines_need_tls() {
    let folder = folder();
    let data = folder.path().to_str().unwrap();
    let told = refused(&["worker", "--listen", "0.0.0.0:0", "--store", data], &[]);
    assert!(told.contains("--tls-certificate"), "{told}");
    let told = refused(&["serve", "--data-dir", data], &[("TIDEGATE_CLUSTER_WORKERS", "10.1.2.3:4100")]);
    assert!(told.contains("another machine") && told.contains("tls_ca"), "{told}");
    let told = refused(&["worker", "--store", &format!("{data}/missing")], &[]);
    assert!(told.contains("missing"), "{told}");
    std::fs::write(folder.path().join("segments"), "").unwrap();
    let told = refused(&["worker", "--store", data], &[]);
    assert!(told.contains("segments cannot be read"), "{told}");
    std::fs::remove_file(folder.path().join("segments")).unwrap();
    let told = refused(&["worker", "--store", "s3://bucket/logs"], &[]);
    assert!(told.contains("--cache"), "{told}");
    let told = refused(&["worker", "--store", "gs://bucket/logs"], &[]);
    assert!(told.contains("s3:// or file://"), "{told}");
    let told = refused(&["worker", "--store", "s3://ab/logs"], &[]);
    assert!(told.contains("3 to 63"), "{told}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = refused(&["worker", "--listen", &taken.local_addr().unwrap().to_string(), "--store", data], &[]);
    assert!(told.contains("cannot listen"), "{told}");
}
