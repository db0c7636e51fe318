//! What clients cannot do to connections: hold them with a slow head, a slow body, an answer that
//! is not read; and what a stop and a full house do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::json;
use tidegate_tests::{Data, EDGE, PRIVATE, PUBLIC, Server, now, request, until};

/// How long anything that must happen may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Dribbles one byte after another until the peer hangs up, and returns what it said.
fn dribble(stream: &mut TcpStream, byte: u8) -> String {
    let began = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut said = Vec::new();
    loop {
        assert!(began.elapsed() < LONG, "the connection is still there");
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        if stream.write_all(&[byte]).is_err() {
            // What was said before is still there to be read.
            let _ = stream.read_to_end(&mut said);
            break;
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Waits until the connections of the test are closed.
fn until_closed(server: &Server) {
    until("the connections are closed", || {
        let metrics = server.text("/metrics");
        let open = metrics.lines().find_map(|line| line.strip_prefix("tidegate_connections ")).unwrap();
        // What is left are the test's own kept connections.
        open.parse::<u32>().unwrap() < 10
    });
}

#[test]
fn a_slow_head_is_closed_and_others_are_served() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_HEAD_TIMEOUT", "500 ms")]);
    let mut slow: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
    }
    server.call("GET", "/health", &[], b"").is(200);
    // A byte now and then is no progress.
    assert_eq!(dribble(&mut slow[0], b'a'), "");
    for stream in &mut slow[1..] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    // On a kept connection too.
    let mut kept = connect(&server);
    kept.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut buffer = [0; 4096];
    assert!(kept.read(&mut buffer).unwrap() > 0);
    kept.write_all(b"GET /hea").unwrap();
    assert_eq!(dribble(&mut kept, b'l'), "");
}

#[test]
fn an_idle_connection_is_closed_only_after_its_own_time() {
    let server =
        Server::start_set(&[("TIDEGATE_SERVER_HEAD_TIMEOUT", "300 ms"), ("TIDEGATE_SERVER_IDLE_TIMEOUT", "3 s")]);
    let mut kept = connect(&server);
    let mut buffer = [0; 4096];
    for _ in 0..2 {
        kept.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        assert!(kept.read(&mut buffer).unwrap() > 0, "it is kept longer than a head may take");
        std::thread::sleep(Duration::from_millis(900));
    }
    assert_eq!(kept.read(&mut buffer).unwrap(), 0, "it is closed in the end");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The next frame: its kind, its flags, its payload. `None` once the peer has hung up.
fn next_frame(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], payload))
}

/// Reads frames up to the one that is awaited.
fn read_until(stream: &mut TcpStream, is_awaited: impl Fn(u8, u8, &[u8]) -> bool) {
    loop {
        let (kind, flags, payload) = next_frame(stream).expect("the connection is kept");
        if is_awaited(kind, flags, &payload) {
            return;
        }
    }
}

/// Senders of OTLP keep such a connection between their exports, and answer the pings of the server.
#[test]
fn an_idle_http2_connection_is_closed_only_after_its_own_time() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    let server =
        Server::start_set(&[("TIDEGATE_SERVER_HEAD_TIMEOUT", "300 ms"), ("TIDEGATE_SERVER_IDLE_TIMEOUT", "4 s")]);
    let mut kept = connect(&server);
    kept.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    kept.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    // GET over http, a path and an authority as literals.
    let head = [&[0x82, 0x86, 0x04, 7], &b"/health"[..], &[0x01, 1], b"x"].concat();
    for stream in [1, 3] {
        kept.write_all(&frame(HEADERS, 5, stream, &head)).unwrap();
        // The last piece of the answer ends its stream.
        read_until(&mut kept, |kind, flags, _| matches!(kind, DATA | HEADERS) && flags & 1 == 1);
        for number in 0..5 {
            std::thread::sleep(Duration::from_millis(200));
            kept.write_all(&frame(PING, 0, 0, &[number; 8])).unwrap();
            read_until(&mut kept, |kind, flags, payload| (kind, flags, payload) == (PING, 1, &[number; 8]));
        }
    }
    let mut said_goodbye = false;
    while let Some((kind, ..)) = next_frame(&mut kept) {
        said_goodbye |= kind == GOAWAY;
    }
    assert!(said_goodbye, "it is closed in the end, and told before");
}

