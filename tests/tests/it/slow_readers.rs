//! Answers that are not read: they are counted from before they are encoded until they are written, they hold no
//! more than the room for them, and the half of one token is not the half of the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_tests::{Answer, EDGE, PRIVATE, Server, now, query_string, until};

/// How long anything that must happen may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);
const MIB: f64 = 1_048_576.0;
/// The room for answers in these tests, in MiB.
const ROOM: f64 = 64.0;
/// Everything that is asked for here: 200 texts of 64 KiB.
const LARGE: &str = "/api/endpoints/query/large?project=p1";

/// A server with a small room for answers, where readers may be slow for long, and 13 MB of texts that do not
/// compress well.
fn server() -> Server {
    let server = Server::start_set(&[
        ("TIDEGATE_ADMISSION_ANSWER_MEMORY", "64 MiB"),
        ("TIDEGATE_LIMITS_ANSWER_BYTES", "16 MiB"),
        ("TIDEGATE_ADMISSION_WAIT", "1 s"),
        ("TIDEGATE_ADMISSION_QUEUE", "1000"),
        ("TIDEGATE_SERVER_WRITE_TIMEOUT", "10 min"),
    ]);
    let mut state = 1_u64;
    let mut text = || -> String {
        let mut word = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{state:016x}")
        };
        (0..4096).map(|_| word()).collect()
    };
    let events: Vec<_> = (0..200)
        .map(|i| json!({"id": format!("{i}"), "timestamp": now() - i, "project": "p1", "event_message": text()}))
        .collect();
    server.send(EDGE, &json!(events));
    let query = format!("WITH t AS (SELECT id, event_message FROM `{EDGE}` WHERE project = @project) SELECT * FROM t");
    for (name, seconds) in [("large", 0), ("kept", 600)] {
        let endpoint = json!({"name": name, "query": query, "sandboxable": true, "cache_duration_seconds": seconds});
        server.save(&endpoint);
    }
    server
}

/// A token that may query and nothing else.
fn token(server: &Server) -> String {
    server.token(&json!({"scopes": "query"}))
}

/// Asks on a connection of its own and reads nothing.
fn silent(server: &Server, token: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n{headers}\r\n").unwrap();
    stream
}

/// The status of an answer; what follows is left unread.
fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..]).parse().unwrap()
}

/// Readers that take nothing, one after the other until one is refused; and how.
fn fill(server: &Server, token: &str, headers: &str) -> (Vec<TcpStream>, u16) {
    let mut readers = Vec::new();
    loop {
        let mut reader = silent(server, token, LARGE, headers);
        match status(&mut reader) {
            200 => readers.push(reader),
            refused => return (readers, refused),
        }
        assert!(readers.len() < 100, "nobody is refused: {} MiB", held(server));
    }
}

fn held(server: &Server) -> f64 {
    server.metric("tidegate_answers_bytes") / MIB
}

fn ask(server: &Server, token: &str, parameters: &[(&str, &str)]) -> Answer {
    let path = format!("/api/endpoints/query/large?project=p1&{}", query_string(parameters));
    server.call("GET", &path, &[("x-api-key", token)], b"")
}

/// Waits until no answer is held any more.
fn nothing_is_held(server: &Server) {
    until("nothing is held", || held(server) <= 0.0);
}

#[test]
fn slow_readers_of_one_token_hold_half_of_the_room_and_others_are_served() {
    let server = server();
    let (slow, other) = (token(&server), token(&server));
    for headers in ["", "accept-encoding: gzip\r\n"] {
        let mut readers: Vec<TcpStream> = (0..60).map(|_| silent(&server, &slow, LARGE, headers)).collect();
        let statuses: Vec<u16> = readers.iter_mut().map(status).collect();
        let (good, refused) = (
            statuses.iter().filter(|status| **status == 200).count(),
            statuses.iter().filter(|status| **status == 429).count(),
        );
        // Those that were encoded at the same time may all have been refused.
        assert_eq!(good + refused, 60, "{headers}: {statuses:?}");
        let (more, refused) = fill(&server, &slow, headers);
        assert_eq!(refused, 429, "{headers}");
        readers.extend(more);
        // What is in the buffers of the system is not the server's any more.
        let now = held(&server);
        assert!(now > 10.0 && now < ROOM / 2.0 + 8.0, "{headers}: {now} MiB");
        assert!(server.metric("tidegate_answers_without_room") >= 1.0);
        // The token itself is told why, and others notice nothing, whatever they ask for.
        ask(&server, &slow, &[]).refused(429, "too_many_requests", &["not yet read", "32 MiB"]);
        assert_eq!(ask(&server, &other, &[]).rows().len(), 200);
        assert_eq!(ask(&server, &other, &[("sql", "SELECT COUNT(*) AS n FROM t")]).rows()[0]["n"], json!(200));
        server.call("GET", "/health", &[], b"").is(200);
        drop(readers);
        nothing_is_held(&server);
    }
    // Sixty answers of 13 MB are 800.
    let peak = server.peak_memory();
    assert!(peak < 600, "{peak} MiB");
}

