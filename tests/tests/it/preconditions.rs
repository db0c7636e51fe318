//! `If-Match`: what somebody else has changed meanwhile is not replaced. And drafts, which are run without being saved.

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, Server, iso, now, request};

fn send(server: &Server, method: &str, path: &str, tag: Option<&str>, body: &Value) -> Answer {
    let mut headers = vec![("x-api-key", PRIVATE), ("content-type", "application/json")];
    headers.extend(tag.map(|tag| ("if-match", tag)));
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    server.call(method, path, &headers, &body)
}

fn tag(server: &Server, path: &str) -> String {
    let found = send(server, "GET", path, None, &Value::Null).is(200);
    found.header("etag").unwrap().to_owned()
}

#[test]
fn a_version_that_somebody_else_saved_is_not_replaced() {
    let server = Server::start();
    let made = server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    let path = "/api/endpoints/mine";
    let first = tag(&server, path);
    assert_eq!(made.header("etag"), Some(&*first), "what was made has the tag of what is read");
    let query = |n: u32| json!({"query": format!("SELECT {n} AS n")});
    let second = send(&server, "PUT", path, Some(&first), &query(2)).is(200);
    let by = second.body["author"].as_str().unwrap().to_owned();
    let at = second.body["updated_at"].as_str().unwrap().to_owned();
    let second = second.header("etag").unwrap().to_owned();
    assert_eq!(second, tag(&server, path));
    let changes = [
        ("PUT", path.to_owned(), query(3)),
        ("PATCH", path.to_owned(), json!({"max_limit": 7})),
        // Also where it would be no version.
        ("PUT", path.to_owned(), query(2)),
        ("POST", format!("{path}/check"), query(3)),
        ("POST", format!("{path}/versions/1/restore"), Value::Null),
        ("DELETE", path.to_owned(), Value::Null),
    ];
    for (method, path, body) in &changes {
        let refused = send(&server, method, path, Some(&first), body);
        refused.refused(412, "precondition_failed", &["mine", "version 2", &by, &at]);
        assert_eq!(refused.body["error"]["errors"][0]["location"], "if-match");
    }
    let weak = format!("W/{second}");
    send(&server, "PUT", path, Some(&weak), &query(3)).refused(412, "precondition_failed", &[]);
    assert_eq!(server.read(path)["version"], json!(2));
    let several = format!("\"other\", {second}");
    assert_eq!(send(&server, "PUT", path, Some(&several), &query(3)).body["version"], json!(3));
    assert_eq!(send(&server, "PUT", path, Some("*"), &query(4)).body["version"], json!(4));
    // Without the header whatever is there is changed.
    assert_eq!(send(&server, "PUT", path, None, &query(5)).body["version"], json!(5));
    let last = tag(&server, path);
    assert_eq!(send(&server, "DELETE", path, Some(&last), &Value::Null).status, 204);
    // Another endpoint of the name is not the one that was read, though its version has the same number.
    server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    send(&server, "PUT", path, Some(&first), &query(2)).refused(412, "precondition_failed", &["version 1"]);
    let nothing = "/api/endpoints/nothing/check";
    send(&server, "POST", nothing, Some(&first), &json!({"name": "nothing", "query": "SELECT 1 AS n"})).refused(
        412,
        "precondition_failed",
        &["no endpoint"],
    );
}

