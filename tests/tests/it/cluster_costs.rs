//! What workers and copies in an object store cost: processor time and bytes, for `docs/contributing/measurements/cluster.md`. Nothing
//! is asserted of them; they are of use with a release build only:
//!
//! `TIDEGATE_BIN=target/release/tidegate cargo test -p tidegate-tests --test it cluster_costs -- --ignored --nocapture --test-threads 1`

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, binary, folder, now, request, until_within};

use crate::cluster::fill;
use crate::object_server::ObjectServer;

/// Events of a segment.
const SEGMENT: usize = 10_000;

fn serve(folder: &Path, name: &str, settings: &[(&str, &str)]) -> Server {
    let mut command = tidegate_tests::serve(folder.join(name));
    command.envs([
        ("TIDEGATE_CACHE_MEMORY", "0"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "24 h"),
        ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
    ]);
    command.envs(settings.iter().copied());
    Server::spawn(command, folder.join(format!("{name}.log")), true)
}

/// Everything that the server has is in the object store, and a copy of its catalog.
fn settled(server: &Server) {
    until_within(Duration::from_secs(600), "there are copies", || {
        server.metric("tidegate_objects_missing") == 0.0
            && server.metric("tidegate_objects_catalog_behind_seconds") == 0.0
            && server.metric("tidegate_objects_catalog_put_total") > 0.0
    });
}

/// What the work takes of the server's processor time, in milliseconds.
fn milliseconds(server: &Server, work: impl FnOnce()) -> f64 {
    let before = server.processor_time();
    work();
    (server.processor_time() - before) as f64 * 10.0
}

const QUESTIONS: [(&str, usize, &str); 5] = [
    ("newest 100", 40, "select id, timestamp, event_message from edge_logs order by timestamp desc limit 100"),
    ("one id", 40, "select timestamp from edge_logs where id = '00123456'"),
    (
        "by status",
        4,
        "select r.status_code as status, count(*) as c from edge_logs as e cross join unnest(e.metadata) as m cross join unnest(m.response) as r group by status",
    ),
    ("pattern", 4, "select count(*) as c from edge_logs where regexp_contains(event_message, 'n=1[0-9]*3$')"),
    (
        "by minute",
        4,
        "select timestamp_trunc(timestamp, minute) as at, count(*) as c from edge_logs group by at order by at desc limit 60",
    ),
];

/// The same binary without `[cluster]`, with workers that nothing goes to, and with copies.
#[test]
#[ignore = "a measurement"]
fn local_queries() {
    let (folder, rounds) = (folder(), 12);
    let data = folder.path().join("workers");
    std::fs::create_dir(&data).unwrap();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let mut command = Command::new(binary());
            command.args(["worker", "--listen", "127.0.0.1:0", "--store"]).arg(&data);
            let log = std::fs::read_dir(folder.path()).unwrap().count();
            Server::spawn(command, folder.path().join(format!("{log}.log")), false)
        })
        .collect();
    let addresses = workers.iter().map(Server::address).collect::<Vec<_>>().join(",");
    let url = format!("file://{}", folder.path().join("copies").display());
    let rows = SEGMENT.to_string();
    let flush = ("TIDEGATE_INGEST_FLUSH_ROWS", rows.as_str());
    let cluster = [flush, ("TIDEGATE_CLUSTER_WORKERS", &addresses), ("TIDEGATE_CLUSTER_LEAST_BYTES", "1024 GiB")];
    let servers = [
        ("without", serve(folder.path(), "without", &[flush])),
        ("workers, all local", serve(folder.path(), "workers", &cluster)),
        ("without, url", serve(folder.path(), "url", &[flush, ("TIDEGATE_STORAGE_URL", &url)])),
    ];
    for (_, server) in &servers {
        fill(server, 20, SEGMENT, true);
        QUESTIONS.iter().for_each(|(_, _, sql)| assert!(!server.sql(sql).rows().is_empty()));
    }
    settled(&servers[2].1);
    for (name, times, sql) in QUESTIONS {
        let mut costs: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
        for round in 0..rounds {
            for place in 0..servers.len() {
                let place = (place + round) % servers.len();
                let server = &servers[place].1;
                let cost = milliseconds(server, || (0..times).for_each(|_| assert_eq!(server.sql(sql).status, 200)));
                costs[place].push(cost / times as f64);
            }
        }
        for ((server, _), costs) in servers.iter().zip(&mut costs) {
            costs.sort_by(f64::total_cmp);
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            eprintln!(
                "{name}: {server}: {mean:.2} ms a request, median {:.2}, {:.2} to {:.2}",
                costs[costs.len() / 2],
                costs[0],
                costs[costs.len() - 1]
            );
        }
    }
    for (name, server) in &servers {
        let idle = milliseconds(server, || std::thread::sleep(Duration::from_secs(30)));
        eprintln!("idle: {name}: {:.2} ms a second", idle / 30.0);
    }
}

