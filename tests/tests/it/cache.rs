//! Cached answers: who gets which, how old they may be, and when they are made anew.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, Server, iso, now, query_string, request, until};

/// An endpoint that counts the edge logs, with settings.
fn save(server: &Server, name: &str, settings: Value) {
    let mut body = json!({"name": name, "sandboxable": true, "query":
        format!("WITH edge AS (SELECT * FROM `{EDGE}`) SELECT COUNT(*) AS n, @who AS who FROM edge")});
    for (field, value) in settings.as_object().unwrap() {
        body[field] = value.clone();
    }
    server.save(&body);
}

fn add(server: &Server, id: &str) {
    server.send(EDGE, &json!([request(id, now(), "/rest")]));
}

fn status(answer: &Answer) -> &str {
    answer.header("cache-status").unwrap_or_default()
}

fn with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("x-api-key", PRIVATE)];
    all.extend_from_slice(headers);
    server.call("GET", path, &all, b"")
}

#[test]
fn an_answer_is_given_again_with_its_age_and_tag() {
    let server = Server::start();
    save(&server, "count", json!({"cache_duration_seconds": 600}));
    add(&server, "a");
    let first = server.query("count", &[]);
    assert_eq!((first.column("n"), status(&first)), (vec![json!(1)], "tidegate; fwd=miss; stored"));
    add(&server, "b");
    let second = server.query("count", &[]);
    assert_eq!(second.column("n"), [json!(1)], "the kept answer");
    assert!(status(&second).starts_with("tidegate; hit; ttl=5"), "{}", status(&second));
    assert!(second.header("age").unwrap().parse::<u64>().unwrap() < 60);
    let tag = second.header("etag").unwrap().to_owned();
    assert_eq!(first.header("etag"), Some(&*tag));
    let same = with(&server, "/api/endpoints/query/count", &[("if-none-match", &tag)]);
    assert_eq!((same.status, &same.body), (304, &Value::Null));
    assert_eq!(same.header("etag"), Some(&*tag));
    assert_eq!(with(&server, "/api/endpoints/query/count", &[("if-none-match", "\"x\"")]).status, 200);
    // By id it is the same answer; unknown parameters do not split the cache.
    let id = server.read("/api/endpoints/count")["id"].as_str().unwrap().to_owned();
    assert!(status(&server.query(&id, &[("utm_source", "x"), ("ref", "default")])).contains("hit"));
    // An endpoint that does not cache says so.
    let fresh = server.query("logs.all", &[("project", "p1")]);
    assert_eq!((status(&fresh), fresh.header("etag")), ("tidegate; fwd=bypass", None));
}

#[test]
fn what_shapes_an_answer_splits_the_cache() {
    let server = Server::start();
    save(&server, "count", json!({"cache_duration_seconds": 600}));
    add(&server, "a");
    let path = |parameters: &[(&str, &str)]| format!("/api/endpoints/query/count?{}", query_string(parameters));
    let sql = "select id from edge where id = @wanted";
    let different: Vec<(String, Vec<(&str, &str)>)> = vec![
        (path(&[]), vec![]),
        (path(&[("who", "x")]), vec![]),
        (path(&[("who", "y")]), vec![]),
        (path(&[("who", "")]), vec![]),
        (path(&[]), vec![("svc-endpoint-redact-pii", "true")]),
        (path(&[("sql", "select 1 as n")]), vec![]),
        (path(&[("sql", "select 2 as n")]), vec![]),
        (path(&[("lql", "f:edge")]), vec![]),
        (path(&[("sql", sql), ("wanted", "a")]), vec![]),
        (path(&[("sql", sql), ("wanted", "b")]), vec![]),
    ];
    for (path, headers) in &different {
        let answer = with(&server, path, headers);
        assert_eq!((answer.status, status(&answer)), (200, "tidegate; fwd=miss; stored"), "{path}: {}", answer.body);
    }
    for (path, headers) in &different {
        let answer = with(&server, path, headers);
        assert!(status(&answer).starts_with("tidegate; hit"), "{path} {headers:?}");
    }
    assert_eq!(with(&server, &different[8].0, &[]).ids(), ["a"]);
    assert!(with(&server, &different[9].0, &[]).rows().is_empty());
}

#[test]
fn a_redacted_answer_is_never_shared_with_one_that_is_not() {
    let server = Server::start();
    server.send(EDGE, &json!([{"id": "a", "timestamp": iso(now()), "event_message": "from 192.0.2.7"}]));
    let query = format!("SELECT event_message FROM `{EDGE}`");
    let saved = json!({"name": "texts", "query": query, "cache_duration_seconds": 600});
    server.save(&saved);
    let path = "/api/endpoints/query/texts";
    for _ in 0..2 {
        let plain = with(&server, path, &[]);
        assert_eq!(plain.column("event_message"), [json!("from 192.0.2.7")]);
        let masked = with(&server, path, &[("lf-endpoint-redact-pii", "true")]);
        assert_eq!(masked.column("event_message"), [json!("from REDACTED")]);
    }
    // Switching the endpoint's own setting on holds from the next request on.
    server.manage("PATCH", "/api/endpoints/texts", &json!({"redact_pii": true})).is(200);
    assert_eq!(with(&server, path, &[]).column("event_message"), [json!("from REDACTED")]);
}