#[test]
fn of_those_who_change_the_same_version_one_comes_through() {
    let server = Server::start();
    server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 0 AS n"}));
    server.manage("POST", "/api/sources", &json!({"name": "app.logs"}));
    for path in ["/api/endpoints/mine", "/api/sources/app.logs"] {
        let before = tag(&server, path);
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..9)
                .map(|n| {
                    let (server, before) = (&server, &before);
                    let change = match path.contains("sources") {
                        true => json!({"retention_days": n}),
                        false => json!({"query": format!("SELECT {n} AS n")}),
                    };
                    scope.spawn(move || send(server, "PUT", path, Some(before), &change).status)
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
        assert_eq!((count(200), count(412)), (1, 7), "{path}: {statuses:?}");
    }
}

#[test]
fn alerts_and_sources_that_somebody_else_changed_are_not_replaced() {
    let server = Server::start();
    server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    let alert = json!({"name": "many", "every_minutes": 1440, "condition": "rows > 5", "url": "http://127.0.0.1:9/"});
    server.manage("POST", "/api/endpoints/mine/alerts", &alert).is(201);
    server.manage("POST", "/api/sources", &json!({"name": "app.logs"}));
    let alert = "/api/endpoints/mine/alerts/many";
    for (path, theirs, mine) in [
        (alert, json!({"condition": "rows > 6"}), json!({"condition": "rows > 7"})),
        ("/api/sources/app.logs", json!({"retention_days": 6}), json!({"retention_days": 7})),
    ] {
        let before = tag(&server, path);
        let changed = send(&server, "PATCH", path, Some(&before), &theirs);
        assert_eq!((changed.status, changed.header("etag")), (200, Some(&*tag(&server, path))), "{}", changed.body);
        for (method, body) in [("PUT", &mine), ("PATCH", &mine), ("DELETE", &Value::Null)] {
            let refused = send(&server, method, path, Some(&before), body);
            refused.refused(412, "precondition_failed", &["changed meanwhile"]);
        }
        assert_eq!(send(&server, "PUT", path, Some(&tag(&server, path)), &mine).status, 200);
    }
    // Another change of the endpoint is none of the alert.
    let before = tag(&server, alert);
    server.manage("PATCH", "/api/endpoints/mine", &json!({"max_limit": 70})).is(200);
    assert_eq!(tag(&server, alert), before);
    // Rows that come are no change of the settings.
    let source = "/api/sources/app.logs";
    let before = tag(&server, source);
    server.send("app.logs", &json!([{"event_message": "a"}]));
    assert_eq!(tag(&server, source), before);
    send(&server, "PUT", alert, Some("\"x\""), &json!({})).refused(412, "precondition_failed", &["mine", "version 5"]);
}

#[test]
fn a_component_replaces_the_version_that_was_seen() {
    let server = Server::start();
    server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    let path = "/api/endpoints/mine";
    let component = server.fetch("GET", &format!("{path}/component"), &[("x-api-key", PRIVATE)], b"").body;
    let first = tag(&server, path);
    server.manage("PUT", path, &json!({"query": "SELECT 2 AS n"}));
    let put = |name: &str, tag: &str| {
        let headers = [("x-api-key", PRIVATE), ("content-type", "application/wasm"), ("if-match", tag)];
        server.call("PUT", &format!("/api/endpoints/{name}/component"), &headers, &component)
    };
    put("mine", &first).refused(412, "precondition_failed", &["version 2"]);
    assert_eq!(server.query("mine", &[]).column("n"), [json!(2)]);
    let saved = put("mine", &tag(&server, path));
    assert_eq!((saved.status, &saved.body["version"]), (200, &json!(3)), "{}", saved.body);
    assert_eq!(saved.header("etag"), Some(&*tag(&server, path)));
    server.manage("DELETE", path, &Value::Null);
    put("mine", "*").refused(412, "precondition_failed", &["no endpoint"]);
}

#[test]
fn a_draft_is_run_and_not_saved() {
    let server = Server::start();
    let old = now() - 3_600_000_000;
    server
        .send(EDGE, &json!([request("a", now() - 60_000_000, "/x"), request("b", old, "/x"), request("c", old, "/y")]));
    let query =
        |more: &str| format!("WITH t AS (SELECT id, timestamp FROM `{EDGE}`) SELECT id FROM t {more} ORDER BY id");
    let saved = json!({"name": "mine", "query": query(""), "cache_duration_seconds": 60, "max_limit": 2});
    server.save(&saved);
    let attempt = |name: &str, body: Value| server.manage("POST", &format!("/api/endpoints/{name}/try"), &body);
    let parameters = json!([{"name": "since", "kind": "timestamp", "required": true}]);
    let draft = json!({"query": query("WHERE timestamp >= @since"), "parameters": parameters});
    let with = |since: &str| {
        let mut body = draft.clone();
        body["arguments"] = json!({"since": since});
        attempt("mine", body)
    };
    assert_eq!(with(&iso(now() - 600_000_000)).column("id"), [json!("a")]);
    assert_eq!(with("now-10m").column("id"), [json!("a")]);
    // Its settings are those of the draft, or of the version before.
    let all = with("now-1d");
    assert_eq!((all.column("id").len(), all.header("x-result-truncated")), (2, Some("true")));
    attempt("mine", draft.clone()).refused(400, "invalid_parameter", &["since", "required"]);
    with("soon").refused(400, "invalid_parameter", &["now-5m"]);
    attempt("mine", json!({"query": "SELECT nothing FROM nowhere"})).refused(422, "refused", &["nowhere"]);
    attempt("mine", json!({"arguments": [], "max_limit": -1})).refused(422, "refused", &["arguments", "max_limit"]);
    // As a new endpoint, too.
    let new = json!({"name": "other", "query": "SELECT @n + 1 AS n", "parameters": [{"name": "n", "kind": "int64"}], "arguments": {"n": 4}});
    assert_eq!(attempt("other", new).column("n"), [json!(5)]);
    server.manage("GET", "/api/endpoints/other", &Value::Null).refused(404, "not_found", &[]);
    let shown = server.manage("GET", "/api/endpoints/mine", &Value::Null);
    assert_eq!((&shown.body["version"], &shown.body["query"]), (&json!(1), &json!(query(""))));
    assert_eq!(server.query("mine", &[]).column("id"), [json!("a"), json!("b")], "callers get the saved one");
    let headers = [("x-api-key", tidegate_tests::PUBLIC), ("content-type", "application/json")];
    server.call("POST", "/api/endpoints/mine/try", &headers, b"{}").refused(403, "forbidden", &[]);
}

/// A kept answer is that of its question: it is not made anew for each moment, and the next one is of the time then.
#[test]
fn times_are_relative_to_the_request_and_answers_to_them_are_kept() {
    let server = Server::start();
    let old = now() - 3_600_000_000;
    server.send(EDGE, &json!([request("a", now() - 60_000_000, "/x"), request("b", old, "/x")]));
    for (name, kind) in [("typed", json!({"kind": "timestamp"})), ("text", json!({"format": "timestamp"}))] {
        let mut since = json!({"name": "since", "default": "now-10m"});
        since.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let query = format!("SELECT id FROM `{EDGE}` WHERE timestamp >= CAST(@since AS TIMESTAMP) ORDER BY id");
        let endpoint = json!({"name": name, "query": query, "parameters": [since], "cache_duration_seconds": 60});
        server.save(&endpoint);
        let ask = |parameters: &[(&str, &str)]| {
            let answer = server.query(name, parameters);
            (answer.column("id"), answer.header("cache-status").unwrap_or_default().to_owned())
        };
        let (ids, status) = ask(&[]);
        assert_eq!(ids, [json!("a")]);
        assert!(status.contains("miss"), "{status}");
        let (ids, status) = ask(&[("since", "now-10m")]);
        assert_eq!(ids, [json!("a")]);
        assert!(status.contains("hit"), "the default is the same question: {status}");
        let (ids, status) = ask(&[("since", "now-2h")]);
        assert_eq!(ids, [json!("a"), json!("b")]);
        assert!(status.contains("miss"), "{status}");
        server.query(name, &[("since", "now-2y")]).refused(400, "invalid_parameter", &["since", "now-5m"]);
        let bad = json!({"parameters": [{"name": "since", "kind": "timestamp", "default": "now-5"}]});
        server.manage("PATCH", &format!("/api/endpoints/{name}"), &bad).refused(422, "refused", &["now-5m"]);
    }
}