/// Over HTTP/2 a field that was sent once is named again by one byte: thousands would fit into a head of a few kilobytes.
#[test]
fn a_head_has_a_hundred_fields_at_most() {
    let server = Server::start();
    let mut kept = connect(&server);
    kept.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    kept.write_all(&frame(4, 0, 0, &[])).unwrap();
    // GET over http, a path and an authority; then a field that is added to the table, and named again.
    let start = [&[0x82, 0x86, 0x04, 7], &b"/health"[..], &[0x01, 1], b"x", &[0x40, 1], b"a", &[1], b"b"].concat();
    let again = |times: usize| [&start[..], &vec![0xbe; times]].concat();
    // The first head adds to the table, the others name what it added.
    let named = |times: usize| [&start[..start.len() - 5], &vec![0xbe; times]].concat();
    for (stream, head, is_taken) in
        [(1, again(99), true), (3, named(101), false), (5, named(7_500), false), (7, named(100), true)]
    {
        kept.write_all(&frame(1, 5, stream, &head)).unwrap();
        read_until(&mut kept, |kind, _, payload| {
            // The status 200 is the entry 8 of the table of HPACK.
            assert!(kind != 1 || payload.starts_with(&[0x88]) == is_taken, "{stream}: {payload:?}");
            kind == 1
        });
    }
    let mut plain = connect(&server);
    let fields = "a: b\r\n".repeat(100);
    plain.write_all(format!("GET /health HTTP/1.1\r\nhost: x\r\n{fields}\r\n").as_bytes()).unwrap();
    let mut said = String::new();
    plain.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
}

#[test]
fn a_slow_body_is_closed_with_408() {
    let server =
        Server::start_set(&[("TIDEGATE_SERVER_BODY_TIMEOUT", "700 ms"), ("TIDEGATE_SERVER_LEAST_RATE", "1 KiB")]);
    let head = format!(
        "POST /api/logs?source_name={EDGE} HTTP/1.1\r\nhost: x\r\nx-api-key: {PUBLIC}\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    );
    // One pauses, one dribbles: neither pauses long, but too slow is too slow.
    for dribbles in [false, true] {
        let mut stream = connect(&server);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"[{\"a\": \"").unwrap();
        let said = if dribbles {
            dribble(&mut stream, b'a')
        } else {
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        let lower = said.to_lowercase();
        assert!(lower.contains("connection: close") && lower.contains("\"slow_request\""), "{said}");
    }
    assert!(server.sql("SELECT COUNT(*) AS n FROM edge_logs").rows()[0]["n"] == json!(0));
    // A body that comes in time is taken.
    server.send(EDGE, &json!([request("a", now(), "/")]));
}

#[test]
fn clients_that_do_not_read_are_cut_and_hold_no_memory() {
    let server = Server::start_set(&[
        ("TIDEGATE_SERVER_WRITE_TIMEOUT", "1 s"),
        ("TIDEGATE_ADMISSION_CONCURRENCY", "4"),
        ("TIDEGATE_ADMISSION_QUEUE", "1000"),
        // Who finds no room for its answer waits until those before it are cut; who is refused is idle then.
        ("TIDEGATE_ADMISSION_WAIT", "60 s"),
        ("TIDEGATE_SERVER_IDLE_TIMEOUT", "5 s"),
    ]);
    let text = "x".repeat(64 << 10);
    let events: Vec<_> = (0..200)
        .map(|i| json!({"id": format!("{i}"), "timestamp": now() - i, "project": "p1", "event_message": text}))
        .collect();
    server.send(EDGE, &json!(events));
    let path = "/api/endpoints/query/logs.all?project=p1&sql=SELECT+event_message+FROM+edge_logs";
    let get = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n");
    let mut answer = Vec::new();
    let mut reader = connect(&server);
    reader.write_all(get.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    reader.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > 8_000_000, "the answer is large: {}", answer.len());
    // Each answer is 13 MB; sixty that stay would be 800.
    let mut silent: Vec<TcpStream> = (0..60).map(|_| connect(&server)).collect();
    for stream in &mut silent {
        stream.write_all(get.as_bytes()).unwrap();
    }
    server.call("GET", "/health", &[], b"").is(200);
    until_closed(&server);
    let peak = server.peak_memory();
    assert!(peak < 700, "{peak} MiB");
    assert_eq!(server.sql("SELECT COUNT(*) AS n FROM edge_logs").rows()[0]["n"], json!(200));
}

#[test]
fn over_the_limit_probes_are_answered_and_the_rest_is_told_to_come_again() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_MAX_CONNECTIONS", "5")]);
    let mut held: Vec<TcpStream> = (0..5).map(|_| connect(&server)).collect();
    for stream in &mut held {
        // A request on each, so that each surely has its place.
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    }
    let ask = |path: &str| {
        let mut stream = connect(&server);
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\nconnection: close\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    assert!(ask("/health").starts_with("HTTP/1.1 200 "));
    let refused = ask("/api/sources");
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.to_lowercase().contains("retry-after: 1"), "{refused}");
    drop(held);
    until("places become free", || ask("/api/sources").starts_with("HTTP/1.1 200 "));
}