#[test]
fn identical_requests_at_once_execute_once() {
    let server = Server::start();
    // The time of the execution is in the answer: more than one execution shows more than one.
    let slow = "SELECT CURRENT_TIMESTAMP() AS at, COUNT(*) AS n FROM UNNEST(GENERATE_ARRAY(1, 700)) AS a, \
                UNNEST(GENERATE_ARRAY(1, 700)) AS b WHERE MOD(a * b, 7) = 1";
    let saved = json!({"name": "slow", "query": slow, "cache_duration_seconds": 600});
    server.save(&saved);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..24).map(|_| scope.spawn(|| server.query("slow", &[]))).collect();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let times = tidegate_tests::set(answers.iter().map(|answer| answer.column("at")[0].to_string()));
    assert_eq!(times.len(), 1, "{times:?}");
    assert_eq!(answers.iter().filter(|answer| status(answer) == "tidegate; fwd=miss; stored").count(), 1);
    assert!(answers.iter().any(|answer| status(answer).contains("collapsed")));
}

#[test]
fn a_change_of_the_endpoint_drops_its_answers() {
    let server = Server::start();
    save(&server, "count", json!({"cache_duration_seconds": 600}));
    for change in [
        json!({"max_limit": 5}),
        json!({"sandboxable": false}),
        json!({"redact_pii": true}),
        json!({"query": format!("SELECT COUNT(*) AS n FROM `{EDGE}`")}),
        json!({"cache_duration_seconds": 500}),
    ] {
        server.query("count", &[]);
        assert!(status(&server.query("count", &[])).contains("hit"));
        server.manage("PATCH", "/api/endpoints/count", &change).is(200);
        assert!(status(&server.query("count", &[])).contains("miss"), "{change}");
    }
    server.manage("PATCH", "/api/endpoints/count", &json!({"cache_duration_seconds": 0})).is(200);
    assert!(status(&server.query("count", &[])).contains("bypass"));
}

#[test]
fn an_answer_expires() {
    let server = Server::start();
    save(&server, "count", json!({"cache_duration_seconds": 1}));
    server.query("count", &[]);
    add(&server, "a");
    until("the answer expires", || server.query("count", &[]).column("n") == [json!(1)]);
}

#[test]
fn failures_are_not_kept() {
    let server = Server::start();
    let saved = json!({"name": "broken", "query": "SELECT CAST(@x AS INT64) AS n", "cache_duration_seconds": 600});
    server.save(&saved);
    for _ in 0..2 {
        let answer = server.query("broken", &[("x", "a")]);
        assert_eq!((answer.status, answer.header("etag")), (400, None), "{}", answer.body);
    }
}

/// Warming works without a request, and stops for what nobody reads.
#[test]
fn what_someone_asked_for_is_made_anew_in_time() {
    let server = Server::start();
    save(&server, "count", json!({"cache_duration_seconds": 4, "proactive_requerying_seconds": 1}));
    let first = server.query("count", &[]);
    assert_eq!(first.column("n"), [json!(0)]);
    add(&server, "a");
    // Far within its lifetime the answer is new, and nobody had to wait for it: never a miss.
    until("the answer is made anew", || {
        let answer = server.query("count", &[]);
        assert!(status(&answer).contains("hit"), "{}", status(&answer));
        answer.column("n") == [json!(1)]
    });
    // Nobody reads it for more than its lifetime: it is gone.
    std::thread::sleep(Duration::from_millis(9_500));
    assert!(status(&server.query("count", &[])).contains("miss"));
}

#[test]
fn a_refresh_that_fails_leaves_the_old_rows_marked_stale() {
    let server = Server::start();
    // A text that is no number makes the statement fail from the moment it comes.
    let query = format!("SELECT SUM(CAST(event_message AS INT64)) AS n FROM `{EDGE}`");
    let settings = json!({"query": query, "cache_duration_seconds": 60, "proactive_requerying_seconds": 1});
    save(&server, "sum", settings);
    server.send(EDGE, &json!([{"id": "a", "event_message": "5"}]));
    assert_eq!(server.query("sum", &[]).column("n"), [json!(5)]);
    server.send(EDGE, &json!([{"id": "b", "event_message": "no number"}]));
    until("the refresh fails", || {
        let answer = server.query("sum", &[]);
        assert_eq!(answer.column("n"), [json!(5)], "the old rows are served");
        status(&answer).contains("stale")
    });
    assert!(server.log().contains("could not be refreshed"));
}

#[test]
fn the_memory_of_the_cache_is_bounded() {
    let server = Server::start_set(&[("TIDEGATE_CACHE_MEMORY", "4 MiB")]);
    let query = "SELECT REPEAT(@who, 200000) AS text";
    let saved = json!({"name": "long", "query": query, "cache_duration_seconds": 600});
    server.save(&saved);
    let before = server.peak_memory();
    for i in 0..400 {
        server.query("long", &[("who", &format!("{}", i % 10)), ("x", "")]).is(200);
        server.query("long", &[("who", &format!("{}", 100 + i))]).is(200);
    }
    let grown = server.peak_memory() - before;
    // 400 answers of 600 kB and more would be 240 MB.
    assert!(grown < 120, "the server grew by {grown} MiB");
}
