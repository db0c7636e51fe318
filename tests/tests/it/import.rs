//! `tidegate import`: files into a running server.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tidegate_tests::{EDGE, PUBLIC, Server, binary, folder, now, request};

fn import(server: &Server, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .args(["import", "--source", EDGE, "--url", &server.base])
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
