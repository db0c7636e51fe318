//! Elasticsearch's bulk API, and what its clients ask before they send.

use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, EDGE, PRIVATE, PUBLIC, Server};

use crate::doors::{SOURCE, rows};

fn bulk(server: &Server, path: &str, headers: &[(&str, &str)], lines: &[Value]) -> Answer {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut all = vec![("content-type", "application/x-ndjson")];
    all.extend_from_slice(headers);
    if !headers.iter().any(|(name, _)| *name == "x-api-key") {
        all.push(("x-api-key", PUBLIC));
    }
    let answer = server.call("POST", path, &all, body.as_bytes());
    assert_eq!(answer.header("x-elastic-product"), Some("Elasticsearch"));
    answer
}

fn statuses(answer: &Answer) -> Vec<u64> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    items.iter().map(|item| item.as_object().unwrap().values().next().unwrap()["status"].as_u64().unwrap()).collect()
}

#[test]
fn each_event_of_a_request_has_its_own_fate() {
    let server = Server::start();
    let long = "x".repeat(1 << 20);
    let answer = bulk(
        &server,
        "/_bulk",
        &[],
        &[
            json!({"create": {"_index": SOURCE, "_id": "7"}}),
            json!({"@timestamp": "2025-11-20T10:15:02.123456Z", "message": "a", "host": {"name": "h"}}),
            json!({"index": {"_index": "nowhere"}}),
            json!({"message": "lost"}),
            json!({"index": {"_index": EDGE}, "attempts": 0}),
            json!({"message": "edge", "metadata": {"project": "p1"}}),
            json!({"update": {"_index": SOURCE, "_id": "7"}}),
            json!({"doc": {}}),
            json!({"delete": {"_index": SOURCE, "_id": "7"}}),
            json!({"create": {"_index": SOURCE}}),
            json!({"message": long}),
            json!({"create": {"_index": format!("{SOURCE}-2025.11.20")}}),
            json!({"log": "b", "ts": 1_763_633_702.123_456, "id": "8"}),
        ],
    );
    assert_eq!(statuses(&answer), [201, 401, 201, 400, 400, 400, 201], "{}", answer.body);
    assert_eq!(answer.body["errors"], true);
    assert_eq!(answer.body["items"][1]["index"]["error"]["type"], "security_exception");
    assert!(answer.body["items"][5]["create"]["error"]["reason"].as_str().unwrap().contains("1048576"));
    for (name, count) in [("events", 3.0), ("refused_events", 4.0)] {
        let counted = server.metric(&format!("tidegate_door_{name}_total{{door=\"elasticsearch\"}}"));
        assert!((counted - count).abs() < 0.1, "{name}: {counted}");
    }
    let time = 1_763_633_702_123_456_i64;
    let expected = |id: &str, message: &str| json!({"id": id, "event_message": message, "timestamp": time});
    assert_eq!(rows(&server, "id, event_message, timestamp"), [expected("7", "a"), expected("8", "b")]);
    let private =
        bulk(&server, "/_bulk", &[("x-api-key", PRIVATE)], &[json!({"index": {"_index": "nowhere"}}), json!({})]);
    assert_eq!(statuses(&private), [404]);
}

#[test]
fn the_index_stands_in_the_path_or_the_source_in_the_head() {
    let server = Server::start();
    let lines = [json!({"index": {}}), json!({"message": "m"})];
    assert_eq!(statuses(&bulk(&server, "/postgres.logs/_bulk", &[], &lines)), [201]);
    assert_eq!(statuses(&bulk(&server, "/elasticsearch/postgres.logs/_bulk?timeout=60s", &[], &lines)), [201]);
    assert_eq!(statuses(&bulk(&server, "/nowhere/_bulk", &[("x-source-name", SOURCE)], &lines)), [201]);
    assert_eq!(statuses(&bulk(&server, "/nowhere/_bulk?source_name=postgres.logs", &[], &lines)), [201]);
    assert_eq!(rows(&server, "event_message").len(), 4);
    let body = "{\"index\":{}}\n{\"message\":\"m\"}\n";
    let put = server.call("PUT", "/postgres.logs/_bulk", &[("x-api-key", PUBLIC)], body.as_bytes());
    assert_eq!(statuses(&put), [201]);
    let none = bulk(&server, "/_bulk", &[], &lines);
    assert_eq!((none.status, &none.body["error"]["type"]), (400, &json!("illegal_argument_exception")));
    for body in ["", "x\n", "{\"index\":{}}\n", "{\"index\":{}}\n{}\n{\"put\":{}}\n{}\n"] {
        let headers = [("x-api-key", PUBLIC), ("content-type", "application/json"), ("x-source-name", SOURCE)];
        let answer = server.call("POST", "/_bulk", &headers, body.as_bytes());
        assert_eq!((answer.status, &answer.body["status"]), (400, &json!(400)), "{body:?}");
    }
    assert_eq!(rows(&server, "event_message").len(), 5);
}

