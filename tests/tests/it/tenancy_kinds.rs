//! Whose a row is, where the values of the key, or of what a tenant reads beside it, are of several kinds. One sender's kinds
//! neither let a tenant read rows of others nor keep it from its own.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_tests::{Server, folder, query_string, until};

fn start(data: &Path, flush: &str) -> Server {
    Server::start_set_in(data, &[("TIDEGATE_INGEST_FLUSH_INTERVAL", flush)])
}

/// A source, its key, its events in the order in which they come, and the ids that each tenant reads.
struct Case {
    name: &'static str,
    key: &'static str,
    events: Vec<Value>,
    read: Vec<(&'static str, Vec<&'static str>)>,
}

fn cases() -> Vec<Case> {
    vec![
        // Fractions of others, in records and lists of records that are read as a whole.
        Case {
            name: "fractions",
            key: "project",
            events: vec![
                json!({"id": "1", "project": "a", "metadata": {"ms": 12}, "l": [{"n": 1}]}),
                json!({"id": "2", "project": "b", "metadata": {"ms": 12.5}, "l": [{"n": 1.5}]}),
                json!({"id": "3", "project": "a", "metadata": {"ms": 13}, "l": [{"n": 2}, {"n": 3}]}),
            ],
            read: vec![("a", vec!["1", "3"]), ("b", vec!["2"])],
        },
        // Records that disagree, one of them with a value of another kind.
        Case {
            name: "lists",
            key: "l.p",
            events: vec![
                json!({"id": "1", "l": [{"p": "a"}, {"p": "a"}]}),
                json!({"id": "2", "l": [{"p": "a"}, {"p": 7}]}),
                json!({"id": "3", "l": [{"p": "a"}, {"p": true}]}),
                json!({"id": "4", "l": [{"p": "a"}, {"p": {"x": 1}}]}),
                json!({"id": "5", "l": [{"p": "a"}, {"p": ["a"]}]}),
                json!({"id": "6", "l": [{"p": "a"}, {"q": 1}]}),
            ],
            read: vec![("a", vec!["1", "6"]), ("7", vec![]), ("true", vec![])],
        },
        Case {
            name: "numbers",
            key: "l.p",
            events: vec![
                json!({"id": "1", "l": [{"p": 1}, {"p": 1}]}),
                json!({"id": "2", "l": [{"p": 1}, {"p": 1.5}]}),
                json!({"id": "3", "l": [{"p": 2}]}),
            ],
            read: vec![("1", vec!["1"]), ("2", vec!["3"])],
        },
        // A number is the tenant that it is, and no other that it begins with.
        Case {
            name: "fraction",
            key: "project",
            events: vec![
                json!({"id": "1", "project": 1}),
                json!({"id": "2", "project": 1.9}),
                json!({"id": "3", "project": 1.25}),
            ],
            read: vec![("1", vec!["1"])],
        },
        // The same tenant, whose own kinds count.
        Case {
            name: "whole",
            key: "project",
            events: vec![
                json!({"id": "1", "project": 1, "n": 5}),
                json!({"id": "2", "project": 1.0, "n": "text"}),
                json!({"id": "3", "project": "1", "n": {"x": 1}}),
            ],
            read: vec![("1", vec!["1", "2", "3"])],
        },
        // A record came first at the path of the key.
        Case {
            name: "record",
            key: "m.p",
            events: vec![
                json!({"id": "1", "m": {"p": {"x": 1}}}),
                json!({"id": "2", "m": {"p": "a"}}),
                json!({"id": "3", "m": {"p": 1}}),
                json!({"id": "4", "m": [{"p": "a"}, {"p": {"x": 1}}]}),
                json!({"id": "5", "m": [{"p": "a"}, {"p": "a"}]}),
            ],
            read: vec![("a", vec!["2", "5"]), ("1", vec!["3"])],
        },
        // A text that looks like a record is none.
        Case {
            name: "text",
            key: "m.p",
            events: vec![
                json!({"id": "1", "m": "a text"}),
                json!({"id": "2", "m": "{\"p\": \"a\"}"}),
                json!({"id": "3", "m": "[{\"p\": \"a\"}]"}),
            ],
            read: vec![("a", vec![])],
        },
        Case {
            name: "record-then-text",
            key: "m.p",
            events: vec![
                json!({"id": "1", "m": {"p": "a"}}),
                json!({"id": "2", "m": "{\"p\": \"a\"}"}),
                json!({"id": "3", "m": {"p": "a"}, "n": 1}),
            ],
            read: vec![("a", vec!["1", "3"])],
        },
    ]
}

