//! Errors of queries with status 200, for log viewers that read what is wrong only from answers that succeeded.

use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, EDGE, PRIVATE, PUBLIC, Server, query_string};

const OK: (&str, &str) = ("TIDEGATE_SERVER_ERRORS", "ok");

fn get(server: &Server, token: &str, path: &str) -> Answer {
    server.call("GET", path, &[("x-api-key", token)], b"")
}

/// Asserts an error in the form of an answer that succeeded.
fn is_ok(answer: &Answer, status: &str, words: &[&str]) {
    assert_eq!((answer.status, answer.header("x-tidegate-status")), (200, Some(status)), "{}", answer.body);
    let body = answer.body.as_object().unwrap();
    assert_eq!((body.len(), &body["result"]), (2, &Value::Null), "{body:?}");
    let text = body["error"].as_str().expect("a text");
    for word in words {
        assert!(text.contains(word), "{text:?} lacks {word:?}");
    }
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!((answer.header("etag"), answer.header("age"), answer.header("cache-status")), (None, None, None));
}

#[test]
fn every_error_of_a_query_has_the_form_and_nothing_else_has() {
    let server = Server::start_set(&[OK, ("TIDEGATE_SERVER_BODY_TIMEOUT", "200 ms")]);
    let bad = query_string(&[("project", "p1"), ("sql", "SELECT timestmp FROM edge_logs")]);
    for path in ["/api/endpoints/query", "/endpoints/query"] {
        let answer = get(&server, PRIVATE, &format!("{path}/logs.all?{bad}"));
        is_ok(&answer, "400", &["timestmp", "did you mean timestamp", "line 1, column 8"]);
    }
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
    let body = json!({"project": "p1", "sql": "SELEC 1"}).to_string();
    is_ok(&server.call("POST", "/api/endpoints/query/logs.all", &headers, body.as_bytes()), "400", &["SELEC"]);
    is_ok(&server.call("POST", "/api/endpoints/query/logs.all", &headers, b"{"), "400", &["not valid JSON"]);
    is_ok(&get(&server, PRIVATE, "/api/endpoints/query/logs.all"), "400", &["'project'"]);
    is_ok(&get(&server, PRIVATE, "/api/endpoints/query/logs.al"), "404", &["did you mean logs.all"]);
    is_ok(&get(&server, PUBLIC, "/api/endpoints/query/logs.all"), "403", &["scope"]);
    is_ok(&get(&server, "wrong", "/api/endpoints/query/logs.all"), "401", &["unknown"]);
    is_ok(&get(&server, PRIVATE, "/api/endpoints/query/%FF"), "400", &["cannot be read"]);
    let head = format!(
        "POST /api/endpoints/query/logs.all HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\ncontent-length: 9\r\n\r\n{{"
    );
    let slow = server.exchange(&[head.as_bytes()]);
    assert!(slow.starts_with("HTTP/1.1 200") && slow.contains("x-tidegate-status: 408"), "{slow}");
    assert!(slow.contains("came too slowly"), "{slow}");
    // A long one is not compressed, and is whole.
    let long = query_string(&[("project", "p1"), ("sql", &format!("SELECT {} FROM edge_logs", "x".repeat(4000)))]);
    let long = format!("/api/endpoints/query/logs.all?{long}");
    let packed = server.call("GET", &long, &[("x-api-key", PRIVATE), ("accept-encoding", "gzip")], b"");
    is_ok(&packed, "400", &["xxx"]);
    assert_eq!(packed.header("content-encoding"), None);
    assert_eq!(packed.header("access-control-expose-headers"), Some("*"));

    // Answers are as they were, and so is everything that is no query.
    let good = server.sql("SELECT COUNT(*) AS n FROM edge_logs");
    assert_eq!((good.column("n"), good.header("x-tidegate-status")), (vec![json!(0)], None));
    server.manage("GET", "/api/endpoints/none", &Value::Null).refused(404, "not_found", &[]);
    server.send_raw(EDGE, &[], b"{").refused(400, "invalid_body", &[]);
    get(&server, PRIVATE, "/api/nothing").refused(404, "not_found", &[]);
}

/// Only JSON has a place for an error beside the rows: elsewhere it would be read as rows.
#[test]
fn other_formats_keep_the_status() {
    let server = Server::start_set(&[OK]);
    let types =
        [("ndjson", "application/x-ndjson"), ("csv", "text/csv"), ("arrow", "application/vnd.apache.arrow.stream")];
    for (format, media) in types {
        for token in [PRIVATE, "wrong"] {
            let (status, code) = if token == PRIVATE { (400, "unknown_column") } else { (401, "unauthorized") };
            let ask = |more: &[(&str, &str)], headers: &[(&str, &str)]| {
                let mut parameters = vec![("project", "p1"), ("sql", "SELECT nope FROM edge_logs")];
                parameters.extend(more);
                let mut all = vec![("x-api-key", token)];
                all.extend(headers);
                let path = format!("/api/endpoints/query/logs.all?{}", query_string(&parameters));
                let answer = server.call("GET", &path, &all, b"");
                answer.refused(status, code, &[]);
                assert_eq!(answer.header("x-tidegate-status"), None);
            };
            ask(&[("format", format)], &[]);
            ask(&[], &[("accept", media)]);
        }
    }
}