#[test]
fn what_clients_ask_first_is_answered_to_those_with_a_token() {
    let server = Server::start();
    let key = [("x-api-key", PUBLIC)];
    for path in ["/", "/elasticsearch/"] {
        let root = server.call("GET", path, &key, b"");
        assert_eq!((root.status, root.header("x-elastic-product")), (200, Some("Elasticsearch")));
        assert!(root.body["version"]["number"].as_str().unwrap().starts_with("9."), "{}", root.body);
        assert_eq!(server.fetch("HEAD", path, &key, b"").status, 200);
        server.call("GET", path, &[("x-api-key", "wrong")], b"").is(401);
    }
    // Nobody else learns of it, and browsers get the console.
    server.call("GET", "/", &[], b"").is(404);
    let page = server.fetch("GET", "/", &[("accept", "text/html"), ("authorization", "Basic x")], b"");
    assert_ne!(page.header("x-elastic-product").as_deref(), Some("Elasticsearch"));
    for prefix in ["", "/elasticsearch"] {
        for path in [
            "/_license",
            "/_xpack",
            "/_cluster/health",
            "/_ilm/policy/a",
            "/_index_template/a",
            "/_data_stream/a",
            "/_template/a",
            "/_cat/templates/a",
            "/_cat/health",
        ] {
            let path = format!("{prefix}{path}");
            assert_eq!(server.call("GET", &path, &key, b"").status, 200, "{path}");
            assert_eq!(server.fetch("HEAD", &path, &key, b"").status, 200, "{path}");
            assert_eq!(server.call("GET", &path, &[], b"").status, 401, "{path}");
            assert_eq!(server.call("PUT", &path, &key, b"{}").status, 405, "{path}");
        }
    }
}

/// What clients demand of an item, those in Java all of it.
#[test]
fn a_stored_document_is_told_with_all_that_clients_read() {
    let server = Server::start();
    let answer = bulk(
        &server,
        "/_bulk",
        &[],
        &[
            json!({"create": {"_index": SOURCE, "_id": "7"}, "attempts": 0}),
            json!({"message": "a"}),
            json!({"index": {"_index": SOURCE}}),
            json!({"MESSAGE": "b"}),
            json!({"index": {"_index": "nowhere", "_id": "9"}}),
            json!({}),
        ],
    );
    assert_eq!(statuses(&answer), [201, 201, 401]);
    let shards = json!({"total": 1, "successful": 1, "failed": 0});
    let first = json!({
        "_index": SOURCE, "_id": "7", "_version": 1, "result": "created", "_shards": shards, "_seq_no": 0, "_primary_term": 1, "status": 201,
    });
    assert_eq!(answer.body["items"][0]["create"], first);
    let refused = &answer.body["items"][2]["index"];
    assert_eq!((&refused["_index"], &refused["_id"]), (&json!("nowhere"), &json!("9")));
    // An id that was made is the event's.
    let made = answer.body["items"][1]["index"]["_id"].as_str().unwrap().to_owned();
    assert_eq!(
        rows(&server, "id, event_message"),
        [json!({"id": "7", "event_message": "a"}), json!({"id": made, "event_message": "b"})]
    );
}