/// Copies of catalogs with so many segments, of one run each.
#[test]
#[ignore = "a measurement"]
fn copies_of_the_catalog() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let url = format!("file://{}", folder.path().join("copies").display());
    let mut made = 0;
    // So many that no source has enough segments to be merged.
    let sources: Vec<String> = (0..250).map(|number| format!("load.{number}")).collect();
    for segments in [10, 1_000, 10_000] {
        let server = serve(folder.path(), "data", &[("TIDEGATE_INGEST_FLUSH_ROWS", "1")]);
        let known = server.read("/api/sources").to_string();
        for source in sources.iter().take(segments).filter(|source| !known.contains(&format!("\"{source}\""))) {
            server.manage("POST", "/api/sources", &json!({"name": source})).is(201);
        }
        while (server.metric("tidegate_store_segments") as usize) < segments {
            for source in sources.iter().take(segments) {
                made += 1;
                server.send(source, &json!([request(&format!("{made}"), now(), "/a")]));
            }
        }
        server.until_flushed();
        let has = server.metric("tidegate_store_segments");
        // A change a second and a half at a time, as often as there is a copy.
        let changes = |server: &Server, number: usize| {
            for change in 0..number {
                let name = format!("s{}.{}.{change}", segments, server.process());
                server.manage("POST", "/api/sources", &json!({"name": name})).is(201);
                std::thread::sleep(Duration::from_millis(1_500));
                if server.metric("tidegate_objects_catalog_put_total") > 0.0 {
                    settled(server);
                }
            }
        };
        let without = milliseconds(&server, || changes(&server, 8)) / 8.0;
        server.stop("-TERM");
        let file = std::fs::metadata(folder.path().join("data/catalog.sqlite")).unwrap().len();
        let server = serve(folder.path(), "data", &[("TIDEGATE_STORAGE_URL", &url)]);
        settled(&server);
        let figures = || {
            (
                server.metric("tidegate_objects_catalog_put_total"),
                server.metric("tidegate_objects_catalog_put_bytes_total"),
            )
        };
        let (copies, bytes) = figures();
        let with = milliseconds(&server, || changes(&server, 8));
        let (copies, bytes) = (figures().0 - copies, figures().1 - bytes);
        eprintln!(
            "{has} segments: catalog.sqlite {file} bytes, a copy {:.0} bytes, {copies} copies with {with} ms, 8 changes without {:.0} ms: {:.1} ms a copy",
            bytes / copies,
            without * 8.0,
            (with - without * 8.0) / copies
        );
        server.stop("-TERM");
    }
}

/// Events without copies, with copies in a folder, and in a store that speaks S3.
#[test]
#[ignore = "a measurement"]
fn ingest_with_copies() {
    let (folder, objects, rounds, events) = (folder(), ObjectServer::start(), 15, 100_000);
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let url = format!("file://{}", folder.path().join("copies").display());
    let rows = SEGMENT.to_string();
    let flush = ("TIDEGATE_INGEST_FLUSH_ROWS", rows.as_str());
    let access = objects.settings();
    let mut s3: Vec<(&str, &str)> = access.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let soon = ("TIDEGATE_INGEST_FLUSH_INTERVAL", "2 s");
    s3.extend([flush, soon, ("TIDEGATE_STORAGE_URL", "s3://bucket/logs")]);
    let servers = [
        ("without", serve(folder.path(), "without", &[flush, soon])),
        ("file", serve(folder.path(), "file", &[flush, soon, ("TIDEGATE_STORAGE_URL", &url)])),
        ("s3", serve(folder.path(), "s3", &s3)),
    ];
    let calls: Vec<Value> = (0..100)
        .map(|call| {
            let event = |n: usize| request(&format!("{call}-{n}"), now() - (call * 1000 + n) as i64, "/items/1?q=abc");
            Value::Array((0..1000).map(event).collect())
        })
        .collect();
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    for round in 0..=rounds {
        for place in 0..servers.len() {
            let place = (place + round) % servers.len();
            let (name, server) = &servers[place];
            let cost = milliseconds(server, || {
                calls.iter().for_each(|call| server.send(EDGE, call));
                server.until_flushed();
                if *name != "without" {
                    settled(server);
                }
            });
            // The first round warms up.
            if round > 0 {
                costs[place].push(cost * 1_000.0 / events as f64);
            }
        }
    }
    for ((name, server), costs) in servers.iter().zip(&mut costs) {
        costs.sort_by(f64::total_cmp);
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        eprintln!(
            "{name}: {mean:.2} us an event, median {:.2}, {:.2} to {:.2}; {} segments put, {} bytes",
            costs[costs.len() / 2],
            costs[0],
            costs[costs.len() - 1],
            server.metric("tidegate_objects_put_total"),
            server.metric("tidegate_objects_put_bytes_total")
        );
    }
}
