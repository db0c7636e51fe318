//! Elasticsearch's bulk API, and what its clients ask before they send.

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, PUBLIC, Server};

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
            json!({"index": {"_index": EDGE}}),
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
        assert_eq!(server.call("GET", path, &[("x-api-key", "wrong")], b"").status, 401);
    }
    // Nobody else learns of it, and browsers get the console.
    assert_eq!(server.call("GET", "/", &[], b"").status, 404);
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
        ] {
            let path = format!("{prefix}{path}");
            assert_eq!(server.call("GET", &path, &key, b"").status, 200, "{path}");
            assert_eq!(server.fetch("HEAD", &path, &key, b"").status, 200, "{path}");
            assert_eq!(server.call("GET", &path, &[], b"").status, 401, "{path}");
            assert_eq!(server.call("PUT", &path, &key, b"{}").status, 405, "{path}");
        }
    }
}
