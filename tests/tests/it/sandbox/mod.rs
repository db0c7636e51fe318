//! Attacks on ad-hoc queries: what was not granted cannot be read, whatever the spelling, and what
//! computes or grows without end is ended, while others are served.
//!
//! Each attack ends in a refusal with words that help, in a timeout, or in a bounded answer. What
//! lies in reach of a mistake carries a mark that no answer may ever hold.

mod bombs;
mod grants;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Answer, PRIVATE, Server, now};

const MARK: &str = "NOT-FOR-YOU";
const ROWS: usize = 50;
/// A second more than the server's limit of time, and some for a busy machine.
const PATIENCE: Duration = Duration::from_secs(8);
/// What a debug build may hold in all, in MiB: 170 at rest, 256 by its statements together, what
/// one call makes before it is counted, and what the allocator keeps. Unbounded, the attacks below
/// take many times as much.
const MEMORY: u64 = 700;
const SOURCE: &str = "postgres.logs";

fn server() -> Server {
    let server = Server::start_set(&[
        ("TIDEGATE_LIMITS_REQUEST_TIME", "3s"),
        ("TIDEGATE_LIMITS_STATEMENT_MEMORY", "64 MiB"),
        ("TIDEGATE_LIMITS_TOTAL_MEMORY", "256 MiB"),
        ("TIDEGATE_LIMITS_ANSWER_BYTES", "8 MiB"),
    ]);
    server.manage("POST", "/api/sources", &json!({"name": "secret.logs"})).is(201);
    server.send("secret.logs", &json!([{"id": MARK, "project": "p1", "event_message": MARK}]));
    let event = |i: usize| json!({"id": format!("e{i}"), "project": "p1", "timestamp": now(), "event_message": format!("{} {i}", "a".repeat(200)), "metadata": {"n": i, "request": {"path": format!("/x/{}", i % 7)}}});
    server.send(SOURCE, &Value::Array((0..2_000).map(event).collect()));
    server.send(
        SOURCE,
        &json!([{"id": MARK, "project": "p2", "event_message": MARK, "metadata": {"n": MARK, "request": {"path": MARK}}}]),
    );
    let query =
        "with logs as (select id, timestamp, event_message, metadata from `postgres.logs` where project = @project),
                      other as (select id, event_message from `cloudflare.logs.prod` where project = @project)
                 select id from logs";
    let endpoint = |name: &str, sandboxable: bool| {
        let body = json!({"name": name, "query": query, "sandboxable": sandboxable, "max_limit": ROWS,
                          "parameters": [{"name": "project", "required": true}]});
        server.save(&body);
    };
    endpoint("attack", true);
    endpoint("closed", false);
    server
}

/// An ad-hoc query in a body, where it may be long.
fn ask(server: &Server, endpoint: &str, sql: &str) -> Answer {
    let body = json!({"project": "p1", "sql": sql}).to_string();
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
    server
        .try_call("POST", &format!("/api/endpoints/query/{endpoint}"), &headers, body.as_bytes())
        .unwrap_or_else(|error| panic!("{}: {error}", short(sql)))
}

fn short(sql: &str) -> String {
    sql.chars().take(160).collect()
}

/// What is wrong with the answer to an attack.
fn wrong(sql: &str, answer: &Answer) -> Option<String> {
    let text = answer.body.to_string();
    if text.contains(MARK) {
        return Some(format!("the mark is in the answer: {text}"));
    }
    if answer.status == 200 {
        let rows = answer.rows().len();
        let cut = answer.header("x-result-truncated") == Some("true");
        return (rows > ROWS || (rows == ROWS && !cut)).then(|| format!("{rows} rows, cut: {cut}"));
    }
    let message = answer.body["error"]["message"].as_str().unwrap_or_default().to_lowercase();
    let words =
        ["datafusion", "arrowerror", "arrow error", "physical", "logical", "utf8", "panick", "optimizer", "sqlparser"];
    let good = matches!(answer.status, 400..500 | 504)
        && answer.body["error"]["code"].is_string()
        && message.len() > 10
        && !words.iter().any(|word| message.contains(word) && !sql.contains(word));
    (!good).then(|| format!("{}: {text}", answer.status))
}

fn bounded(sql: &str, answer: &Answer) {
    if let Some(wrong) = wrong(sql, answer) {
        panic!("{}: {wrong}", short(sql));
    }
}

/// One attack: it ends in time and well, and `also` holds of the answer.
fn attack(server: &Server, sql: &str, also: impl FnOnce(&Answer) -> bool) -> Option<String> {
    let began = Instant::now();
    let answer = ask(server, "attack", sql);
    let took = began.elapsed();
    let wrong = wrong(sql, &answer)
        .or_else(|| (took >= PATIENCE).then(|| format!("it took {took:?}")))
        .or_else(|| (!also(&answer)).then(|| format!("{}: {}", answer.status, short(&answer.body.to_string()))));
    wrong.map(|wrong| format!("{}\n    {wrong}", short(sql)))
}

/// All that is wrong is told at once.
fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} attacks end badly:\n{}", wrong.len(), wrong.join("\n"));
}

fn healthy(server: &Server, after: &str) {
    let began = Instant::now();
    server.call("GET", "/health", &[], b"").is(200);
    assert!(began.elapsed() < Duration::from_secs(1), "{}: /health took {:?}", short(after), began.elapsed());
    let answer = ask(server, "attack", "select id from logs where id = 'e7'");
    assert_eq!(answer.ids(), ["e7"], "{}", short(after));
    assert!(began.elapsed() < Duration::from_secs(4), "{}: a query took {:?}", short(after), began.elapsed());
}
