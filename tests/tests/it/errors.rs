//! Requests that must be refused, each with a true status and words that help.

use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, PUBLIC, Server, folder, now, query_string, request, until};

#[test]
fn parameters_are_checked_by_name() {
    let server = Server::start();
    let counts = |parameters: &[(&str, &str)]| server.query("usage.api-counts", parameters);
    counts(&[("interval", "daily")]).refused(400, "invalid_parameter", &["'project'", "required"]);
    counts(&[("project", "p")]).refused(400, "invalid_parameter", &["'interval'", "minutely, hourly, daily"]);
    for interval in ["weekly", "", "DAILY", "daily;drop"] {
        let answer = counts(&[("interval", interval), ("project", "p")]);
        answer.refused(400, "invalid_parameter", &["'interval'", "minutely, hourly, daily"]);
        assert_eq!(answer.body["error"]["errors"][0]["location"], "interval");
    }
    counts(&[("interval", "daily"), ("project", "a(b")]).refused(
        400,
        "invalid_parameter",
        &["'project'", "regular expression"],
    );
    server.query("logs.all", &[]).refused(400, "invalid_parameter", &["'project'"]);
    for bound in ["iso_timestamp_start", "iso_timestamp_end"] {
        let answer = server.query("logs.all", &[("project", "p"), (bound, "yesterday")]);
        answer.refused(400, "invalid_parameter", &[bound, "ISO 8601", "yesterday"]);
    }
}

/// A body that cannot be read as a whole is not called too large.
#[test]
fn a_body_that_breaks_off_is_a_bad_body() {
    let server = Server::start();
    for (method, path) in [
        ("POST", "/api/endpoints/query/logs.all"),
        ("POST", "/api/endpoints"),
        ("PUT", "/api/endpoints/logs.all/component"),
    ] {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let said = server.exchange(&[head.as_bytes(), b"3\r\n{\"a\r\nnot-a-length\r\n"]);
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("invalid_body"), "{path}: {said}");
    }
}

#[test]
fn tokens_are_needed_and_have_scopes() {
    let server = Server::start();
    let path = "/api/endpoints/query/logs.all?project=p1";
    server.call("GET", path, &[], b"").refused(401, "unauthorized", &["X-API-KEY"]);
    server.call("GET", path, &[("x-api-key", "wrong")], b"").refused(401, "unauthorized", &["unknown"]);
    server.call("GET", path, &[("x-api-key", PUBLIC)], b"").refused(403, "forbidden", &["query"]);
    // Whether an endpoint exists is not told to those who may not query it.
    let absent = "/api/endpoints/query/no.such?project=p1";
    server.call("GET", absent, &[("x-api-key", PUBLIC)], b"").refused(403, "forbidden", &[]);
    server.call("GET", absent, &[("x-api-key", PRIVATE)], b"").refused(404, "not_found", &["no.such"]);
    let bearer = format!("Bearer {PRIVATE}");
    server.call("GET", path, &[("authorization", &bearer)], b"").is(200);
    server.call("GET", "/api/endpoints", &[("x-api-key", PUBLIC)], b"").refused(403, "forbidden", &["private"]);
    server.call("GET", "/nothing", &[], b"").refused(404, "not_found", &["/nothing"]);
    server.call("DELETE", "/health", &[], b"").refused(405, "method_not_allowed", &["DELETE"]);
    assert_eq!(server.call("GET", "/health", &[], b"").body["status"], "ok");
    server.call("GET", "/ready", &[], b"").is(200);
}

#[test]
fn sql_mistakes_are_told_with_their_place() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    server.sql("select id\nfrom edge_logz").refused(
        400,
        "unknown_table",
        &["edge_logz", "edge_logs", "line 2, column 6"],
    );
    server.sql("select idd from edge_logs").refused(400, "unknown_column", &["idd", "did you mean id?", "column 8"]);
    server.sql("select lowwer(id) from edge_logs").refused(400, "unknown_function", &["LOWER"]);
    server.sql("select id from edge_logs where (").refused(400, "syntax_error", &[]);
    server.sql("select id, count(*) from edge_logs").refused(400, "invalid_query", &["id", "GROUP BY"]);
    let twice = "select (select count(*) from edge_logs) as n, id, count(*) from edge_logs";
    server.sql(twice).refused(400, "invalid_query", &["id", "GROUP BY"]);
    server.sql("select cast(event_message as int64) as n from edge_logs").refused(
        400,
        "invalid_value",
        &["INT64", "SAFE_CAST"],
    );
    server.sql("select regexp_contains(event_message, '[') as b from edge_logs").refused(
        400,
        "invalid_query",
        &["regular expression"],
    );
    server
        .sql("select response.status_code from edge_logs cross join unnest(metadata) as m where responze.x = 1")
        .refused(400, "unknown_column", &[]);
}