/// Reads everything of each source for each tenant, in several forms.
fn check(server: &Server, tokens: &[(&'static str, String)], when: &str) {
    for Case { name, read, events, .. } in cases() {
        for (tenant, ids) in read {
            let (_, token) = tokens.iter().find(|(own, _)| *own == tenant).unwrap();
            for sql in
                ["SELECT * FROM t", "SELECT id, TO_JSON_STRING(t) AS j FROM t", "SELECT id FROM t WHERE id IS NOT NULL"]
            {
                let path = format!("/api/endpoints/query/read.{name}?{}", query_string(&[("sql", sql)]));
                let answer = server.call("GET", &path, &[("x-api-key", token)], b"");
                assert_eq!(answer.status, 200, "{name} for {tenant}, {when}, {sql}: {}", answer.body);
                let mut came: Vec<_> = answer.rows().iter().map(|row| row["id"].as_str().unwrap()).collect();
                came.sort_unstable();
                assert_eq!(came, ids, "{name} for {tenant}, {when}: {sql}");
            }
            // What is read of a row is what was sent.
            if events.iter().any(|event| event.get("n").is_some()) {
                let path =
                    format!("/api/endpoints/query/read.{name}?{}", query_string(&[("sql", "SELECT id, n FROM t")]));
                for row in server.call("GET", &path, &[("x-api-key", token)], b"").rows() {
                    let sent = events.iter().find(|event| event["id"] == row["id"]).unwrap();
                    assert_eq!(row["n"].is_null(), sent.get("n").is_none(), "{name} for {tenant}, {when}: {row}");
                }
            }
        }
    }
}

#[test]
fn one_senders_kinds_decide_nothing_for_others() {
    let own = folder();
    let data = own.path().join("data");
    let server = start(&data, "1 h");
    let tokens: Vec<(&str, String)> = ["a", "b", "1", "2", "7", "true"]
        .into_iter()
        .map(|tenant| {
            let rights = json!({"scopes": "query", "pinned": {"project": tenant}});
            let made = server.manage("POST", "/api/access-tokens", &rights);
            (tenant, made.body["token"].as_str().unwrap().to_owned())
        })
        .collect();
    for Case { name, key, events, .. } in cases() {
        server.manage("POST", "/api/sources", &json!({"name": name, "tenant": {"project": key}})).is(201);
        // Each in a call of its own: the first decides what comes first.
        for event in events {
            let mut event = event;
            event["event_message"] = json!("m");
            server.send(name, &json!([event]));
        }
        let query = format!("WITH t AS (SELECT * FROM `{name}`) SELECT id FROM t");
        server
            .manage(
                "POST",
                "/api/endpoints",
                &json!({"name": format!("read.{name}"), "query": query, "sandboxable": true}),
            )
            .is(201);
    }
    check(&server, &tokens, "in memory");
    server.stop("-TERM");
    let server = start(&data, "100 ms");
    for Case { name, .. } in cases() {
        until("a flush", || {
            let source = server.manage("GET", &format!("/api/sources/{name}"), &Value::Null);
            source.body["memory_rows"] == json!(0)
        });
    }
    check(&server, &tokens, "in segments");
}
