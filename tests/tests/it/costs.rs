//! What queries cost: the header of their answers, and the slowest of them.

use serde_json::{Value, json};
use tidegate_tests::{Answer, PRIVATE, PUBLIC, Server, now, request};

/// The figure of that name in the header of the cost.
fn cost(answer: &Answer, name: &str) -> Option<u64> {
    let header = answer.header("x-tidegate-cost")?;
    let mut parts = header.split(", ").filter_map(|part| part.split_once('='));
    parts.find(|(own, _)| *own == name).and_then(|(_, value)| value.parse().ok())
}

fn slow_queries(server: &Server) -> Vec<Value> {
    server.manage("GET", "/api/slow-queries", &json!(null)).body.as_array().unwrap().clone()
}

#[test]
fn private_tokens_are_told_what_an_answer_cost() {
    let server = Server::start();
    let events: Vec<Value> = (0..50).map(|n| request(&format!("e{n}"), now() - n, "/a")).collect();
    server.send("cloudflare.logs.prod", &json!(events));
    let fields = json!({
        "name": "edge",
        "query": "WITH e AS (SELECT id, project FROM `cloudflare.logs.prod`) SELECT COUNT(*) AS n FROM e",
        "sandboxable": true,
    });
    server.save(&fields);
    let ask = |token: &str, query: &str| {
        server.call("GET", &format!("/api/endpoints/query/edge{query}"), &[("x-api-key", token)], b"")
    };
    let sql = "?sql=SELECT%20COUNT(DISTINCT%20id)%20AS%20n%20FROM%20e%20WHERE%20id%20%3C%3E%20%27e0%27";
    let answer = ask(PRIVATE, sql);
    assert_eq!(answer.rows(), [json!({"n": 49})]);
    assert_eq!((cost(&answer, "statements"), cost(&answer, "rows-read")), (Some(1), Some(50)));
    assert!(cost(&answer, "memory").unwrap() > 0);
    // It tells about rows that others may not see.
    let made = server.manage("POST", "/api/access-tokens", &json!({"scopes": "query"})).body;
    let answer = ask(made["token"].as_str().unwrap(), sql);
    assert_eq!((answer.status, answer.header("x-tidegate-cost")), (200, None));
    // A statement that reads nothing.
    let answer = ask(PRIVATE, "?sql=SELECT%201%20AS%20one");
    assert_eq!((cost(&answer, "statements"), cost(&answer, "rows-read")), (Some(1), Some(0)));
}

/// Of a segment they are not made; they were read all the same.
#[test]
fn rows_that_are_only_counted_are_among_those_that_were_read() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    let events: Vec<Value> = (0..200).map(|n| request(&format!("e{n}"), now() - n, "/a")).collect();
    server.send("cloudflare.logs.prod", &json!(events));
    let query = "WITH e AS (SELECT id, project FROM `cloudflare.logs.prod`) SELECT project, COUNT(*) AS n FROM e GROUP BY project";
    let fields = json!({"name": "edge", "query": query, "cache_duration_seconds": 0});
    server.save(&fields);
    let counted = || {
        let answer = server.call("GET", "/api/endpoints/query/edge", &[("x-api-key", PRIVATE)], b"");
        assert_eq!(answer.column("n"), [json!(200)]);
        assert_eq!(cost(&answer, "rows-read"), Some(200));
    };
    counted();
    server.until_flushed();
    counted();
}

#[test]
fn the_slowest_queries_are_listed_with_their_text() {
    let server = Server::start();
    assert_eq!(slow_queries(&server), [json!(null); 0]);
    let long = format!("SELECT 1 AS one -- {}é", "x".repeat(1_980));
    for sql in ["SELECT 1 AS one", "SELECT wrong", &long] {
        server.sql(sql);
    }
    let kept = json!({"name": "kept", "query": "SELECT 1 AS one", "cache_duration_seconds": 60});
    server.save(&kept);
    for _ in 0..3 {
        server.query("kept", &[]).is(200);
    }
    let listed = slow_queries(&server);
    let of = |text: &Value| listed.iter().filter(|one| one["text"] == *text).collect::<Vec<_>>();
    let one = of(&json!("SELECT 1 AS one"))[0];
    assert_eq!((&one["language"], &one["status"], &one["statements"]), (&json!("sql"), &json!(200), &json!(1)));
    assert_eq!((&one["text_is_cut"], &one["endpoint"]["name"]), (&json!(false), &json!("logs.all")));
    assert!(one["milliseconds"].as_f64().unwrap() > 0.0, "{one}");
    assert_eq!(of(&json!("SELECT wrong"))[0]["status"], json!(400));
    // This server has no workers.
    assert_eq!((&one["tasks"], &one["moves"], &one["workers"]), (&json!(0), &json!(0), &json!([])));
    // A text is cut between characters.
    let cut = listed.iter().find(|one| one["text_is_cut"] == true).unwrap();
    assert_eq!(cut["text"].as_str().unwrap().len(), 1_999);
    // One ran, the others were answered from the cache.
    assert_eq!(listed.iter().filter(|one| one["endpoint"]["name"] == "kept").count(), 1);
    let times: Vec<f64> = listed.iter().map(|one| one["milliseconds"].as_f64().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    let printed = String::from_utf8(server.client(&["slow-queries", "--most", "2"]).output().unwrap().stdout).unwrap();
    assert_eq!((printed.lines().count(), printed.contains("0 rows and 0 bytes read")), (4, true), "{printed}");
    let stranger = server.call("GET", "/api/slow-queries", &[("x-api-key", PUBLIC)], b"");
    stranger.refused(403, "forbidden", &[]);
}