#[test]
fn two_tokens_can_fill_the_room_and_whoever_reads_makes_place() {
    let server = server();
    let tokens = [token(&server), token(&server), token(&server)];
    let mut readers = Vec::new();
    for (token, refused) in tokens.iter().zip([429, 429, 503]) {
        let (more, why) = fill(&server, token, "");
        assert_eq!(why, refused, "{} MiB", held(&server));
        readers.extend(more);
    }
    let [_, _, third] = tokens;
    let now = held(&server);
    assert!(now > ROOM / 2.0 && now < ROOM + 8.0, "{now} MiB");
    let refused = ask(&server, &third, &[]);
    refused.refused(503, "overloaded", &["not yet read", "try again"]);
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Two that go make place for one who reads.
    readers.truncate(1);
    until("there is room", || ask(&server, &third, &[]).status == 200);
}

#[test]
fn a_kept_answer_counts_once_to_however_many_it_is_sent() {
    let server = server();
    let slow = token(&server);
    let path = "/api/endpoints/query/kept?project=p1";
    let mut readers: Vec<TcpStream> = (0..40).map(|_| silent(&server, &slow, path, "")).collect();
    for reader in &mut readers {
        assert_eq!(status(reader), 200);
    }
    let now = held(&server);
    assert!(now > 10.0 && now < 20.0, "{now} MiB");
    // The last one to go gives it back.
    let mut last = readers.pop().unwrap();
    drop(readers);
    assert!(held(&server) > 10.0);
    let mut rest = vec![0; 1 << 20];
    let mut read = 0;
    while read < 13_000_000 {
        read += last.read(&mut rest).unwrap();
    }
    drop(last);
    nothing_is_held(&server);
}

#[test]
fn lines_that_wait_for_a_slow_reader_count_too() {
    let server = server();
    let slow = token(&server);
    let path = format!("{LARGE}&format=ndjson");
    let mut readers: Vec<TcpStream> = (0..40).map(|_| silent(&server, &slow, &path, "")).collect();
    let good = readers.iter_mut().map(status).filter(|status| *status == 200).count();
    assert!(good >= 4, "{good}");
    // What each of them makes ahead of its reader is there soon, and no more.
    until("answers are held", || held(&server) >= 2.0);
    let now = held(&server);
    assert!(now < ROOM / 2.0 + 8.0, "{now} MiB");
    drop(readers);
    nothing_is_held(&server);
}

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header of HTTP/2 as it stands, with or without a number for its name.
pub(super) fn field(name: Result<u8, &str>, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let mut field = match name {
        Ok(known) => vec![known],
        Err(name) => [vec![0], text(name)].concat(),
    };
    field.extend(text(value));
    field
}

/// All on one connection, each on a stream of its own, whose windows stay as small as they are.
#[test]
fn streams_of_one_connection_that_are_not_read_are_within_the_room() {
    let server = server();
    let (slow, other) = (token(&server), token(&server));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE is 16.
    stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 16])).unwrap();
    for i in 0..60 {
        let mut head = vec![0x82, 0x86];
        head.extend(field(Ok(4), LARGE));
        head.extend(field(Ok(1), "x"));
        head.extend(field(Err("x-api-key"), &slow));
        // End of stream, end of headers.
        stream.write_all(&frame(1, 5, i * 2 + 1, &head)).unwrap();
    }
    let began = Instant::now();
    // Who waits long for a place because of those that wait for room is refused there already.
    let refused = r#"tidegate_failures_total{route="/api/endpoints/query/{endpoint}",code="too_many_requests"}"#;
    while server.metric(refused) < 40.0 {
        assert!(began.elapsed() < LONG, "{} MiB, {} refused", held(&server), server.metric(refused));
        std::thread::sleep(Duration::from_millis(50));
    }
    let now = held(&server);
    assert!(now > 10.0 && now < ROOM / 2.0 + 8.0, "{now} MiB");
    assert_eq!(ask(&server, &other, &[]).rows().len(), 200);
    assert_eq!(server.fetch("GET", LARGE, &[("x-api-key", PRIVATE)], b"").status, 200);
    drop(stream);
    nothing_is_held(&server);
    let peak = server.peak_memory();
    assert!(peak < 600, "{peak} MiB");
}

/// A connection of HTTP/2 whose streams have no window, so that nothing of an answer is taken but its head.
fn closed_windows(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).unwrap();
    stream
}