#[test]
fn the_token_counts_before_the_endpoint_before_the_server() {
    let choices = [Value::Null, json!("status"), json!("ok")];
    for of_server in ["status", "ok"] {
        let server = Server::start_set(&[("TIDEGATE_SERVER_ERRORS", of_server)]);
        let tokens: Vec<String> =
            choices.iter().map(|errors| server.token(&json!({"scopes": "query", "errors": errors}))).collect();
        let elsewhere = server.token(&json!({"scopes": "query:endpoint:logs.all"}));
        for (number, of_endpoint) in choices.iter().enumerate() {
            let name = format!("e{number}");
            let fields = json!({"name": name, "query": "SELECT CAST(@x AS INT64) AS n", "errors": of_endpoint});
            let saved = server.manage("POST", "/api/endpoints", &fields);
            assert_eq!((saved.status, &saved.body["errors"]), (201, of_endpoint), "{}", saved.body);
            let path = format!("/api/endpoints/query/{name}?x=a");
            for (of_token, token) in choices.iter().zip(&tokens) {
                let what = format!("server {of_server}, endpoint {of_endpoint}, token {of_token}");
                let chosen = [of_token, of_endpoint].into_iter().find_map(Value::as_str).unwrap_or(of_server);
                let answer = get(&server, token, &path);
                match chosen {
                    "ok" => is_ok(&answer, "400", &["'a'"]),
                    _ => answer.refused(400, "invalid_value", &[]),
                }
                assert_eq!(answer.header("x-tidegate-status").is_some(), chosen == "ok", "{what}");
            }
            // Who may not call an endpoint does not learn what it says.
            let refused = get(&server, &elsewhere, &path);
            match of_server {
                "ok" => is_ok(&refused, "403", &[]),
                _ => refused.refused(403, "forbidden", &[]),
            }
        }
        // Where there is no endpoint, the token's word and the server's are left.
        for (of_token, token) in choices.iter().zip(&tokens) {
            let answer = get(&server, token, "/api/endpoints/query/nowhere");
            match of_token.as_str().unwrap_or(of_server) {
                "ok" => is_ok(&answer, "404", &["nowhere"]),
                _ => answer.refused(404, "not_found", &[]),
            }
        }
    }
}

#[test]
fn an_error_is_counted_as_what_it_is_and_kept_by_nobody() {
    let server = Server::start_set(&[OK, ("TIDEGATE_SERVER_LOG_FORMAT", "json")]);
    let fields = json!({"name": "n", "query": "SELECT CAST(@x AS INT64) AS n", "cache_duration_seconds": 600});
    server.save(&fields);
    for _ in 0..2 {
        is_ok(&get(&server, PRIVATE, "/api/endpoints/query/n?x=a"), "400", &["'a'"]);
    }
    assert_eq!(get(&server, PRIVATE, "/api/endpoints/query/n?x=5").column("n"), [json!(5)]);
    let route = r#"route="/api/endpoints/query/{endpoint}""#;
    let count = |name: &str| server.metric(name);
    assert_eq!(count(&format!(r#"tidegate_requests_total{{{route},method="GET",status="4xx"}}"#)), 2.0);
    assert_eq!(count(&format!(r#"tidegate_requests_total{{{route},method="GET",status="2xx"}}"#)), 1.0);
    assert_eq!(count(&format!(r#"tidegate_failures_total{{{route},code="invalid_value"}}"#)), 2.0);
    assert_eq!(count("tidegate_cache_entries"), 1.0);
    let log = server.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(|line| line["path"] == "/api/endpoints/query/n").collect();
    let told: Vec<_> = lines.iter().map(|line| (line["status"].as_u64(), line["code"].as_str())).collect();
    assert_eq!(told, [(Some(400), Some("invalid_value")), (Some(400), Some("invalid_value")), (Some(200), None)]);
}

#[test]
fn the_choice_is_shown_taken_and_carried_along() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let fields = json!({"name": "e", "query": "SELECT 1 AS n", "errors": "ok"});
    server.save(&fields);
    let operation = |name: &str| {
        let document = server.read("/api/openapi");
        document["paths"][format!("/api/endpoints/query/{name}")]["get"]["responses"]["200"].clone()
    };
    let described = |name: &str| {
        let response = operation(name);
        let schema = response["content"]["application/json"]["schema"].to_string();
        (schema.contains("ErrorAsText"), response["headers"]["x-tidegate-status"].is_object())
    };
    assert_eq!((described("e"), described("logs.all")), ((true, true), (false, false)));

    // As a folder, and back: the same endpoint.
    let run = |arguments: &[&str]| {
        let out = server.client(arguments).current_dir(data.around()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    run(&["pull", "e"]);
    let toml = std::fs::read_to_string(data.beside("e/endpoint.toml")).unwrap();
    assert!(toml.contains("errors = \"ok\""), "{toml}");
    assert!(run(&["push", "e"]).contains("e: version 1, "), "nothing is changed by it");
    run(&["pull", "logs.all"]);
    let toml = std::fs::read_to_string(data.beside("logs.all/endpoint.toml")).unwrap();
    assert!(!toml.contains("errors"), "{toml}");

    for (method, path) in [("PATCH", "/api/endpoints/e"), ("POST", "/api/access-tokens")] {
        let refused = server.manage(method, path, &json!({"scopes": "query", "errors": "200"}));
        refused.refused(422, "refused", &["errors must be \"status\", \"ok\", or null"]);
    }
    let changed = server.manage("PATCH", "/api/endpoints/e", &json!({"errors": null}));
    assert_eq!((changed.status, &changed.body["errors"], &changed.body["version"]), (200, &Value::Null, &json!(2)));

    // Tokens of the command line.
    let folder = data.to_str().unwrap();
    let made = run(&["token", "create", "--data-dir", folder, "--scopes", "query", "--errors", "ok"]);
    is_ok(&get(&server, made.trim(), "/api/endpoints/query/nowhere"), "404", &[]);
    assert!(run(&["token", "list", "--data-dir", folder]).contains("query  errors ok"));
    let shown = server.read("/api/access-tokens");
    assert!(shown.as_array().unwrap().iter().any(|token| token["errors"] == "ok"), "{shown}");
}