#[test]
fn every_way_to_send_parameters_works() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    let path = "/api/endpoints/query/logs.all";
    let key = ("x-api-key", PRIVATE);
    let json_type = ("content-type", "application/json; charset=utf-8");
    let by_post =
        server.call("POST", path, &[key, json_type], br#"{"project": "p1", "sql": "select id from edge_logs"}"#);
    assert_eq!(by_post.ids(), ["1"]);
    let form = server.call(
        "POST",
        path,
        &[key, ("content-type", "application/x-www-form-urlencoded")],
        b"project=p1&sql=select+id+from+edge_logs",
    );
    assert_eq!(form.ids(), ["1"]);
    let unknown = server.query("logs.all", &[("project", "p1"), ("ref", "default"), ("project_tier", "ENTERPRISE")]);
    assert_eq!(unknown.ids(), ["1"]);
    server.call("POST", path, &[key, json_type], b"{").refused(400, "invalid_body", &["JSON"]);
    server.query("logs.all", &[("project", "p1"), ("project", "p2")]).refused(
        400,
        "invalid_parameter",
        &["'project'", "twice"],
    );
}

#[test]
fn a_long_query_string_is_taken() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    let mut sql = "select id from edge_logs where id in ('1'".to_owned();
    let path =
        |sql: &str| format!("/api/endpoints/query/logs.all?{}", query_string(&[("project", "p1"), ("sql", sql)]));
    while path(&format!("{sql},'x')")).len() < 65_400 {
        sql.push_str(",'x'");
    }
    sql.push(')');
    let answer = server.call("GET", &path(&sql), &[("x-api-key", PRIVATE)], b"");
    assert_eq!(answer.ids(), ["1"]);
}

#[test]
fn endpoints_are_checked_when_they_are_saved() {
    let server = Server::start();
    let save = |name: &str, query: &str| {
        server.manage("POST", "/api/endpoints", &json!({"name": name, "query": query, "sandboxable": true}))
    };
    let good = save(
        "errors.by.level",
        "with t as (select id, event_message from `postgres.logs`) select count(*) as c from t",
    )
    .is(201);
    assert_eq!(server.query("errors.by.level", &[]).rows(), [json!({"c": 0})]);
    save("errors.by.level", "select 1").refused(422, "refused", &["errors.by.level", "unique"]);
    save("x", "select * from nowhere").refused(422, "refused", &["nowhere"]);
    save("x", "delete from `postgres.logs` where true").refused(422, "refused", &[]);
    save("x", "").refused(422, "refused", &["empty"]);
    save("a/b", "select 1").refused(422, "refused", &["name"]);
    let id = good.body["id"].as_str().unwrap().to_owned();
    let path = format!("/api/endpoints/{id}");
    assert_eq!(server.manage("PUT", &path, &json!({"query": "select 2 as c"})).body["version"], 2);
    assert_eq!(server.query("errors.by.level", &[]).rows(), [json!({"c": 2})]);
    server.manage("DELETE", &path, &Value::Null).is(204);
    server.query("errors.by.level", &[]).refused(404, "not_found", &[]);
}

#[test]
fn a_get_may_carry_its_query_in_a_json_body() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    let body = r#"{"sql": "select id from edge_logs", "project": "p2"}"#;
    let head = format!(
        "GET /api/endpoints/query/logs.all?project=p1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {PRIVATE}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer = server.exchange(&[head.as_bytes(), body.as_bytes()]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with(r#"{"result":[{"id":"1"}]}"#), "the project is the query string's: {answer}");
}

#[test]
fn what_no_route_can_read_is_refused_in_the_same_shape() {
    let server = Server::start();
    for path in
        ["/api/sources/%FF", "/api/sources/postgres.logs/recent?limit=1&limit=2", "/api/endpoints/query/%ff?a=1"]
    {
        server.call("GET", path, &[("x-api-key", PRIVATE)], b"").refused(400, "invalid_parameter", &["cannot be read"]);
    }
}