/// Asks for the same on so many streams, and waits for the heads of all answers.
fn ask_on_streams(stream: &mut TcpStream, count: u32, path: &str, headers: &[(&str, &str)]) {
    for i in 0..count {
        let mut head = vec![0x82, 0x86];
        head.extend(field(Ok(4), path));
        head.extend(field(Ok(1), "x"));
        headers.iter().for_each(|(name, value)| head.extend(field(Err(name), value)));
        stream.write_all(&frame(1, 5, i * 2 + 1, &head)).unwrap();
    }
    let mut heads = 0;
    while heads < count {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut rest = vec![0; usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap()];
        stream.read_exact(&mut rest).unwrap();
        assert_ne!(head[3], 7, "the connection is kept");
        heads += u32::from(head[3] == 1);
    }
}

/// A compressor holds much more than a short answer.
#[test]
fn compressors_of_short_answers_that_are_not_read_are_within_the_half_of_their_token() {
    let server = server();
    let (slow, other) = (token(&server), token(&server));
    let path = "/api/endpoints/query/large?project=p1&sql=SELECT+SUBSTR(event_message,1,3000)+AS+m+FROM+t+LIMIT+1";
    for coding in ["zstd", "br", "gzip"] {
        let mut connections: Vec<TcpStream> = (0..4).map(|_| closed_windows(&server)).collect();
        for stream in &mut connections {
            ask_on_streams(stream, 120, path, &[("x-api-key", &slow), ("accept-encoding", coding)]);
        }
        let now = held(&server);
        assert!(now > 2.0 && now < ROOM / 2.0 + 1.0, "{coding}: {now} MiB");
        assert_eq!(ask(&server, &other, &[("sql", "SELECT COUNT(*) AS n FROM t")]).rows()[0]["n"], json!(200));
        drop(connections);
        nothing_is_held(&server);
    }
}

/// Those of management and of OpenAPI, with a token and without one.
#[test]
fn other_answers_that_are_not_read_are_within_the_room() {
    let server = server();
    let other = token(&server);
    let before = server.metric("process_resident_memory_bytes") / MIB;
    let asked = |headers: &[(&str, &str)]| {
        let mut stream = closed_windows(&server);
        ask_on_streams(&mut stream, 120, "/api/openapi", headers);
        stream
    };
    let connections: Vec<TcpStream> = (0..8).map(|_| asked(&[])).collect();
    let (now, grown) = (held(&server), server.metric("process_resident_memory_bytes") / MIB - before);
    // A thousand documents are more than 100 MiB.
    assert!(now < 1.0 && grown < 60.0, "{now} MiB are held, {grown} MiB more than before");
    drop(connections);
    let connections: Vec<TcpStream> = (0..4).map(|_| asked(&[("x-api-key", PRIVATE)])).collect();
    let now = held(&server);
    assert!(now > 10.0 && now < ROOM / 2.0 + 1.0, "{now} MiB");
    assert_eq!(ask(&server, &other, &[]).rows().len(), 200);
    server.fetch("GET", "/api/openapi", &[("x-api-key", &other)], b"");
    drop(connections);
    nothing_is_held(&server);
}

/// What has come of the bodies of requests counts as answers do, and as those of one token.
#[test]
fn bodies_that_come_slowly_are_within_the_half_of_their_token() {
    let server = Server::start_set(&[
        ("TIDEGATE_ADMISSION_ANSWER_MEMORY", "8 MiB"),
        ("TIDEGATE_LIMITS_ANSWER_BYTES", "1 MiB"),
        ("TIDEGATE_ADMISSION_WAIT", "200 ms"),
        ("TIDEGATE_SERVER_BODY_TIMEOUT", "10 min"),
    ]);
    let (slow, other) = (token(&server), token(&server));
    let path = "/api/endpoints/query/logs.all?project=p1";
    // Each of them takes almost an eighth of the half.
    let mut senders: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let length = 500 << 10;
            write!(
                stream,
                "POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {slow}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n"
            )
            .unwrap();
            // The last byte is missing. A server that refuses it may have stopped reading.
            let _ = stream.write_all(&vec![b' '; length - 1]);
            stream
        })
        .collect();
    until("answers are held", || held(&server) >= 3.85);
    let refused = server.call("POST", path, &[("x-api-key", &slow)], &vec![b' '; 500 << 10]);
    refused.refused(429, "too_many_requests", &["bodies"]);
    assert!(held(&server) < 4.5, "{} MiB", held(&server));
    // Another token sends as much as it may.
    let sent = " ".repeat(500 << 10) + "{}";
    let headers = [("x-api-key", &*other), ("content-type", "application/json")];
    server.call("POST", path, &headers, sent.as_bytes()).is(200);
    senders.clear();
    nothing_is_held(&server);
}
