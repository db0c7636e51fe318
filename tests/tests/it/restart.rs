//! Starting and stopping: what is kept, what is printed, what is refused.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, Server, binary, folder, now, request};

#[test]
fn everything_is_there_after_a_stop_and_a_start() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let events: Vec<Value> = (0..50).map(|i| request(&i.to_string(), now(), "/x")).collect();
    server.send(EDGE, &Value::Array(events));
    let saved = server.save(&json!({"name": "mine", "query": "select 7 as seven"}));
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = Server::start_in(&data);
    assert_eq!(server.sql("select count(*) as c from edge_logs").column("c"), [json!(50)]);
    assert_eq!(server.query("mine", &[]).rows(), [json!({"seven": 7})]);
    assert_eq!(server.query(saved.body["id"].as_str().unwrap(), &[]).rows(), [json!({"seven": 7})]);
    // What its owner deletes stays deleted.
    server.manage("DELETE", "/api/endpoints/usage.api-counts", &Value::Null).is(204);
    assert_eq!(server.stop("-INT"), Some(0));
    let server = Server::start_in(&data);
    server.query("usage.api-counts", &[("interval", "daily"), ("project", "x")]).is(404);
}

#[test]
fn the_first_start_prints_two_tokens_once() {
    let data = Data::new();
    let server = Server::start_with(&data, false);
    let log = server.log();
    let token =
        |what: &str| log.lines().find(|line| line.contains(what)).unwrap().rsplit(' ').next().unwrap().to_owned();
    let (private, public) = (token("private ("), token("public ("));
    let path = "/api/endpoints/query/logs.all?project=p1";
    server.call("GET", path, &[("x-api-key", &private)], b"").is(200);
    server.call("GET", path, &[("x-api-key", &public)], b"").is(403);
    server.stop("-TERM");
    let before = log.len();
    let server = Server::start_with(&data, false);
    assert!(!server.log()[before..].contains("tg_"), "tokens are shown once");
    server.call("GET", path, &[("x-api-key", &private)], b"").is(200);
    let files = Command::new("grep").args(["-rla", &private]).arg(&data).output().unwrap();
    assert!(files.stdout.is_empty(), "the token is not kept in clear: {}", String::from_utf8_lossy(&files.stdout));
}

#[test]
fn two_servers_do_not_share_a_folder_or_a_port() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let address = server.address().to_owned();
    let second = |listen: &str, data: &std::path::Path| {
        let out = Command::new(binary()).args(["serve", "--listen", listen, "--data-dir"]).arg(data).output().unwrap();
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(second("127.0.0.1:0", &data).contains("in use by another process"));
    assert!(second(&address, &data.beside("other")).contains("cannot listen"));
}

#[test]
fn weak_tokens_are_refused() {
    let folder = folder();
    let out = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", "short")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).contains("shorter than 16"), "{out:?}");
}
