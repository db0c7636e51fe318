//! The limits of one request: the smallest of what the server, the endpoint and the token allow.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, Server, binary, now, query_string, request};

/// Computes for ever and holds nothing: twenty logs, joined with themselves.
const ENDLESS: &str = "select count(*) as c from t a cross join t b cross join t c cross join t d cross join t e \
                       cross join t f cross join t g cross join t h where concat(a.id, h.id) = 'none'";

/// A server with settings, and twenty logs.
fn server(settings: &[(&str, &str)]) -> Server {
    let server = Server::start_set(settings);
    let events: Vec<Value> = (0..20).map(|i| request(&format!("e{i}"), now(), "/x")).collect();
    server.send(EDGE, &Value::Array(events));
    server
}

fn save(server: &Server, name: &str, limits: &Value) {
    let query = format!("WITH t AS (SELECT id, event_message FROM `{EDGE}`) SELECT id, event_message FROM t");
    let saved = json!({"name": name, "query": query, "sandboxable": true, "limits": limits});
    server.save(&saved);
}

fn token(server: &Server, limits: &Value) -> String {
    server.token(&json!({"scopes": "query", "limits": limits}))
}

#[test]
fn the_smallest_of_server_endpoint_and_token_holds() {
    let server = server(&[("TIDEGATE_LIMITS_ROWS", "10")]);
    for (name, limits) in
        [("plain", json!({})), ("three", json!({"rows": 3})), ("more", json!({"rows": 500, "request_time": "1 h"}))]
    {
        save(&server, name, &limits);
    }
    let (all, five) = (token(&server, &Value::Null), token(&server, &json!({"rows": "5"})));
    for (token, endpoint, rows) in [
        (&all, "plain", 10),
        (&all, "three", 3),
        (&all, "more", 10),
        (&five, "plain", 5),
        (&five, "three", 3),
        (&five, "more", 5),
    ] {
        let answer = server.query_as(token, endpoint, &[]);
        assert_eq!((answer.rows().len(), answer.header("x-result-truncated")), (rows, Some("true")), "{endpoint}");
        let adhoc = server.query_as(token, endpoint, &[("sql", "select 1 as n from unnest(generate_array(1, 20))")]);
        assert_eq!(adhoc.rows().len(), rows, "{endpoint}");
    }
}

#[test]
fn time_memory_and_size_are_limited_for_one_token_and_free_for_the_next() {
    let server = server(&[]);
    save(&server, "plain", &json!({}));
    let all = token(&server, &json!({}));
    let large = "select repeat('x', 1000) as t from unnest(generate_array(1, 20))";
    let sorted = "select sum(length(t)) as n from (select t from (select concat(repeat('x', 500), cast(n as string)) as t \
                  from unnest(generate_array(1, 20000)) n) order by t limit 19999)";
    for (limits, sql, status, code, words) in [
        (json!({"request_time": "300 ms"}), ENDLESS, 504, "timeout", "300 ms"),
        (json!({"answer_bytes": "2 KiB"}), large, 422, "limit_exceeded", "2048"),
        (json!({"statement_memory": "1 MiB"}), sorted, 422, "limit_exceeded", "memory"),
    ] {
        let held = token(&server, &limits);
        server.query_as(&held, "plain", &[("sql", sql)]).refused(status, code, &[words]);
        assert_eq!(server.query_as(&held, "plain", &[]).rows().len(), 20, "{limits}");
        if sql != ENDLESS {
            assert_eq!(server.query_as(&all, "plain", &[("sql", sql)]).status, 200, "{limits}");
        }
    }
    // The same, where the rows are sent as they come.
    let held = token(&server, &json!({"request_time": "300 ms"}));
    let parameters = [("sql", ENDLESS), ("format", "ndjson")];
    server.query_as(&held, "plain", &parameters).refused(504, "timeout", &["300 ms"]);
}