#[test]
fn a_refused_request_leaves_its_connection_usable_or_says_that_it_ends() {
    let server = Server::start();
    for head in [
        "POST /nowhere HTTP/1.1\r\nhost: x\r\n".to_owned(),
        "POST /api/logs?source_name=postgres.logs HTTP/1.1\r\nhost: x\r\nx-api-key: wrong\r\n".to_owned(),
        format!("DELETE /api/endpoints/absent HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n"),
    ] {
        let head = format!("{head}content-length: 4\r\n\r\n");
        let answers = server.exchange(&[head.as_bytes(), b"null", b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"]);
        assert!(answers.contains(r#"{"status":"ok"}"#) || answers.contains("connection: close"), "{head}{answers}");
    }
}

/// Over rows in memory and over those in segments, whose scan computes filters itself.
#[test]
fn a_filter_that_cannot_be_computed_is_told() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Server::start_in(&data);
    let event = |i: i64| json!({"id": i.to_string(), "project": "p1", "event_message": "text", "metadata": {"n": i}});
    server.send(EDGE, &Value::Array((0..1_500).map(event).collect()));
    let check = || {
        for (condition, status, code, words) in [
            ("cast(event_message as int64) > 1", 400, "invalid_value", ["text", "INT64"]),
            ("1 / m.n > 0.5", 400, "invalid_value", ["division by zero", ""]),
            ("mod(7, m.n) = 1", 400, "invalid_value", ["division by zero", ""]),
            ("m.n * 9223372036854775807 > 1", 400, "invalid_value", ["overflow", ""]),
            ("parse_timestamp('%F', event_message) is not null", 400, "invalid_value", ["text", ""]),
            ("length(repeat(event_message, 100000)) > 1", 422, "limit_exceeded", ["too much", ""]),
            ("error('mine') = 'x'", 400, "invalid_value", ["mine", ""]),
        ] {
            let sql = format!("select id from edge_logs cross join unnest(metadata) as m where {condition}");
            println!("{condition}");
            server.sql(&sql).refused(status, code, &words);
        }
    };
    check();
    let segments = || {
        let folders = std::fs::read_dir(data.join("segments")).into_iter().flatten().flatten();
        folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten()).count()
    };
    until("a segment is written", || segments() > 0);
    check();
}

#[test]
fn log_drains_are_explained() {
    let server = Server::start();
    for path in ["/api/backends?metadata[type]=log-drain", "/api/rules", "/api/backends/7"] {
        for method in ["GET", "POST"] {
            let answer = server.call(method, path, &[("x-api-key", PRIVATE)], b"");
            answer.refused(404, "not_found", &["log drains", "no part of this service"]);
        }
    }
    let other = server.call("GET", "/api/rulesets", &[("x-api-key", PRIVATE)], b"").body.to_string();
    assert!(!other.contains("drains"), "{other}");
    let told = server.log().matches("a client asks for log drains").count();
    assert_eq!(told, 1, "once, however often it asks");
}

#[test]
fn a_request_has_one_host() {
    let server = Server::start();
    let ask = |head: &str| server.exchange(&[head.as_bytes()]);
    for bad in [
        "GET /health HTTP/1.1\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n",
        "GET /health HTTP/1.0\r\nhost: x\r\nhost: x\r\n\r\n",
    ] {
        let answer = ask(bad);
        assert!(answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.0 400 "), "{bad}: {answer}");
        assert!(answer.contains("connection: close") && answer.contains("invalid_parameter"), "{bad}: {answer}");
    }
    for good in ["GET /health HTTP/1.0\r\n\r\n", "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"] {
        assert!(ask(good).contains("200 OK"), "{good}");
    }
}

/// A query in bytes that are not unpacked is not called bad JSON.
#[test]
fn a_compressed_body_is_refused_where_none_is_read() {
    let server = Server::start();
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json"), ("content-encoding", "gzip")];
    for (method, path) in [
        ("POST", "/api/endpoints/query/logs.all"),
        ("POST", "/api/endpoints/logs.all/explain"),
        ("POST", "/api/endpoints"),
        ("PUT", "/api/endpoints/logs.all/component"),
    ] {
        let answer = server.call(method, path, &headers, &crate::doors::gzip(b"{}"));
        answer.refused(415, "unsupported_media_type", &["Content-Encoding", "gzip"]);
    }
}

#[test]
fn a_parameter_of_kind_json_takes_json() {
    let server = Server::start();
    let parameters = json!([{"name": "filter", "kind": "json"}, {"name": "text", "kind": "text"}]);
    let query = "SELECT JSON_VALUE(@filter, '$.level') AS level, @text AS text";
    server
        .manage("POST", "/api/endpoints", &json!({"name": "json.kind", "query": query, "parameters": parameters}))
        .is(201);
    let path = "/api/endpoints/query/json.kind";
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
    let ask = |body: &Value| server.call("POST", path, &headers, body.to_string().as_bytes());
    let level = [json!({"level": "info", "text": null})];
    assert_eq!(ask(&json!({"filter": {"level": "info"}})).rows(), level);
    assert_eq!(ask(&json!({"filter": "{\"level\": \"info\"}"})).rows(), level);
    assert_eq!(server.query("json.kind", &[("filter", "{\"level\": \"info\"}")]).rows(), level);
    ask(&json!({"filter": "{level"})).refused(400, "invalid_parameter", &["'filter'", "JSON"]);
    ask(&json!({"text": {"level": "info"}})).refused(400, "invalid_body", &["'text'", "must be a text"]);
    ask(&json!({"undeclared": [1]})).refused(400, "invalid_body", &["'undeclared'"]);
}

#[test]
fn the_advice_for_a_name_with_dots_can_be_followed() {
    let server = Server::start();
    server.send("postgres.logs", &json!({"metadata": [{"service.name": "a"}, {"service.name": "b"}]}));
    let sql = "select t.metadata.`service.name` as name from postgres_logs as t";
    let answer = server.sql(sql);
    answer.refused(400, "unknown_column", &["write x.`service.name`"]);
}