/// Without a token an address has so many connections; with one it has as many as there are.
#[test]
fn connections_without_a_token_are_bounded_for_each_address() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_CONNECTIONS_WITHOUT_TOKEN", "5")]);
    let get = |stream: &mut TcpStream, path: &str, token: &str| {
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").unwrap();
        let mut said = vec![0; 64 << 10];
        let read = stream.read(&mut said).unwrap();
        String::from_utf8_lossy(&said[..read]).into_owned()
    };
    let mut held: Vec<TcpStream> = (0..5).map(|_| connect(&server)).collect();
    for stream in &mut held {
        assert!(get(stream, "/health", "").starts_with("HTTP/1.1 200 "));
    }
    // A wrong token is none.
    assert!(get(&mut held[0], "/api/sources", "not-a-token-that-there-is").starts_with("HTTP/1.1 401 "));
    let mut more = connect(&server);
    assert!(get(&mut more, "/health", "").starts_with("HTTP/1.1 200 "));
    let refused = get(&mut more, "/api/sources", "");
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("without an access token"), "{refused}");
    assert!(refused.to_lowercase().contains("retry-after: 1"), "{refused}");
    // Whoever has one is served, and does not count.
    for _ in 0..20 {
        assert!(get(&mut connect(&server), "/api/sources", PRIVATE).starts_with("HTTP/1.1 200 "));
    }
    // Also where only its protocol looks for it.
    let pair = base64::prelude::BASE64_STANDARD.encode(format!("id:{PUBLIC}"));
    for (path, header) in [
        ("/api/v2/logs", format!("dd-api-key: {PUBLIC}")),
        ("/services/collector/event", format!("authorization: Splunk {PUBLIC}")),
        ("/_bulk", format!("authorization: ApiKey {pair}")),
        ("/loki/api/v1/push", format!("authorization: Basic {pair}")),
    ] {
        let mut stream = connect(&server);
        write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\n{header}\r\ncontent-length: 0\r\n\r\n").unwrap();
        let mut said = vec![0; 64 << 10];
        let read = stream.read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..read]);
        assert!(!said.starts_with("HTTP/1.1 503 ") && !said.starts_with("HTTP/1.1 401 "), "{path}: {said}");
    }
    let metrics = server.fetch("GET", "/metrics", &[("x-api-key", PRIVATE)], b"");
    let crowded = metrics.text().lines().find_map(|line| line.strip_prefix("tidegate_connections_crowded_total "));
    assert!(crowded.is_some_and(|count| count.parse::<u32>().unwrap() >= 21), "{crowded:?}");
    // A place is free once its connection has shown a token, and is not taken again by it.
    assert!(get(&mut held[0], "/api/sources", PRIVATE).starts_with("HTTP/1.1 200 "));
    let mut sixth = connect(&server);
    assert!(get(&mut sixth, "/api/sources", "").starts_with("HTTP/1.1 401 "), "it is one of the five");
    assert!(get(&mut held[0], "/health", "").starts_with("HTTP/1.1 200 "));
    assert!(get(&mut connect(&server), "/api/sources", "").starts_with("HTTP/1.1 503 "));
    // Or gone.
    drop(sixth);
    until("a place becomes free", || get(&mut connect(&server), "/api/sources", "").starts_with("HTTP/1.1 401 "));
}