#[test]
fn lists_that_are_copied_into_many_rows_end_nothing_but_their_statement() {
    let server = server(&[]);
    save(&server, "plain", &json!({}));
    let held = token(&server, &json!({"request_time": "3 s", "statement_memory": "64 MiB"}));
    let run = |sql: &str| server.query_as(&held, "plain", &[("sql", sql)]);
    let only_length = "select (select count(*) from unnest(a) x where x = array_length(a)) as v \
                       from (select generate_array(1, 50000) as a)";
    assert_eq!(run(only_length).rows()[0]["v"], 1);
    let sets = "select array_includes_all(generate_array(1, 90000), array_reverse(generate_array(1, 90000))) as v";
    assert_eq!(run(sets).rows()[0]["v"], true);
    let numbers = "(select generate_array(1, 20000) as a) t";
    for sql in [
        format!("select sum(a[offset(mod(x, 10))]) as v from {numbers} cross join unnest(t.a) x"),
        format!("select sum(a[offset(mod(x, 10))]) as v from {numbers} cross join unnest(generate_array(1, 8000)) x"),
        format!(
            "select count(b) as v from (select first_value(a) over (order by x) as b from {numbers} \
             cross join unnest(generate_array(1, 8000)) x)"
        ),
        "select max(length(s)) as v from (select string_agg(repeat('a', 7000)) over (partition by div(x, 50) order by x) as s \
         from unnest(generate_array(0, 7999)) x)"
            .to_owned(),
    ] {
        run(&sql).refused(422, "limit_exceeded", &["memory"]);
    }
    // Offsets beyond 32 bits, and work that is long: either the time or the memory is over.
    for list in ["array(select mod(n, 2) = 0 from unnest(generate_array(1, 90000)) n)", "generate_array(1, 90000)"] {
        let sql =
            format!("select (select count(*) from unnest(a) x where x in unnest(a)) as v from (select {list} as a)");
        let began = std::time::Instant::now();
        let status = run(&sql).status;
        assert!([200, 422, 504].contains(&status), "{status}: {sql}");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}: {sql}", began.elapsed());
    }
    assert_eq!(server.query_as(&held, "plain", &[]).rows().len(), 20);
}

#[test]
fn a_kept_answer_is_given_to_those_with_the_same_limits_only() {
    let server = server(&[]);
    save(&server, "kept", &json!({}));
    let kept = json!({"cache_duration_seconds": 600});
    server.manage("PATCH", "/api/endpoints/kept", &kept).is(200);
    let (all, two, also_two) =
        (token(&server, &json!({})), token(&server, &json!({"rows": 2})), token(&server, &json!({"rows": 2})));
    for (token, rows, hit) in [(&all, 20, false), (&two, 2, false), (&also_two, 2, true), (&all, 20, true)] {
        let answer = server.query_as(token, "kept", &[]);
        let status = answer.header("cache-status").unwrap();
        assert_eq!((answer.rows().len(), status.contains("hit")), (rows, hit), "{status}");
    }
}

#[test]
fn limits_are_shown_changed_and_checked() {
    let server = server(&[]);
    save(&server, "mine", &json!({"rows": 3, "component_memory": "16 MiB"}));
    let shown = |path: &str| server.read(path)["limits"].clone();
    assert_eq!(shown("/api/endpoints/mine"), json!({"rows": "3", "component_memory": "16 MiB"}));
    let change = |body: Value| server.manage("PATCH", "/api/endpoints/mine", &body);
    // What is left out stays, what is sent replaces, null takes all away.
    assert_eq!(change(json!({"description": "x"})).body["limits"]["rows"], "3");
    assert_eq!(change(json!({"limits": {"statements": 2}})).body["limits"], json!({"statements": "2"}));
    assert_eq!(change(json!({"limits": null})).body["limits"], json!({}));
    for (limits, words) in [
        (json!({"row": 3}), "did you mean rows?"),
        (json!({"rows": 0}), "from 1 to 10000"),
        (json!({"request_time": 5}), "30 s"),
        (json!({"total_memory": "1 GiB"}), "whole server"),
        (json!([1]), "limits must be an object"),
    ] {
        change(json!({"limits": limits})).refused(422, "refused", &[words]);
        let refused = server.manage("POST", "/api/access-tokens", &json!({"scopes": "query", "limits": limits}));
        refused.refused(422, "refused", &[words]);
    }
    let made = json!({"scopes": "query", "limits": {"rows": 7}});
    let id = server.manage("POST", "/api/access-tokens", &made).body["id"].clone();
    assert_eq!(shown(&format!("/api/access-tokens/{}", id.as_str().unwrap())), json!({"rows": "7"}));
    let ingest = json!({"scopes": "ingest", "limits": {"rows": 7}});
    server.manage("POST", "/api/access-tokens", &ingest).refused(422, "refused", &["may not query"]);
    assert_eq!(server.query_as(&token(&server, &json!({})), "mine", &[]).rows().len(), 20);
}

