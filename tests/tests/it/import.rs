//! `tidegate import`: files into a running server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tidegate_tests::{EDGE, PUBLIC, Server, binary, folder, now, request};

fn import(server: &Server, arguments: &[&str], input: &[u8]) -> Output {
    import_to(&server.base, arguments, input)
}

fn import_to(url: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .args(["import", "--source", EDGE, "--url", url])
        .args(arguments)
        .env("TIDEGATE_TOKEN", PUBLIC)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn lines(prefix: &str, count: usize) -> String {
    (0..count).map(|i| format!("{}\n", request(&format!("{prefix}{i}"), now(), "/"))).collect()
}

fn stored(server: &Server) -> serde_json::Value {
    server.sql("SELECT COUNT(*) AS n FROM edge_logs").rows()[0]["n"].clone()
}

#[test]
fn files_of_every_packing_are_imported() {
    let (server, folder) = (Server::start(), folder());
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("plain.ndjson"), lines("p", 5000)).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(lines("g", 20).as_bytes()).unwrap();
    // Two members, as rotated logs that were put together have.
    let mut bytes = packed.finish().unwrap();
    bytes.extend(bytes.clone());
    std::fs::write(path("packed.ndjson.gz"), bytes).unwrap();
    std::fs::write(path("packed.ndjson.zst"), zstd::encode_all(lines("z", 30).as_bytes(), 1).unwrap()).unwrap();
    let names = ["plain.ndjson", "packed.ndjson.gz", "packed.ndjson.zst"].map(path);
    let mut arguments: Vec<&str> = names.iter().map(|name| name.to_str().unwrap()).collect();
    arguments.push("-");
    let out = import(&server, &arguments, lines("i", 7).as_bytes());
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "5077 events stored, 0 refused\n");
    assert_eq!(stored(&server), json!(5077));
}

#[test]
fn what_is_refused_is_told_by_line_and_the_rest_is_stored() {
    let server = Server::start();
    // The last but one is an object, and refused by the server for its length.
    let long = json!({"event_message": "x".repeat(1 << 20)});
    let text = format!("{}nonsense\n[1]\n\n{}{long}\n{{\"a\": ", lines("a", 3), lines("b", 2));
    let out = import(&server, &["-"], text.as_bytes());
    assert!(!out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stdout), "5 events stored, 4 refused\n");
    let told = String::from_utf8_lossy(&out.stderr);
    for words in
        ["line 4: it is not valid JSON", "line 5: it is no JSON object", "line 9: ", "line 10: it is not valid JSON"]
    {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(stored(&server), json!(5));
}

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let server = Server::start_set(&[("TIDEGATE_RATE_INGEST_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "1")]);
    // More than a batch, so that the second one comes too early.
    let big = "x".repeat(10_000);
    let text: String = (0..150)
        .map(|i| format!("{}\n", json!({"id": i.to_string(), "project": "p1", "event_message": big})))
        .collect();
    let out = import(&server, &["-"], text.as_bytes());
    assert!(out.status.success(), "{out:?}");
    assert_eq!(stored(&server), json!(150));
    assert!(server.log().contains("status=429"), "{}", server.log());
}

#[test]
fn what_no_batch_can_mend_ends_it() {
    let server = Server::start();
    for (arguments, token, words) in [
        (vec!["--source", EDGE, "-"], "a-wrong-token-of-some-length", "the server answers 401"),
        (vec!["--source", "no.such.source", "-"], PUBLIC, "there is no source of this name"),
        (vec!["--source", EDGE, "/nowhere.ndjson"], PUBLIC, "/nowhere.ndjson"),
        (vec!["--source", EDGE, "-"], "", "TIDEGATE_TOKEN"),
    ] {
        let mut child = Command::new(binary())
            .args(["import", "--url", &server.base])
            .args(arguments)
            .env("TIDEGATE_TOKEN", token)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(lines("x", 1).as_bytes());
        let out = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && told.contains(words), "{words}: {told}");
    }
}

/// The head of a request or an answer, and its body.
fn read_message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let (mut message, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        message.extend(line.as_bytes());
        if line.len() <= 2 {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    message.extend(body);
    Ok(message)
}

/// Answers each connection, by its number, with the bytes that are made of its request.
fn answering(answer: impl Fn(usize, &[u8]) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            if let Ok(request) = read_message(&mut stream) {
                let _ = stream.write_all(&answer(number, &request));
            }
        }
    });
    url
}

#[test]
fn a_connection_that_breaks_stores_nothing_twice_and_ends_nothing() {
    let server = Server::start();
    let address = server.address().to_owned();
    // The first answer is lost, of the second a part: the server has stored the events.
    let url = answering(move |number, request| {
        let mut server = TcpStream::connect(&address).unwrap();
        server.write_all(request).unwrap();
        let mut answer = read_message(&mut server).unwrap();
        answer.truncate([0, 40].get(number).copied().unwrap_or(usize::MAX));
        // One connection for each request.
        let text = String::from_utf8(answer).unwrap();
        text.replacen("\r\n", "\r\nconnection: close\r\n", 1).into_bytes()
    });
    let out = import_to(&url, &["-"], lines("a", 50).as_bytes());
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "50 events stored, 0 refused\n");
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(told.matches("the same events are sent again").count(), 2, "{told}");
    assert_eq!(stored(&server), json!(50));
}

#[test]
fn an_answer_without_counts_stores_nothing() {
    for (body, words) in [
        ("<!doctype html><title>Login</title>", "not how many events it stored"),
        ("{\"accepted\": 1, \"rejected\": 0}", "for 1 events, and 3 were sent"),
    ] {
        let url = answering(move |_, _| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        });
        let out = import_to(&url, &["-"], lines("a", 3).as_bytes());
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && out.stdout.is_empty(), "{out:?}");
        for words in [words, "is a Tidegate server at that address?", "0 events were stored before"] {
            assert!(told.contains(words), "{told}");
        }
    }
}

/// A line may be several events to the server.
#[test]
fn lines_with_several_events_are_counted_as_such() {
    let server = Server::start();
    let several = json!({"batch": [request("b1", now(), "/"), request("b2", now(), "/"), 7]});
    let out = import(&server, &["-"], format!("{}{several}\n{}", lines("a", 1), lines("c", 1)).as_bytes());
    assert_eq!(String::from_utf8_lossy(&out.stdout), "4 events stored, 1 refused\n", "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("line 2: "), "{out:?}");
    assert_eq!(stored(&server), json!(4));
}