#[test]
fn a_stop_lets_requests_end_and_loses_nothing_acknowledged() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let (acknowledged, stopping) = (Mutex::new(Vec::<String>::new()), AtomicBool::new(false));
    // A request that is under way when the stop comes: its end comes after it.
    let event = request("under-way", now(), "/").to_string();
    let mut under_way = connect(&server);
    write!(
        under_way,
        "POST /api/logs?source_name={EDGE} HTTP/1.1\r\nhost: x\r\nx-api-key: {PUBLIC}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        event.len()
    )
    .unwrap();
    under_way.write_all(&event.as_bytes()[..10]).unwrap();
    let process = server.process();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (server, acknowledged, stopping) = (&server, &acknowledged, &stopping);
            scope.spawn(move || {
                for i in 0.. {
                    let id = format!("{thread}-{i}");
                    let body = request(&id, now(), "/").to_string();
                    let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
                    let path = format!("/api/logs?source_name={EDGE}");
                    match server.try_call("POST", &path, &headers, body.as_bytes()) {
                        Ok(answer) if answer.status == 200 => acknowledged.lock().unwrap().push(id),
                        _ if stopping.load(Ordering::Relaxed) => return,
                        other => panic!("before the stop: {other:?}"),
                    }
                }
            });
        }
        until("a hundred are acknowledged", || acknowledged.lock().unwrap().len() >= 100);
        stopping.store(true, Ordering::Relaxed);
        assert!(std::process::Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
        // While it waits for the one request, probes are told.
        let began = Instant::now();
        loop {
            let ready = server.try_call("GET", "/ready", &[], b"");
            if let Ok(ready) = ready
                && ready.status == 503
            {
                assert_eq!(ready.body["problems"][0]["what"], json!("draining"), "{}", ready.body);
                // Or the next request would go into a connection that closes.
                assert_eq!(ready.header("connection"), Some("close"), "{:?}", ready.headers);
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(8), "/ready says nothing of the stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.try_call("GET", "/health", &[], b"").unwrap().status, 200);
        under_way.write_all(&event.as_bytes()[10..]).unwrap();
        let mut said = String::new();
        under_way.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
        acknowledged.lock().unwrap().push("under-way".to_owned());
    });
    assert_eq!(server.wait(), Some(0));
    let again = Server::start_in(&data);
    let rows = again.sql("SELECT id FROM edge_logs LIMIT 10000");
    let mut stored = rows.ids();
    stored.sort();
    let unique = stored.len();
    stored.dedup();
    assert_eq!(stored.len(), unique, "nothing is there twice");
    for id in acknowledged.into_inner().unwrap() {
        assert!(stored.binary_search(&id).is_ok(), "{id} was acknowledged");
    }
}

/// The tool of the trade, where it is installed (Debian: `slowhttptest`).
#[test]
fn slowhttptest_does_not_take_the_service_away() {
    let tool = |arguments: &[&str]| std::process::Command::new("slowhttptest").args(arguments).output();
    if tool(&["-h"]).is_err() {
        eprintln!("SKIPPED: slowhttptest is not installed; apt-get install slowhttptest");
        return;
    }
    let server = Server::start_set(&[
        ("TIDEGATE_SERVER_HEAD_TIMEOUT", "1 s"),
        ("TIDEGATE_SERVER_BODY_TIMEOUT", "1 s"),
        ("TIDEGATE_SERVER_WRITE_TIMEOUT", "1 s"),
    ]);
    let url = format!("{}/api/logs", server.base);
    // Slow heads, slow bodies, slow readers: 200 connections each, opened within two seconds.
    for mode in ["-H", "-B", "-X"] {
        std::thread::scope(|scope| {
            let attack =
                scope.spawn(|| tool(&[mode, "-c", "200", "-r", "100", "-i", "1", "-l", "8", "-p", "2", "-u", &url]));
            while !attack.is_finished() {
                server.send(EDGE, &json!([request("a", now(), "/")]));
                std::thread::sleep(Duration::from_millis(20));
            }
            let out = attack.join().unwrap().unwrap();
            let told = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(told.contains("service available"), "{mode}: {told}");
        });
    }
    // Nothing of it is left.
    until_closed(&server);
}