#[test]
fn the_command_line_makes_tokens_with_limits() {
    let data = Data::new();
    let server = Server::start_in(&data);
    server.send(EDGE, &json!([request("1", now(), "/x"), request("2", now(), "/x")]));
    save(&server, "mine", &json!({}));
    let create = |limits: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["token", "create", "--scopes", "query", "--data-dir"]).arg(&data);
        for limit in limits {
            command.args(["--limit", limit]);
        }
        command.output().unwrap()
    };
    let made = create(&["rows=1", "request_time=5s"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let token = String::from_utf8(made.stdout).unwrap();
    assert_eq!(server.query_as(token.trim(), "mine", &[]).rows().len(), 1);
    let list = Command::new(binary()).args(["token", "list", "--data-dir"]).arg(&data).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains(r#"limits {"request_time":"5 s","rows":"1"}"#), "{list}");
    for (limits, words) in [
        (&["rows=0"][..], "from 1 to 10000"),
        (&["row=1"], "did you mean rows?"),
        (&["rows=1", "rows=2"], "twice"),
        (&["rows"], "NAME=VALUE"),
    ] {
        let refused = create(limits);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && told.contains(words), "{limits:?}: {told}");
    }
}

#[test]
fn a_token_that_takes_its_half_of_the_places_leaves_the_other_half() {
    let server = server(&[
        ("TIDEGATE_ADMISSION_CONCURRENCY", "4"),
        ("TIDEGATE_ADMISSION_QUEUE", "4"),
        ("TIDEGATE_ADMISSION_WAIT", "300 ms"),
        ("TIDEGATE_LIMITS_REQUEST_TIME", "4 s"),
    ]);
    save(&server, "plain", &json!({}));
    let (greedy, other) = (token(&server, &json!({})), token(&server, &json!({})));
    let running = || server.call("GET", "/ready", &[], b"").body["running"].as_u64().unwrap();
    std::thread::scope(|scope| {
        let ask_slowly = || server.query_as(&greedy, "plain", &[("sql", ENDLESS)]);
        let slow: Vec<_> = (0..8).map(|_| scope.spawn(ask_slowly)).collect();
        while running() < 2 {
            assert!(!slow.iter().all(|thread| thread.is_finished()), "none of them ran");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        for _ in 0..5 {
            assert_eq!(server.query_as(&other, "plain", &[]).rows().len(), 20);
            assert!(running() <= 2, "only its half runs");
        }
        let mut statuses: Vec<u16> = slow.into_iter().map(|thread| thread.join().unwrap().status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [429, 429, 429, 429, 429, 429, 504, 504]);
    });
    // A place goes with the work, and work stops at the next batch, which may be after its answer.
    let started = std::time::Instant::now();
    while running() > 0 {
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "the work goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(server.query_as(&greedy, "plain", &[]).rows().len(), 20, "its places are free again");
}

/// Names that nobody asked for cost their sender a refusal and the server next to nothing: they are refused before
/// they are compared with each other, and before anything of the query is done.
#[test]
fn thousands_of_parameters_are_refused_before_they_cost() {
    let server = server(&[]);
    let form: String = (0..120_000).map(|i| format!("{i:x}=&")).collect();
    let json: serde_json::Map<String, Value> = (0..40_000).map(|i| (format!("{i:x}"), json!(1))).collect();
    let json = Value::Object(json).to_string();
    assert!(form.len() < 900_000 && json.len() < 512 << 10, "{} {}", form.len(), json.len());
    let before = server.processor_time();
    for (kind, body) in [("application/x-www-form-urlencoded", &form[..500_000]), ("application/json", json.as_str())] {
        for _ in 0..4 {
            let headers = [("x-api-key", PRIVATE), ("content-type", kind)];
            let path = "/api/endpoints/query/logs.all?project=p1";
            let answer = server.call("POST", path, &headers, body.as_bytes());
            answer.refused(413, "too_large", &["more than 500 parameters"]);
        }
    }
    let path = format!("/api/endpoints/query/logs.all?project=p1&{}", &form[..60_000]);
    let answer = server.call("GET", &path, &[("x-api-key", PRIVATE)], b"");
    answer.refused(413, "too_large", &["more than 500 parameters"]);
    // Hundredths of a second; four such forms took more than a minute.
    let taken = server.processor_time() - before;
    assert!(taken < 1_000, "{taken}");
    // As many as there may be, and a long text that could name each of them.
    let most: String = (0..490).map(|i| format!("&p{i}=")).collect();
    let sql = format!("SELECT id FROM edge_logs /* {} */", "@ @p".repeat(60_000));
    let sql = query_string(&[("project", "p1"), ("sql", &sql)]);
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/x-www-form-urlencoded")];
    let answer = server.call("POST", "/api/endpoints/query/logs.all", &headers, format!("{sql}{most}").as_bytes());
    assert_eq!(answer.rows().len(), 20);
    // A pattern is no plain word, and may be long: it is checked where queries are computed.
    let counts = |project: &str| server.query("usage.api-counts", &[("interval", "hourly"), ("project", project)]);
    assert_eq!(counts("p1[.]").rows().len(), 1);
    counts("p1(").refused(400, "invalid_parameter", &["'project'", "unclosed group"]);
}