#[test]
fn a_document_is_stored_alone_and_once_under_its_id() {
    let server = Server::start();
    let send = |method: &str, path: &str, body: &str| {
        let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
        let answer = server.call(method, path, &headers, body.as_bytes());
        assert_eq!(answer.header("x-elastic-product"), Some("Elasticsearch"));
        answer
    };
    let (a, b) = ("{\"message\": \"a\"}", "{\n  \"message\": \"b\"\n}\n");
    let made = send("POST", "/postgres.logs/_doc", a);
    assert_eq!((made.status, &made.body["_index"], &made.body["_seq_no"]), (201, &json!(SOURCE), &json!(0)));
    let id = made.body["_id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let answer = send("PUT", "/elasticsearch/postgres.logs/_create/x%2F1", b);
        assert_eq!(
            (answer.status, &answer.body["_id"], &answer.body["result"]),
            (201, &json!("x/1"), &json!("created"))
        );
    }
    let other = send("PUT", "/postgres.logs/_doc/x%2F1", a);
    assert_eq!((other.status, &other.body["error"]["type"]), (409, &json!("version_conflict_engine_exception")));
    assert_eq!(send("POST", "/nowhere/_doc", a).status, 401);
    for bad in ["", "5", "{\"a\": "] {
        assert_eq!(send("POST", "/postgres.logs/_doc", bad).status, 400, "{bad:?}");
    }
    let expected = [json!({"id": id, "event_message": "a"}), json!({"id": "x/1", "event_message": "b"})];
    assert_eq!(rows(&server, "id, event_message"), expected);
}

/// A request whose answer is lost is sent again, perhaps in other batches.
#[test]
fn documents_with_ids_are_stored_once_through_a_restart() {
    let data = Data::new();
    let lines = |ids: std::ops::Range<usize>| -> Vec<Value> {
        let document =
            |id: usize| [json!({"create": {"_index": SOURCE, "_id": id}}), json!({"message": format!("{id:03}")})];
        ids.flat_map(document).collect()
    };
    let server = Server::start_in(&data);
    assert_eq!(statuses(&bulk(&server, "/_bulk", &[], &lines(0..200))), [201; 200]);
    assert_eq!(statuses(&bulk(&server, "/_bulk", &[], &lines(100..250))), [201; 150]);
    // Twice in one request; another text under an id; the same id in another index, and of another sender.
    let other = [json!({"create": {"_index": SOURCE, "_id": "7"}}), json!({"message": "other"})];
    let twice = [lines(250..251), lines(250..251), other.to_vec()].concat();
    assert_eq!(statuses(&bulk(&server, "/_bulk", &[], &twice)), [201, 201, 409]);
    let dated =
        [json!({"create": {"_index": format!("{SOURCE}-2025.11.20"), "_id": "7"}}), json!({"message": "dated"})];
    assert_eq!(statuses(&bulk(&server, "/_bulk", &[], &dated)), [201]);
    let private = bulk(&server, "/_bulk", &[("x-api-key", PRIVATE)], &other);
    assert_eq!(statuses(&private), [201]);
    server.kill_now();
    drop(server);
    let server = Server::start_in(&data);
    assert_eq!(statuses(&bulk(&server, "/_bulk", &[], &lines(200..252))), [201; 52]);
    let found: Vec<String> =
        crate::doors::messages(&server).iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> =
        (0..252).map(|id| format!("{id:03}")).chain(["dated".to_owned(), "other".to_owned()]).collect();
    assert_eq!(found, expected);
}

/// Helpers send those documents again, and end at a request that is refused.
#[test]
fn too_much_at_once_is_told_of_each_document() {
    let server = Server::start_set(&[("TIDEGATE_RATE_INGEST_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "1")]);
    let lines = [
        json!({"index": {"_index": SOURCE, "_id": "1"}}),
        json!({"a": 1}),
        json!({"create": {"_index": SOURCE}}),
        json!({}),
    ];
    let answer =
        (0..3).map(|_| bulk(&server, "/_bulk", &[], &lines)).find(|answer| answer.body["errors"] == true).unwrap();
    assert_eq!(statuses(&answer), [429, 429], "{}", answer.body);
    assert_eq!(answer.body["items"][0]["index"]["error"]["type"], "es_rejected_execution_exception");
    assert_eq!(answer.body["items"][0]["index"]["_id"], "1");
    assert!(answer.header("retry-after").is_some());
    assert!(server.metric("tidegate_door_refused_events_total{door=\"elasticsearch\"}") >= 2.0);
}
