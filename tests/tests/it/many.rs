//! Many endpoints: few of them are called, and those that are not cost next to nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, Server, now, request};

/// `/ready`, when all endpoints are checked.
fn checked(server: &Server) -> Value {
    let began = Instant::now();
    loop {
        let ready = server.call("GET", "/ready", &[], b"").is(200);
        if ready.body["unchecked_endpoints"] == 0 {
            return ready.body;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{}", ready.body);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn endpoints_of_queries_share_one_piece_of_code_and_are_there_after_a_restart() {
    let data = Data::new();
    let server = Server::start_set_in(&data, &[]);
    server.send(EDGE, &json!([request("1", now(), "/a"), request("2", now(), "/b")]));
    for i in 0..30 {
        let query = format!("SELECT id, {i} AS number FROM `{EDGE}` WHERE id = @id");
        let saved = json!({"name": format!("e{i}"), "query": query, "cache_duration_seconds": 60});
        server.save(&saved);
    }
    let reader = json!({"name": "reader", "query": "SELECT number FROM e7"});
    server.save(&reader);
    let asks = |server: &Server| {
        for i in [0, 7, 29] {
            let answer = server.query(&format!("e{i}"), &[("id", "2")]);
            assert_eq!(answer.rows(), [json!({"id": "2", "number": i})]);
        }
        // Its parameters are those of the endpoint that it reads.
        assert_eq!(server.query("reader", &[("id", "1")]).rows(), [json!({"number": 7})]);
    };
    asks(&server);
    let compiled = || std::fs::read_dir(data.join("compiled")).unwrap().count();
    assert_eq!(compiled(), 2, "one for saved queries, one for ad-hoc ones");
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = Server::start_set_in(&data, &[]);
    asks(&server);
    let list = server.manage("GET", "/api/endpoints", &Value::Null);
    assert_eq!(list.body.as_array().unwrap().len(), 33);
    assert_eq!(checked(&server)["warnings"], json!([]));
    assert_eq!(compiled(), 2);
    // A change of what another reads holds from the next request on, for kept answers too.
    let change = json!({"query": format!("SELECT id, 700 AS number FROM `{EDGE}` WHERE id = @id")});
    server.manage("PATCH", "/api/endpoints/e7", &change).is(200);
    assert_eq!(server.query("reader", &[("id", "1")]).rows(), [json!({"number": 700})]);
    assert_eq!(server.query("e7", &[("id", "1")]).rows(), [json!({"id": "1", "number": 700})]);
    server.manage("PATCH", "/api/endpoints/e8", &json!({"name": "renamed"})).is(200);
    assert_eq!(server.query("renamed", &[("id", "1")]).rows().len(), 1);
    server.query("e8", &[("id", "1")]).refused(404, "not_found", &["e8"]);
    server.manage("DELETE", "/api/endpoints/renamed", &Value::Null).is(204);
    server.query("renamed", &[("id", "1")]).refused(404, "not_found", &["renamed"]);
    assert_eq!(compiled(), 2);
}

#[test]
fn an_endpoint_that_would_be_refused_now_is_told_of_and_can_be_mended() {
    let data = Data::new();
    let server = Server::start_set_in(&data, &[]);
    server.send(EDGE, &request("1", now(), "/a"));
    let long = format!("SELECT id FROM `{EDGE}` -- {}", "x".repeat(40_000));
    let short = format!("SELECT id FROM `{EDGE}`");
    let odd = format!("WITH t AS (SELECT id FROM `{EDGE}`) SELECT id, nowhere FROM t");
    let save = |name: &str, query: &str| {
        let saved = server.save(&json!({"name": name, "query": query}));
        saved.body["warnings"].to_string()
    };
    assert_eq!((save("long", &long), save("short", &short)), ("[]".to_owned(), "[]".to_owned()));
    let warned = save("odd", &odd);
    assert!(warned.contains("nowhere"), "{warned}");
    assert_eq!(server.query("long", &[]).ids(), ["1"]);
    assert_eq!(server.stop("-TERM"), Some(0));

    let server = Server::start_set_in(&data, &[("TIDEGATE_LIMITS_TEXT_BYTES", "32 KiB")]);
    // Ready before everything is checked, and whatever is found.
    assert_eq!(server.query("short", &[]).ids(), ["1"]);
    let ready = checked(&server);
    assert_eq!(ready["warnings"][0]["what"], "endpoints", "{ready}");
    assert!(ready["warnings"][0]["message"].as_str().unwrap().starts_with("1 of the saved"), "{ready}");
    server.query("long", &[]).refused(500, "internal", &["long cannot be used any more"]);
    assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["1"]);
    let list = server.read("/api/endpoints");
    let warnings = |name: &str| {
        let mut all = list.as_array().unwrap().iter();
        all.find(|shown| shown["name"] == name).unwrap()["warnings"].to_string()
    };
    assert!(warnings("long").contains("it cannot be used"), "{}", warnings("long"));
    assert_eq!(warnings("odd"), warned, "what was told on save is known again");
    assert_eq!((warnings("short"), warnings("logs.all")), ("[]".to_owned(), "[]".to_owned()));
    let taken = server.manage("POST", "/api/endpoints", &json!({"name": "long", "query": "SELECT 1 AS n"}));
    taken.refused(422, "refused", &["already"]);

    let mended = server.manage("PATCH", "/api/endpoints/long", &json!({"query": short}));
    assert_eq!((mended.status, &mended.body["version"]), (200, &json!(2)), "{}", mended.body);
    assert_eq!(server.query("long", &[]).ids(), ["1"]);
    assert_eq!(checked(&server)["warnings"], json!([]));
}
